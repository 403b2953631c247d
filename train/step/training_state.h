// The state of the training graph: its parameters with their initial values, and the values that the loop writes before
// each step, the learning rate among them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "ops/lower.h"
#include "ops/model_config.h"
#include "ops/sharding.h"
#include "runtime/execute/state.h"
#include "train/checkpoint/parameter_state.h"
#include "train/config/config.h"

namespace weft::train {

/// The parameters that the rank at `at` has. `specs` must outlive the result.
std::vector<ops::ParameterShard> shards_of(const RunConfig& config, const std::vector<ops::ParameterSpec>& specs,
                                           const graph::Coordinates& at);

/// The parameters that only ranks of other stages have.
std::vector<ops::ParameterSpec> parameters_elsewhere(const RunConfig& config,
                                                     const std::vector<ops::ParameterSpec>& specs,
                                                     const graph::Coordinates& at);

/// Fills a rank's part of a parameter with its specification's initial values: N(0, std²), uniform in [-std, std),
/// zeros or ones. `data` gets the elements [begin, end) of its block, and `master`, unless it is null, the elements
/// [update_begin, update_end) in fp32, before rounding. Padding becomes zero. Element i of the whole parameter at site
/// s draws Philox(seed, s, i), normal ones through Box and Muller's transform, so the values are the same on any grid.
void initialize_parameter(const ops::ParameterShard& shard, std::uint64_t seed, DType dtype, void* data, float* master);

/// The parameters of a program with their optimizer state, if it has any. `shards` must outlive the result.
std::vector<ParameterState> training_arrays(const execute::State& state, const std::vector<ops::ParameterShard>& shards,
                                            DType dtype);

/// Initial values of parameters, by the configuration's seed.
void initialize_parameters(const std::vector<ParameterState>& parameters, std::uint64_t seed);

/// The learning rate of a step.
/// Warm-up: lr·(step+1)/warmup for step < warmup. Then, with s = warmup + `decayed`·(steps − warmup), but at least
/// `step`, and r = (s − warmup)/(steps − warmup), at most 1:
///   cosine    min_lr + ½(1 + cos πr)(lr − min_lr)          (Loshchilov and Hutter, SGDR, 2017)
///   linear    lr − r(lr − min_lr)
///   constant  lr
///   wsd       lr up to s = ⌊0.8·steps⌋, then min_lr + (1 − √q)(lr − min_lr), q counting the rest from 0 to 1
///             (Hägele et al., "Scaling laws beyond fixed training durations", 2024; warm-up, stable, decay)
/// `decayed`: the share of the decay that must be over, in [0, 1]; a run with a time limit can't do all of its steps.
double learning_rate(const RunConfig& config, std::int64_t step, double decayed = 0);

/// Writes a rank's coordinates into its state, as far as its graphs read them.
void set_coordinates(const execute::State& state, const graph::Grid& grid, const graph::Coordinates& at);

/// Writes the position at which the rank's rows of its sequences begin, if the state has it.
void set_first_position(const execute::State& state, const ops::StepConfig& step, const graph::Coordinates& at);

/// Writes the values that are constant over all steps: the rank's coordinates, and the numbers of its dropout masks.
void write_constants(const execute::State& state, const RunConfig& config, const graph::Coordinates& at);

/// Writes an input, if the state has it: only a pipeline's first stage reads tokens, and only its last one targets.
void write_ids(const execute::State& state, const char* name, std::span<const std::int32_t> ids);

/// Learning rate, AdamW's corrections, the loss's scale and the dropout's step. `counted`: targets of the step, over
/// all ranks, that its loss is the mean of; nullopt: each of them. `decayed`: see learning_rate().
void write_scalars(const execute::State& state, const RunConfig& config, std::int64_t step,
                   std::optional<std::int64_t> counted = std::nullopt, double decayed = 0);

}  // namespace weft::train
