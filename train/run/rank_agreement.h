// Ranks that were started apart, by mpirun on several machines say, have to be one program with one configuration:
// compared before anything else, so that a difference is named instead of met as a hang or as wrong numbers.
#pragma once

#include <string>

#include "runtime/comm/communicator.h"
#include "train/config/config.h"

namespace weft::train {

/// The build id that the linker gave to the running executable, in hexadecimal: equal exactly for equal builds. "" if
/// it has none.
std::string build_id();

/// Throws the same UserError on every rank, naming what differs and both values, unless all ranks run one build with
/// libraries of the same versions. Collective over the world.
void expect_same_build(comm::World& world);

/// The same for configurations, not yet resolved: names the first key that differs. `run-dir` may differ, as rank 0's
/// is taken, and `threads`, as it changes no result. Ranks of one build only. Collective over the world.
void expect_same_config(comm::World& world, const RunConfig& config);

/// The same for the model of resolved configurations, whose sizes may come from each rank's own copy of a folder.
void expect_same_model(comm::World& world, const RunConfig& config);

}  // namespace weft::train
