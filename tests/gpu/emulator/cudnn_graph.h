// cuDNN's descriptors as the emulator keeps them, and the graphs of operations that they describe, computed on the CPU.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "tests/gpu/emulator/cudnn.h"

namespace weft::emulator {

/// Attributes by name: numbers (also enumerations and addresses) or other descriptors.
struct CudnnNode {
  cudnnBackendDescriptorType_t type;
  std::map<cudnnBackendAttributeName_t, std::vector<std::int64_t>> numbers = {};
  std::map<cudnnBackendAttributeName_t, std::vector<std::shared_ptr<const CudnnNode>>> parts = {};
  CudnnEngine engine = {};  // of a proposal, and of what comes of it

  std::int64_t number(cudnnBackendAttributeName_t name) const { return numbers.at(name).at(0); }
  const CudnnNode& part(cudnnBackendAttributeName_t name) const { return *parts.at(name).at(0); }
};

/// Computes the operations of a graph one after the other, on the arguments of a variant pack. A product's sums are cut
/// in so many pieces. Throws std::logic_error for an operation that it doesn't know.
void compute_graph(const CudnnNode& graph, const CudnnNode& pack, std::int64_t pieces);

}  // namespace weft::emulator
