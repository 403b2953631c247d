// Initial values of parameters: a pure function of the seed and each element's place in the whole model.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "ops/model_config.h"
#include "ops/sharding.h"

namespace weft::train {

/// Fills a rank's part of a parameter: `data` with the elements [begin, end) of its block, and `master`, unless it is
/// null, with the elements [update_begin, update_end) in fp32, before rounding. Padding becomes zero.
void initialize_parameter(const ops::ParameterShard& shard, std::uint64_t seed, DType dtype, void* data, float* master);

/// Fills a whole parameter (rows × cols, row-major) with its specification's initial values: N(0, std²), uniform in
/// [-std, std), zeros or ones. Element i of parameter site s draws Philox(seed, s, i), normal ones through Box and
/// Muller's transform, so the values are the same on any grid. `master`, the fp32 copy of a bf16 parameter, may be
/// null; it gets the values before rounding.
void initialize_parameter(const ops::ParameterSpec& spec, std::uint64_t seed, DType dtype, void* data, float* master);

}  // namespace weft::train
