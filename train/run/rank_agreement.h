// Checks that ranks which were started separately (by mpirun on several machines) run one program with one
// configuration. They compare before anything else, so that a difference is reported instead of causing a hang or wrong
// results.
#pragma once

#include <string>
#include <string_view>

#include "runtime/comm/communicator.h"
#include "train/config/config.h"

namespace weft::train {

/// The build id of the running executable in hexadecimal, which is equal exactly for equal builds; "" if it has none.
std::string build_id();

/// Throws the same UserError on every rank, naming the difference and both values, unless all ranks run one build with
/// the same versions of libraries. Collective over the world.
void expect_same_build(comm::World& world);

/// The same for the level of each rank's kernels. Ranks don't fall back to the lowest level by themselves: the bits of
/// a run would depend on the machines that it was given. Collective over the world.
void expect_same_kernels(comm::World& world, std::string_view level);

/// The same for configurations, not yet resolved: names the first key that differs. `run-dir` may differ, as rank 0's
/// is taken, and `threads`, as it changes no result. Ranks of one build only. Collective over the world.
void expect_same_config(comm::World& world, const RunConfig& config);

/// The same for the model of resolved configurations, whose sizes may come from each rank's own copy of a folder.
void expect_same_model(comm::World& world, const RunConfig& config);

}  // namespace weft::train
