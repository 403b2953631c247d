// Starts a run's ranks, as threads of this process or as processes that a launcher started, on one configuration and
// one build. Ranks that were started separately compare before anything else, so that a difference is reported instead
// of causing a hang or wrong results.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/tcp.h"
#include "train/config/config.h"
#include "train/config/resolved_run.h"

namespace weft::train {

/// Changes a configuration to suit a number of ranks, before it is resolved.
using AdjustConfig = std::function<void(RunConfig&, std::int64_t ranks)>;

struct RankCount {
  std::int64_t all = 1, on_node = 1;  // on_node: of rank 0, itself included
};

/// Settings for a configuration whose grid is to be chosen (RunConfig::grid_auto), the grid among them.
using ChooseGrid = std::function<std::vector<Setting>(const RunConfig&, const RankCount&)>;

/// Resolves `config`, once per process, runs `body` on each rank and returns the exit code (see run_ranks). Ranks are
/// processes that meet over TCP if the configuration says so (RunConfig::launch), or those of mpirun if it started this
/// process, else threads. Processes must have equal configurations (see expect_same_config()) and use rank 0's run
/// folder, whose default name has the time of the start. `choose` is called once a run, by rank 0, whose choice all
/// ranks take; without it such a grid is refused. If resolving throws UserError, it is rethrown for ranks that are
/// threads, and reported once for processes.
int run_on_ranks(RunConfig config, const std::function<int(comm::World&, const ResolvedRun&)>& body,
                 const AdjustConfig& adjust = {}, const ChooseGrid& choose = {});

/// The settings of processes that meet over TCP. Reads the file of their token, and makes the user's own if it is
/// missing. Throws UserError.
comm::TcpSettings tcp_settings(const RunConfig& config);

/// The build id of the running executable in hexadecimal, which is equal exactly for equal builds; "" if it has none.
std::string build_id();

/// Throws the same UserError on every rank, naming the difference and both values, unless all ranks run one build with
/// the same versions of libraries. Collective over the world.
void expect_same_build(comm::World& world);

/// The same for the level of each rank's kernels. Ranks don't fall back to the lowest level by themselves: the bits of
/// a run would depend on the machines that it was given. Collective over the world.
void expect_same_kernels(comm::World& world, std::string_view level);

/// The same for configurations, not yet resolved: names the first key that differs. `run-dir` may differ, as rank 0's
/// is taken, `threads`, as it changes no result, and `token-file`, whose content ranks have compared. Ranks of one
/// build only. Collective over the world.
void expect_same_config(comm::World& world, const RunConfig& config);

/// The same for the model of resolved configurations, whose sizes may come from each rank's own copy of a folder.
void expect_same_model(comm::World& world, const RunConfig& config);

}  // namespace weft::train
