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
#include "train/progress.h"
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

std::string plan_line(const std::string& name, const Plan& plan) {
  std::size_t compute = 0;
  double bytes = 0;
  for (const StreamPlan& stream : plan.streams) compute += stream.stream.compute ? 1 : 0;
  for (TaskId id : plan.collectives) {
    const Task& task = plan.graph->task(id);
    const DType dtype = plan.graph->tensor(task.accesses.front().view.tensor).dtype;
    bytes += work_of(task.operation, static_cast<double>(size_of(dtype))).network_bytes;
  }
  std::string line = fmt::format("  {:<8} {} tasks, {} edges, {} compute stream{}", name, plan.graph->tasks().size(),
                                 plan.graph->edges().size(), compute, compute == 1 ? "" : "s");
  if (!plan.collectives.empty()) {
    line += fmt::format(", {} collectives that send {} a rank", plan.collectives.size(),
                        human_bytes(static_cast<std::uint64_t>(bytes)));
  }
  return line + fmt::format("; scratch {} (side by side {}); fingerprint {:016x}\n",
                            human_bytes(static_cast<std::uint64_t>(plan.scratch_bytes)),
                            human_bytes(static_cast<std::uint64_t>(plan.sum_of_tensor_bytes)), plan.fingerprint);
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

std::string describe_run(const RunConfig& config, const TokenSource& source, const Program& program, double planning_ms,
                         const std::string& world_name) {
  const auto bytes = [](std::int64_t n) { return human_bytes(static_cast<std::uint64_t>(n)); };
  const ModelConfig& m = config.model;
  std::string text =
      fmt::format("model      {} ({}): {} layers, hidden {}, {} heads, vocabulary {}, {} parameters, {}\n", m.name,
                  to_string(m.family), m.layers, m.hidden, m.heads, m.vocab,
                  human_count(static_cast<double>(m.parameters())), to_string(config.dtype));
  text += fmt::format("ranks      {} ({}), {} thread{} each, policy {}\n", config.grid.ranks(),
                      world_name == "mpi" ? "MPI processes" : "threads of this process", config.threads,
                      config.threads == 1 ? "" : "s", config.policy);
  text += fmt::format("data       {}\n", source.description());
  for (const std::string& note : source.notes()) text += fmt::format("           note: {}\n", note);
  text += fmt::format("batch      {} sequences of {} tokens a step: {} rank{} × {} micro-batch{} × {}\n",
                      config.global_batch, config.seq_len, config.grid.data, config.grid.data == 1 ? "" : "s",
                      accumulation(config), accumulation(config) == 1 ? "" : "es", config.micro_batch);
  text += fmt::format("plans      made and checked in {:.0f} ms\n", planning_ms);
  for (const std::string name : {"train", "eval", "prefill", "decode"}) {
    if (program.contains(name)) text += plan_line(name, program.plan(name));
  }
  text += "memory     a rank:";
  std::int64_t total = program.scratch_bytes();
  for (Role role : {Role::parameter, Role::optimizer_state, Role::cache, Role::input, Role::scalar}) {
    const std::int64_t size = program.state().bytes_of(role);
    if (size > 0) text += fmt::format(" {} {},", to_string(role), bytes(size));
    total += size;
  }
  return text + fmt::format(" scratch {}; together {}\n", bytes(program.scratch_bytes()), bytes(total));
}

}  // namespace weft
