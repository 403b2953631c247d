// What the training graph finds in its state: where its parameters lie, and what the loop writes before each step.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/sharding.h"
#include "runtime/execute/state.h"
#include "train/checkpoint/parameter_state.h"
#include "train/config/config.h"

namespace weft::train {

/// The parameters of a program with their optimizer state. `shards` must outlive the result.
std::vector<MutableParameterState> training_arrays(const execute::State& state,
                                                   const std::vector<ops::ParameterShard>& shards, DType dtype);

/// The parameters alone, to be loaded. `shards` must outlive the result.
std::vector<MutableParameterState> weights_of(const execute::State& state,
                                              const std::vector<ops::ParameterShard>& shards, DType dtype);

/// Initial values of parameters, by the configuration's seed.
void initialize_parameters(const std::vector<MutableParameterState>& parameters, std::uint64_t seed);

/// Writes what a rank's state needs to know of its place, as far as its graphs ask for it.
void set_coordinates(const execute::State& state, const graph::Grid& grid, const graph::Coordinates& at);

/// What stays the same over all steps: the rank's place, and what its dropout masks are numbered by.
void write_constants(const execute::State& state, const RunConfig& config, const graph::Coordinates& at);

/// Learning rate, AdamW's corrections, the loss's scale and the dropout's step.
void write_scalars(const execute::State& state, const RunConfig& config, std::int64_t step);

}  // namespace weft::train
