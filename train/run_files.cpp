#include "train/run_files.h"

#include <dnnl.h>
#include <fmt/format.h>
#include <oneapi/tbb/version.h>

#include <cstring>
#include <fstream>
#include <span>

#include "base/error.h"
#include "graph/dump_dot.h"
#include "graph/render.h"
#include "runtime/draw.h"
#include "runtime/timeline.h"
#include "train/durable_file.h"
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

std::vector<std::filesystem::path> write_graph_files(const std::filesystem::path& run_dir, const Plan& plan) {
  const std::string dot = plan_dot(plan, "graph.dot");
  write_durable(run_dir / "graph.dot", dot);
  write_durable(run_dir / "graph.svg", render_svg(dot));
  return {run_dir / "graph.svg"};
}

std::vector<std::filesystem::path> write_trace_files(const std::filesystem::path& run_dir, World& world,
                                                     const Plan& plan, const std::vector<StepTrace>& traces) {
  const auto all = world.all_gather_bytes(encode_traces(traces));
  if (world.rank() != 0 || traces.empty()) return {};
  std::vector<RankTrace> ranks;
  std::vector<StepTrace> last_steps;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    ranks.push_back({static_cast<int>(rank), decode_traces(all[rank], traces)});
    last_steps.push_back(ranks.back().steps.back());
  }
  write_durable(run_dir / "trace.json", chrome_trace_json(plan, ranks, world.size()));
  write_durable(run_dir / "timeline.svg", timeline_svg(plan, last_steps));
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
