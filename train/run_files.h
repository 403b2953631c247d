// The files of a run besides its checkpoints.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/plan.h"
#include "runtime/trace.h"
#include "train/config.h"

namespace weft {

/// Makes the folder and writes config.toml, which runs the same again. Throws UserError when it can't be written.
void make_run_dir(const std::filesystem::path& run_dir, const RunConfig& config);

/// graph.svg and graph.dot of the training step of rank 0, layers collapsed. Returns what was written.
std::vector<std::filesystem::path> write_graph_files(const std::filesystem::path& run_dir, const Plan& plan,
                                                     const Grid& grid);

/// trace.json (Chrome format, all ranks) and timeline.svg (the last step). Collective over the world; rank 0 writes and
/// returns the paths.
std::vector<std::filesystem::path> write_trace_files(const std::filesystem::path& run_dir, World& world,
                                                     const Plan& plan, const Grid& grid,
                                                     const std::vector<StepTrace>& traces);

/// Versions of what computes: "weft", "oneDNN", "oneTBB", "compiler".
std::map<std::string, std::string> library_versions();

}  // namespace weft
