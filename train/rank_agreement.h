// Ranks that were started apart, by mpirun on several machines say, have to be one program with one configuration:
// compared before anything else, so that a difference is named instead of met as a hang or as wrong numbers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "train/config.h"

namespace weft {

/// The build id that the linker gave to the running executable, in hexadecimal: equal exactly for equal builds. "" if
/// it has none.
std::string build_id();

/// Throws the same UserError on every rank, naming what differs and both values, unless all ranks run one build with
/// libraries of the same versions. Collective over the world.
void expect_same_build(World& world);

/// The same for configurations, not yet resolved: names the first key that differs. `run-dir` may differ, as rank 0's
/// is taken, and `threads`, as it changes no result. Ranks of one build only. Collective over the world.
void expect_same_config(World& world, const RunConfig& config);

/// The same for the model of resolved configurations, whose sizes may come from each rank's own copy of a folder.
void expect_same_model(World& world, const RunConfig& config);

/// Runs `act` on every rank. Where it throws UserError on any of them, all throw that of the first, so that none waits
/// for another: with the rank's number, unless all said the same. Collective over the world.
void act_together(World& world, const std::function<void()>& act);

/// What a rank has found in files that it sees and others may not: {"checkpoint step", "200"}.
struct Fact {
  std::string name, value;
};

/// Throws the same UserError on every rank, naming what differs and both values, unless all have the same facts, of
/// the same names. Collective over the world.
void expect_same_facts(World& world, const std::vector<Fact>& facts);

/// Rank 0's text, on every rank.
std::string text_of_rank_0(World& world, const std::string& text);

}  // namespace weft
