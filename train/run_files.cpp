#include "train/run_files.h"

#include <dnnl.h>
#include <fmt/format.h>
#include <oneapi/tbb/version.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <span>

#include "base/error.h"
#include "graph/drawing.h"
#include "graph/render.h"
#include "runtime/draw.h"
#include "runtime/recording.h"
#include "runtime/timeline.h"
#include "train/durable_file.h"
#include "train/trace_file.h"
#include "train/trainer.h"

namespace weft {
namespace {

std::vector<std::byte> encode_traces(const std::vector<StepTrace>& traces) {
  std::vector<std::int64_t> words;
  for (const StepTrace& trace : traces) {
    words.insert(words.end(), {trace.step, trace.begin, trace.end});
    for (const auto& stream : trace.times) {
      for (const TaskTime& time : stream) words.insert(words.end(), {time.begin, time.end});
    }
  }
  const auto bytes = std::as_bytes(std::span(words));
  return {bytes.begin(), bytes.end()};
}

// The shape is that of `like`: all ranks run the same plan for the same number of steps.
std::vector<StepTrace> decode_traces(std::span<const std::byte> bytes, std::vector<StepTrace> like) {
  std::size_t at = 0;
  const auto next = [&](std::int64_t& word) {
    if (at + sizeof word > bytes.size()) throw RuntimeFault("a rank sent a trace of another length");
    std::memcpy(&word, bytes.data() + at, sizeof word);
    at += sizeof word;
  };
  for (StepTrace& trace : like) {
    next(trace.step), next(trace.begin), next(trace.end);
    for (auto& stream : trace.times) {
      for (TaskTime& time : stream) next(time.begin), next(time.end);
    }
  }
  return like;
}

// How far this rank's clock is ahead of rank 0's, in nanoseconds: clocks of one node are one clock, those of several
// count from different moments and are compared behind a barrier, which ends within about a message's time everywhere.
std::int64_t clock_offset(World& world) {
  if (world.ranks_on_node() == world.size()) return 0;
  world.barrier();
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  const std::vector<std::uint64_t> clocks = world.all_gather(static_cast<std::uint64_t>(ns));
  return ns - static_cast<std::int64_t>(clocks.front());
}

std::vector<StepTrace> shifted(std::vector<StepTrace> traces, std::int64_t offset) {
  for (StepTrace& trace : traces) {
    trace.begin -= offset, trace.end -= offset;
    for (auto& stream : trace.times) {
      for (TaskTime& time : stream) time.begin -= offset, time.end -= offset;
    }
  }
  return traces;
}

}  // namespace

void make_run_dir(const std::filesystem::path& run_dir, const RunConfig& config) {
  std::error_code error;
  std::filesystem::create_directories(run_dir, error);
  if (error) {
    throw UserError(fmt::format("can't make the run folder {}: {}", run_dir.string(), error.message()),
                    "a folder that can be written", "--run-dir with another path");
  }
  try {
    write_durable(run_dir / "config.toml", dump_toml(config));
  } catch (const RuntimeFault& fault) {
    throw UserError(fault.what(), "a run folder that can be written", "--run-dir with another path");
  }
}

std::vector<std::filesystem::path> write_graph_files(const std::filesystem::path& run_dir, const Plan& plan,
                                                     const Grid& grid) {
  DrawingOptions options;
  options.grid = grid;
  const std::string dot = plan_dot(plan, "graph.dot", options);
  write_durable(run_dir / "graph.dot", dot);
  write_durable(run_dir / "graph.svg", render_svg(dot));
  return {run_dir / "graph.svg"};
}

std::vector<std::filesystem::path> write_trace_files(const std::filesystem::path& run_dir, World& world,
                                                     const Plan& plan, const Grid& grid,
                                                     const std::vector<StepTrace>& traces) {
  const auto all = world.all_gather_bytes(encode_traces(shifted(traces, clock_offset(world))));
  if (world.rank() != 0 || traces.empty()) return {};
  std::vector<RankTrace> ranks;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    ranks.push_back({static_cast<int>(rank), decode_traces(all[rank], traces)});
  }
  const Recording recording = record(plan, ranks, world.size(), grid);
  write_chrome_file(run_dir / "trace.json", recording);
  const TimelinePart part{fmt::format("Step {}, policy {}", traces.back().step, plan.policy), &recording};
  write_durable(run_dir / "timeline.svg", timeline_picture({&part, 1}).svg());
  return {run_dir / "trace.json", run_dir / "timeline.svg"};
}

std::map<std::string, std::string> library_versions() {
  const dnnl_version_t* dnnl = dnnl_version();
  return {{"weft", WEFT_VERSION},
          {"oneDNN", fmt::format("{}.{}.{}", dnnl->major, dnnl->minor, dnnl->patch)},
          {"oneTBB", TBB_runtime_version()},
          {"compiler", __VERSION__}};
}

}  // namespace weft
