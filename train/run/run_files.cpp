#include "train/run/run_files.h"

#include <dnnl.h>
#include <fmt/format.h>
#include <oneapi/tbb/version.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "inspect/drawing/draw.h"
#include "inspect/drawing/drawing.h"
#include "inspect/drawing/render.h"
#include "inspect/drawing/timeline.h"
#include "inspect/formats/chrome_trace.h"
#include "kernels/cpu/isa/kernel_choice.h"
#include "runtime/execute/tuning/gemm_tuning_file.h"
#include "runtime/plan/recording.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/run/tensorboard_file.h"

namespace weft::train {
namespace {

namespace fs = std::filesystem;

constexpr std::array kRunFiles = {kRunConfigFile, kMetricsFile, kMetricsTable, kExpertsFile,  kLogFile,
                                  kGraphTextFile, kGraphFile,   kTraceFile,    kTimelineFile, execute::kGemmTuningFile};

constexpr std::string_view kRankLog = "log.rank", kRankLogEnd = ".txt";
constexpr std::string_view kStageTrace = "trace.stage", kStageTraceEnd = ".json";

/// "log.rank12.txt" for "log.rank" and ".txt".
bool is_numbered(const std::string& name, std::string_view begin, std::string_view end) {
  if (!name.starts_with(begin) || !name.ends_with(end)) return false;
  const std::string_view number = std::string_view(name).substr(begin.size(), name.size() - begin.size() - end.size());
  return !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Files and folders directly in `run_dir`; empty if it can't be read.
std::vector<fs::path> entries_of(const fs::path& run_dir) {
  std::vector<fs::path> entries;
  std::error_code hidden;
  for (fs::directory_iterator at(run_dir, hidden), end; !hidden && at != end; at.increment(hidden)) {
    entries.push_back(at->path());
  }
  return entries;
}

/// Calls the function with each time of the traces.
template <class Traces, class Function>
void for_times(Traces& traces, const Function& function) {
  for (auto& trace : traces) {
    function(trace.begin), function(trace.end);
    for (auto& stream : trace.times) {
      for (auto& time : stream) function(time.begin), function(time.end);
    }
  }
}

std::vector<std::int64_t> words_of(const std::vector<plan::StepTrace>& traces) {
  std::vector<std::int64_t> words;
  for (const plan::StepTrace& trace : traces) words.push_back(trace.step);
  for_times(traces, [&](std::int64_t time) { words.push_back(time); });
  return words;
}

// The shape is that of `like`: all ranks run the same plan for the same number of steps.
std::vector<plan::StepTrace> traces_of(const std::vector<std::int64_t>& words, std::vector<plan::StepTrace> like) {
  if (words.size() != words_of(like).size()) throw RuntimeFault("a rank sent a trace of another length");
  auto word = words.begin();
  for (plan::StepTrace& trace : like) trace.step = *word++;
  for_times(like, [&](auto& time) { time = *word++; });
  return like;
}

// Nanoseconds by which this rank's clock is ahead of rank 0's. Ranks of one node share a clock. Clocks of several nodes
// are compared after a barrier, which ends on all ranks within about a message's time.
std::int64_t clock_offset(comm::World& world) {
  if (world.ranks_on_node() == world.size()) return 0;
  world.barrier();
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  const std::vector<std::uint64_t> clocks = world.all_gather(static_cast<std::uint64_t>(ns));
  return ns - static_cast<std::int64_t>(clocks.front());
}

/// Writes the result of `draw`; nothing if it throws UserError.
std::vector<std::filesystem::path> write_drawing(const std::filesystem::path& file, const Say& say,
                                                 const std::function<std::string()>& draw) {
  std::string drawing;
  try {
    drawing = draw();
  } catch (const UserError& error) {
    const std::string_view reason = error.what();
    say(fmt::format("{} is left out: {}", file.filename().string(), reason.substr(0, reason.find('\n'))));
    return {};
  }
  write_durable(file, drawing);
  return {file};
}

}  // namespace

fs::path log_file_of(const fs::path& run_dir, int rank) {
  return run_dir / (rank == 0 ? std::string(kLogFile) : fmt::format("{}{}{}", kRankLog, rank, kRankLogEnd));
}

bool holds_run(const std::filesystem::path& run_dir) {
  std::error_code hidden;  // a folder that can't be read counts as absent
  return std::ranges::any_of(kRunFiles, [&](std::string_view name) { return fs::exists(run_dir / name, hidden); }) ||
         latest_checkpoint(run_dir).has_value();
}

void remove_run_files(const std::filesystem::path& run_dir) {
  std::error_code error;
  const auto remove = [&](const fs::path& path) {
    fs::remove(path, error);
    if (error) throw RuntimeFault(in_quotes(path) + " can't be removed: " + error.message());
  };
  // Checkpoints last, so that the rest of an interrupted removal still counts as a run.
  for (const std::string_view name : kRunFiles) remove(run_dir / name);
  for (const fs::path& file : entries_of(run_dir)) {
    const std::string name = file.filename().string();
    if (is_numbered(name, kRankLog, kRankLogEnd) || is_numbered(name, kStageTrace, kStageTraceEnd)) remove(file);
  }
  for (const fs::path& file : entries_of(run_dir / kTensorBoardFolder)) {
    if (file.filename().string().starts_with(kEventFileStart)) remove(file);
  }
  remove_leftovers(checkpoints_of(run_dir));
  for (const CheckpointFolder& checkpoint : complete_checkpoints(run_dir)) {
    if (!remove_folder(checkpoint.path)) throw RuntimeFault(in_quotes(checkpoint.path) + " can't be removed");
  }
  fs::remove(checkpoints_of(run_dir), error);  // fails if the folder holds other files
}

void make_run_dir(const std::filesystem::path& run_dir, const RunConfig& config) {
  std::error_code error;
  std::filesystem::create_directories(run_dir, error);
  if (error) {
    throw UserError(fmt::format("can't make the run folder {}: {}", run_dir.string(), error.message()),
                    "a folder that can be written", "--run-dir with another path");
  }
  try {
    write_durable(run_dir / kRunConfigFile, dump_toml(config));
  } catch (const RuntimeFault& fault) {
    throw UserError(fault.what(), "a run folder that can be written", "--run-dir with another path");
  }
}

std::vector<std::filesystem::path> write_graph_files(const std::filesystem::path& run_dir, const plan::Plan& plan,
                                                     const graph::Grid& grid, const Say& say) {
  inspect::DrawingOptions options;
  options.grid = grid;
  const std::string dot = inspect::plan_dot(plan, std::string(kGraphTextFile), options);
  write_durable(run_dir / kGraphTextFile, dot);
  return write_drawing(run_dir / kGraphFile, say, [&] { return inspect::render_svg(dot); });
}

std::vector<std::filesystem::path> write_trace_files(const std::filesystem::path& run_dir, comm::World& world,
                                                     const plan::Plan& plan, const graph::Grid& grid,
                                                     const std::vector<plan::StepTrace>& traces, const Say& say) {
  std::vector<plan::StepTrace> shifted = traces;
  for_times(shifted, [offset = clock_offset(world)](auto& time) { time -= offset; });
  const auto all = comm::of_ranks(world, words_of(shifted));
  // Ranks of one pipeline stage have one plan; its first rank writes their traces.
  const std::int64_t stage = graph::coordinates_of(grid, world.rank()).pipe;
  std::error_code hidden;
  if (graph::group_color(grid, graph::Channel::stage, world.rank()) != world.rank() || traces.empty() ||
      (stage > 0 && !fs::is_directory(run_dir, hidden))) {
    return {};
  }
  std::vector<plan::RankTrace> ranks;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (graph::coordinates_of(grid, static_cast<std::int64_t>(rank)).pipe != stage) continue;
    ranks.push_back({static_cast<int>(rank), traces_of(all[rank], traces)});
  }
  const plan::Recording recording = plan::record(plan, ranks, world.size(), grid);
  if (stage > 0) {
    inspect::write_chrome_file(run_dir / fmt::format("{}{}{}", kStageTrace, stage, kStageTraceEnd), recording);
    return {};
  }
  inspect::write_chrome_file(run_dir / kTraceFile, recording);
  const inspect::TimelinePart part{fmt::format("Step {}, policy {}", traces.back().step, plan.policy), &recording};
  std::vector<std::filesystem::path> files = {run_dir / kTraceFile};
  for (auto& file : write_drawing(run_dir / kTimelineFile, say, [&] {
         return inspect::timeline_picture({&part, 1}).svg();
       })) {
    files.push_back(std::move(file));
  }
  return files;
}

std::map<std::string, std::string> library_versions() {
  const dnnl_version_t* dnnl = dnnl_version();
  return {{"weft", WEFT_VERSION},
          {"oneDNN", fmt::format("{}.{}.{}", dnnl->major, dnnl->minor, dnnl->patch)},
          {"oneTBB", TBB_runtime_version()},
          {"compiler", __VERSION__},
          {std::string(kKernelsVersion), std::string(cpu::kernel_level())}};
}

}  // namespace weft::train
