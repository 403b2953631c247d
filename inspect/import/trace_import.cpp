#include "inspect/import/trace_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "inspect/formats/known_file.h"
#include "inspect/import/rank_differences.h"

namespace weft::inspect {
namespace {

constexpr double kLeastLater = 1000;    // nanoseconds
constexpr std::size_t kHeadBytes = 15;  // of a file, from which its format is known

/// Gives ranks to files that name none, and returns whether it did.
bool name_ranks(std::vector<RankTrace>& traces) {
  std::set<std::int64_t> taken;
  for (const RankTrace& trace : traces) taken.insert(trace.outline.rank);
  bool named = false;
  std::int64_t next = 0;
  for (RankTrace& trace : traces) {
    if (trace.outline.rank >= 0) continue;
    while (!taken.insert(next).second) ++next;
    trace.outline.rank = next;
    named = true;
  }
  return named;
}

void refuse_equal_ranks(const std::vector<RankTrace>& traces) {
  std::map<std::int64_t, std::string> seen;
  for (const auto& [outline, recover] : traces) {
    const auto [at, added] = seen.emplace(outline.rank, outline.file);
    if (added) continue;
    throw UserError(fmt::format("'{}' and '{}' are both of rank {}", at->second, outline.file, outline.rank),
                    "one file a rank", "name one of them only");
  }
}

/// Gives each trace the execution trace that was recorded beside it.
void join_execution_traces(std::vector<RankTrace>& traces, const std::vector<std::filesystem::path>& files,
                           const TraceReader& reader, const std::vector<std::string>& execution_traces) {
  if (execution_traces.empty()) return;
  if (&reader != &kKinetoReader) {
    throw UserError(fmt::format("--execution-trace with traces of {}", reader.name), "traces of PyTorch's profiler",
                    "leave --execution-trace out");
  }
  if (execution_traces.size() != files.size()) {
    throw UserError(fmt::format("{} execution traces of {} traces", execution_traces.size(), files.size()),
                    "one for each trace, in their order", "name the execution trace of every rank, or of none");
  }
  for (RankTrace& trace : traces) {
    const auto file = std::ranges::find(files, trace.outline.file, [](const auto& path) { return path.string(); });
    if (file != files.end()) {
      trace.outline.execution_trace = execution_traces[static_cast<std::size_t>(file - files.begin())];
    }
  }
}

/// The size of the world that the files tell; 0: none does.
std::int64_t common_world(const std::vector<RankTrace>& traces) {
  const TraceOutline* first = nullptr;
  for (const auto& [outline, recover] : traces) {
    if (outline.world == 0) continue;
    if (first == nullptr) first = &outline;
    if (outline.world == first->world) continue;
    throw UserError(
        fmt::format("'{}' is of {} ranks, and '{}' of {}", first->file, first->world, outline.file, outline.world),
        "files of one run", "name those of one world_size only");
  }
  return first == nullptr ? 0 : first->world;
}

/// Without a choice, ranks are compared at one and the same step.
StepChoice common_choice(const std::vector<RankTrace>& traces, StepChoice choice) {
  if (choice.whole || choice.number || choice.range || traces.size() < 2) return choice;
  std::vector<std::int64_t> common;
  for (const MarkedStep& step : traces.front().outline.steps) common.push_back(step.number);
  for (const auto& [outline, recover] : traces) {
    const std::vector<MarkedStep>& steps = outline.steps;
    std::erase_if(common, [&](std::int64_t number) {
      return std::ranges::find(steps, number, &MarkedStep::number) == steps.end();
    });
  }
  if (!common.empty()) choice.number = common.size() == 1 ? common.back() : common[common.size() - 2];
  return choice;
}

void add_joint_notes(const ImportedTrace& out, std::int64_t inferred, std::vector<std::string>& notes) {
  if (inferred > 0) {
    notes.push_back(
        fmt::format("{} process groups were inferred: one for each stream of collectives, of all ranks, since the "
                    "trace names none.",
                    inferred));
  }
  if (out.unmatched > 0) {
    notes.push_back(fmt::format("{} collectives have no partner in the other ranks' traces.", out.unmatched));
  }
  if (out.absent_ranks == 0) return;
  notes.push_back(fmt::format(
      "{} of {} ranks have no trace. The recorded rank{}", out.absent_ranks, out.graph.world,
      out.graph.classes.size() == 1
          ? " stands in for them, so the time of a collective holds its wait for them."
          : "s stand in for them: the time of a collective holds no wait for these, but may hold one for others."));
}

/// Which ranks use a group is all that Chakra's files tell of it.
void infer_members(graph::OpenGraph& graph) {
  for (std::size_t channel = 0; channel < graph.channels.size(); ++channel) {
    std::vector<std::int64_t> members;
    for (const graph::OpenClass& step : graph.classes) {
      const bool uses = std::ranges::any_of(
          step.tasks, [&](const graph::OpenTask& task) { return task.channel == static_cast<std::int32_t>(channel); });
      if (uses) members.push_back(step.ranks.front());
    }
    graph.channels[channel].group_size = static_cast<std::int64_t>(members.size());
    graph.channels[channel].groups = {members};
  }
  for (graph::OpenClass& step : graph.classes) {
    for (graph::OpenTask& task : step.tasks) {
      if (task.channel < 0) continue;
      const std::int64_t size = graph.channels[static_cast<std::size_t>(task.channel)].group_size;
      // Of an all-gather the file tells what one rank gives.
      const double given = task.network_bytes;
      const double whole = task.operation == "all_gather" ? given * static_cast<double>(size) : given;
      task.network_bytes = ring_bytes(task.operation, whole, size);
    }
  }
}

/// A task before all others of a rank puts its step on the clock that all ranks share.
void begin_later(graph::OpenClass& step, double by) {
  if (by < kLeastLater) return;
  std::vector<bool> follows(step.tasks.size());
  for (graph::OpenEdge& edge : step.edges) {
    follows[edge.to] = true;
    ++edge.from;
    ++edge.to;
  }
  for (graph::OpenTask& task : step.tasks) {
    for (std::optional<double>* time : {&task.begin_ns, &task.end_ns}) {
      if (*time) **time += by;
    }
  }
  graph::OpenTask later;
  later.name = "begins later than another rank";
  later.operation = graph::kLaterStart;
  later.kind = graph::OpenKind::host;
  later.stream = static_cast<std::int32_t>(step.streams.size());
  later.ns = by;
  later.begin_ns = 0;
  later.end_ns = by;
  step.streams.push_back({"begin of the step", true});
  step.tasks.insert(step.tasks.begin(), std::move(later));
  for (std::uint32_t i = 0; i < follows.size(); ++i) {
    if (!follows[i]) step.edges.push_back({0, i + 1});
  }
  std::ranges::sort(step.edges, {}, [](const graph::OpenEdge& e) { return std::tuple(e.to, e.from, e.source); });
  step.recorded_ns += by;
}

}  // namespace

ImportedTrace join_ranks(std::vector<RecoveredStep> steps, std::vector<ImportedRank> ranks, TraceChannels channels,
                         std::int64_t world, std::string source) {
  ImportedTrace out;
  const std::int64_t inferred = channels.inferred();
  out.graph.source = std::move(source);
  out.graph.channels = std::move(channels).channels();
  std::int64_t highest = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    graph::OpenClass& step = steps[i].graph;
    step.name = steps.size() == 1 ? "" : fmt::format("rank {}", ranks[i].rank);
    step.ranks = {ranks[i].rank};
    highest = std::max(highest, ranks[i].rank);
    ranks[i].recorded_ns = step.recorded_ns;
    ranks[i].overlap = steps[i].overlap;
    ranks[i].edges = steps[i].edges;
    ranks[i].host_tasks = std::ranges::count(step.tasks, graph::OpenKind::host, &graph::OpenTask::kind);
    ranks[i].device_tasks = static_cast<std::int64_t>(step.tasks.size()) - ranks[i].host_tasks;
    out.graph.classes.push_back(std::move(step));
  }
  for (const graph::OpenChannel& channel : out.graph.channels) {
    highest = std::max(highest, channel.group_size - 1);
    for (const std::vector<std::int64_t>& group : channel.groups) highest = std::max(highest, group.back());
  }
  out.graph.world = std::max({world, highest + 1, static_cast<std::int64_t>(steps.size())});
  out.absent_ranks = out.graph.world - static_cast<std::int64_t>(steps.size());
  if (out.graph.source == kChakraReader.name) infer_members(out.graph);
  const graph::OpenMeetings matched = graph::find_meetings(out.graph);
  out.matched = std::ssize(matched.all);
  out.unmatched = matched.unmatched;
  // A rank whose clock shows the end of a shared collective later began its step earlier.
  std::vector<double> starts = clock_offsets(out.graph, matched);
  const double most = starts.empty() ? 0 : *std::ranges::max_element(starts);
  std::vector<std::string> differences = rank_differences(out.graph);
  set_net_times(out.graph, matched, starts);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const double by = most - starts[i];
    begin_later(out.graph.classes[i], by);
    if (by < kLeastLater) continue;
    out.graph.notes.push_back(
        fmt::format("Rank {} began its step {:.3f} ms later than the first one: the step of "
                    "all ranks is counted from that one's begin.",
                    ranks[i].rank, by * 1e-6));
  }
  const std::vector<ReplayedClass> replayed = replay_steps(out.graph, graph::find_meetings(out.graph));
  out.verdict = judge_step(out.graph, recorded_lengths(out.graph));
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ranks[i].replayed_ns = replayed[i].length();
    ranks[i].path = replayed[i].path;
    ranks[i].marked_ns = steps[i].marked_ns;
    for (const std::string& note : steps[i].notes) {
      out.graph.notes.push_back(steps.size() == 1 ? note : fmt::format("Rank {}: {}", ranks[i].rank, note));
    }
  }
  std::ranges::move(differences, std::back_inserter(out.graph.notes));
  add_joint_notes(out, inferred, out.graph.notes);
  out.ranks = std::move(ranks);
  return out;
}

std::vector<std::string> trace_formats() {
  std::vector<std::string> names;
  for (const TraceReader* reader : kTraceReaders) names.emplace_back(reader->name);
  return names;
}

std::string_view trace_format(const std::filesystem::path& file) {
  const std::string head = head_of_file(file, kHeadBytes, "the trace");
  if (head.empty()) {
    throw UserError(fmt::format("'{}' is empty", file.string()), "a trace", "copy or record it again");
  }
  return (*std::ranges::find_if(kTraceReaders, [&](const TraceReader* reader) { return reader->reads(head); }))->name;
}

ImportedTrace import_traces(const std::vector<std::filesystem::path>& files, std::string_view format,
                            const StepChoice& choice, const TellImport& tell) {
  const TraceReader& reader = **std::ranges::find(kTraceReaders, format, &TraceReader::name);
  for (const std::filesystem::path& file : files) refuse_foreign_trace(file);
  if (!reader.marks_steps && (choice.number || choice.range)) {
    throw UserError(fmt::format("traces of {} mark no steps", reader.name), "one step a file",
                    "leave --step, --from-ms and --to-ms out");
  }
  std::vector<RankTrace> traces = reader.open(files, tell);
  join_execution_traces(traces, files, reader, choice.execution_traces);
  const bool named = name_ranks(traces);
  refuse_equal_ranks(traces);
  std::ranges::stable_sort(traces, {}, [](const RankTrace& trace) { return trace.outline.rank; });
  const StepChoice common = common_choice(traces, choice);
  const std::int64_t world = common_world(traces);
  TraceChannels channels(world > 0 ? world : std::ssize(traces));
  bool unmarked = false;
  std::vector<RecoveredStep> steps;
  std::vector<ImportedRank> ranks;
  for (RankTrace& trace : traces) {
    trace.outline.communication = choice.communication;
    const TraceOutline& outline = trace.outline;
    const std::optional<MarkedStep> step = choose_step(outline, common);
    unmarked = unmarked || !step;
    steps.push_back(std::exchange(trace.recover, {})(outline, step, channels));  // and forgets what was read for it
    ranks.push_back({.file = outline.file, .rank = outline.rank, .events = outline.events});
    if (step && step->is_marked) ranks.back().step = step->number;
  }
  ImportedTrace out =
      join_ranks(std::move(steps), std::move(ranks), std::move(channels), world, std::string(reader.name));
  if (named) {
    out.graph.notes.emplace_back(
        "Files and processes that name no rank were numbered in the order of files and devices.");
  }
  if (reader.marks_steps && !choice.whole && !choice.range && unmarked) {
    out.graph.notes.emplace_back(
        "No step is marked: all that was recorded is one step here. With a schedule, PyTorch's profiler marks steps.");
  }
  out.graph.name = files.front().filename().string();
  return out;
}

}  // namespace weft::inspect
