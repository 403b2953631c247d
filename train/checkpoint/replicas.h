// Checks that ranks with the same elements of a parameter hold equal values; otherwise their training would silently
// diverge.
#pragma once

#include <span>

#include "runtime/comm/communicator.h"
#include "train/checkpoint/parameter_state.h"

namespace weft::train {

/// Throws the same UserError on every rank, naming a parameter and two ranks, unless equal elements have equal values
/// on all of them. Values from one seed or from equal files only differ if one machine's C library or processor
/// computes other logarithms, or if memory is damaged. Costs one pass over the elements that other ranks hold too.
/// Collective over the world.
void expect_equal_replicas(comm::World& world, std::span<const ParameterState> parameters);

}  // namespace weft::train
