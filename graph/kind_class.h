// The eight classes that every drawing, timeline and report tells tasks apart by.
#pragma once

#include <cstdint>

#include "graph/operation.h"

namespace weft {

enum class KindClass : std::uint8_t {
  gemm,
  attention,
  elementwise,
  all_gather,
  reduce_scatter,
  all_reduce,
  copy,
  optimizer
};

/// Norms, activations, embeddings and losses count as elementwise; norm and clipping of gradients as optimizer.
KindClass kind_class(const Operation& operation);

}  // namespace weft
