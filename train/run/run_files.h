// The files of a run besides its checkpoints.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/trace.h"
#include "train/config/config.h"

namespace weft::train {

inline constexpr std::string_view kRunConfigFile = "config.toml";
inline constexpr std::string_view kMetricsFile = "metrics.jsonl";
inline constexpr std::string_view kMetricsTable = "metrics.csv";
inline constexpr std::string_view kExpertsFile = "experts.jsonl";  // of models with experts
inline constexpr std::string_view kTensorBoardFolder = "tensorboard";
inline constexpr std::string_view kLogFile = "log.txt";
inline constexpr std::string_view kGraphTextFile = "graph.dot";
inline constexpr std::string_view kGraphFile = "graph.svg";
inline constexpr std::string_view kTraceFile = "trace.json";
inline constexpr std::string_view kTimelineFile = "timeline.svg";

/// The log file of a rank in its run folder: kLogFile for rank 0 and for threads of its process. Other ranks have their
/// own files, "log.rank1.txt": they may run on another machine, and can write after rank 0 has ended.
std::filesystem::path log_file_of(const std::filesystem::path& run_dir, int rank);

/// Whether the folder holds files of a run: one of the above, a table of tuned products, or a checkpoint.
bool holds_run(const std::filesystem::path& run_dir);

/// Removes these files, logs of other ranks, event files of TensorBoard, and half-written checkpoints of a killed run,
/// and nothing else. Throws RuntimeFault if a file can't be removed.
void remove_run_files(const std::filesystem::path& run_dir);

/// Makes the folder and writes config.toml, which runs the same again. Throws UserError when it can't be written.
void make_run_dir(const std::filesystem::path& run_dir, const RunConfig& config);

/// Receives messages about a run.
using Say = std::function<void(const std::string& line)>;

/// graph.svg and graph.dot of the training step of rank 0, layers collapsed. Returns the drawing. If it can't be made,
/// because it is too large or Graphviz is missing, it is left out, and `say` gets the reason.
std::vector<std::filesystem::path> write_graph_files(const std::filesystem::path& run_dir, const plan::Plan& plan,
                                                     const graph::Grid& grid, const Say& say);

/// trace.json (Chrome format, all ranks) and timeline.svg (the last step), which is left out in the same way.
/// Collective over the world; rank 0 writes and returns the paths.
std::vector<std::filesystem::path> write_trace_files(const std::filesystem::path& run_dir, comm::World& world,
                                                     const plan::Plan& plan, const graph::Grid& grid,
                                                     const std::vector<plan::StepTrace>& traces, const Say& say);

/// Versions that affect results: "weft", "oneDNN", "oneTBB", "compiler", and the level of the CPU's instructions that
/// kernels use under the name kKernelsVersion.
inline constexpr std::string_view kKernelsVersion = "kernels";
std::map<std::string, std::string> library_versions();

}  // namespace weft::train
