// The state of the training graph: its parameters with their initial values, and the values that the loop writes before
// each step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "ops/model_config.h"
#include "ops/sharding.h"
#include "runtime/execute/state.h"
#include "train/checkpoint/parameter_state.h"
#include "train/config/config.h"

namespace weft::train {

/// Fills a rank's part of a parameter: `data` with the elements [begin, end) of its block, and `master`, unless it is
/// null, with the elements [update_begin, update_end) in fp32, before rounding. Padding becomes zero.
void initialize_parameter(const ops::ParameterShard& shard, std::uint64_t seed, DType dtype, void* data, float* master);

/// Fills a whole parameter (rows × cols, row-major) with its specification's initial values: N(0, std²), uniform in
/// [-std, std), zeros or ones. Element i of parameter site s draws Philox(seed, s, i), normal ones through Box and
/// Muller's transform, so the values are the same on any grid. `master`, the fp32 copy of a bf16 parameter, may be
/// null; it gets the values before rounding.
void initialize_parameter(const ops::ParameterSpec& spec, std::uint64_t seed, DType dtype, void* data, float* master);

/// The parameters of a program with their optimizer state, if it has any. `shards` must outlive the result.
std::vector<ParameterState> training_arrays(const execute::State& state, const std::vector<ops::ParameterShard>& shards,
                                            DType dtype);

/// Initial values of parameters, by the configuration's seed.
void initialize_parameters(const std::vector<ParameterState>& parameters, std::uint64_t seed);

/// Writes a rank's coordinates into its state, as far as its graphs read them.
void set_coordinates(const execute::State& state, const graph::Grid& grid, const graph::Coordinates& at);

/// Writes the values that are constant over all steps: the rank's coordinates, and the numbers of its dropout masks.
void write_constants(const execute::State& state, const RunConfig& config, const graph::Coordinates& at);

/// Writes an input, if the state has it: only a pipeline's first stage reads tokens, and only its last one targets.
void write_ids(const execute::State& state, const char* name, std::span<const std::int32_t> ids);

/// Learning rate, AdamW's corrections, the loss's scale and the dropout's step. `counted`: targets of the step, over
/// all ranks, that its loss is the mean of; nullopt: each of them. `decayed`: see LearningRate::at().
void write_scalars(const execute::State& state, const RunConfig& config, std::int64_t step,
                   std::optional<std::int64_t> counted = std::nullopt, double decayed = 0);

}  // namespace weft::train
