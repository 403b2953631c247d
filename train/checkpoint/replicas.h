// Ranks that hold the same elements of a parameter hold the same values, or train apart without a word.
#pragma once

#include <span>

#include "runtime/comm/communicator.h"
#include "train/checkpoint/parameter_state.h"

namespace weft::train {

/// Throws the same UserError on every rank, naming a parameter and two ranks, unless equal elements have equal values
/// on all of them. Made from one seed or read from equal files they have, but for a C library or a processor that
/// computes logarithms otherwise on one machine, or for damaged memory. Costs one pass over what other ranks hold
/// too. Collective over the world.
void expect_equal_replicas(comm::World& world, std::span<const MutableParameterState> parameters);

}  // namespace weft::train
