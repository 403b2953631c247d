// A packed matrix made of several stored tensors, for tests of checkpoints.
#pragma once

#include <utility>
#include <vector>

#include "ops/model_config.h"

namespace weft::testing {

inline ops::ParameterSpec packed_spec(std::int64_t rows, std::int64_t cols, std::vector<ops::StoredTensor> stored) {
  ops::ParameterSpec spec;
  spec.name = "packed";
  spec.rows = rows;
  spec.cols = cols;
  spec.matrix = true;
  spec.stored = std::move(stored);
  return spec;
}

}  // namespace weft::testing
