#include "inspect/report/trace_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/text/text_table.h"
#include "base/units.h"

namespace weft::inspect {
namespace {

double in_milliseconds(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-6;
}

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// Times of the tasks that `name_of` gives one name; tasks without a name are left out.
template <class NameOf>
std::vector<KindTimes> times_by(const plan::Recording& recording, const plan::RecordedStep& step,
                                const Intervals& compute, const NameOf& name_of) {
  std::map<std::string, KindTimes> by_name;
  std::map<std::string, Intervals> busy;
  for (std::size_t i = 0; i < recording.tasks.size(); ++i) {
    const plan::RecordedTask& task = recording.tasks[i];
    const std::string& name = name_of(task);
    if (name.empty()) continue;
    KindTimes& of = by_name[name];
    of.name = name;
    ++of.tasks;
    of.flops += task.flops;
    of.network_bytes += task.network_bytes;
    of.busy += std::max<std::int64_t>(0, step.times[i].end - step.times[i].begin);
    if (recording.streams[task.stream].communicates()) busy[name].push_back({step.times[i].begin, step.times[i].end});
  }
  std::vector<KindTimes> all;
  for (auto& [name, of] : by_name) {
    if (const auto found = busy.find(name); found != busy.end()) {
      of.exposed = total_length(difference(merged(std::move(found->second)), compute));
    }
    all.push_back(std::move(of));
  }
  return all;
}

std::vector<Stall> stalls_of(const plan::Recording& recording, const plan::RecordedStep* before,
                             const plan::RecordedStep& step, std::size_t most) {
  struct Last {
    std::optional<std::uint32_t> task;
    std::int64_t end = INT64_MIN;
  };
  std::vector<Last> last(recording.tasks.size());
  for (const plan::RecordedEdge& edge : recording.edges) {
    if (edge.kind != graph::EdgeKind::completes_before || (edge.distance > 0 && before == nullptr)) continue;
    const std::int64_t end = (edge.distance > 0 ? before : &step)->times[edge.from].end;
    if (end > last[edge.to].end) last[edge.to] = {edge.from, end};
  }
  std::vector<Stall> stalls;
  std::vector<std::int64_t> free_from(recording.streams.size(), step.begin);
  for (std::uint32_t i = 0; i < recording.tasks.size(); ++i) {
    const std::uint32_t stream = recording.tasks[i].stream;
    const plan::TaskTime& time = step.times[i];
    if (recording.streams[stream].compute && time.begin > free_from[stream]) {
      stalls.push_back({.stream = stream,
                        .begin = free_from[stream],
                        .end = time.begin,
                        .task = i,
                        .last = last[i].task,
                        .last_end = last[i].task ? last[i].end : 0});
    }
    free_from[stream] = std::max(free_from[stream], time.end);
  }
  std::ranges::stable_sort(stalls, std::greater(), &Stall::length);
  if (stalls.size() > most) stalls.resize(most);
  return stalls;
}

TextTable kinds_table(const std::vector<KindTimes>& kinds, std::int64_t step, const char* title) {
  TextTable table{.columns = {{.head = title, .words = true, .least = 12},
                              {.head = "tasks", .rank = 2},
                              {.head = "ms"},
                              {.head = "step %", .rank = 1},
                              {.head = "exposed", .emphasis = Emphasis::bad},
                              {.head = "work", .rank = 3}}};
  for (const KindTimes& kind : kinds) {
    table.rows.push_back({kind.name, fmt::format("{}", kind.tasks), fmt::format("{:.3f}", in_milliseconds(kind.busy)),
                          fmt::format("{:.1f}", 100 * share(kind.busy, step)),
                          kind.network_bytes > 0 ? fmt::format("{:.3f}", in_milliseconds(kind.exposed)) : "",
                          kind.network_bytes > 0 ? format_bytes(kind.network_bytes) : format_flops(kind.flops)});
  }
  return table;
}

std::string stall_text(const plan::Recording& recording, const Stall& stall, std::int64_t begin) {
  std::string why = "has no dependencies: the stream itself was late";
  if (stall.last) {
    const plan::RecordedTask& last = recording.tasks[*stall.last];
    // A task that ended before the stall began didn't cause it.
    why = stall.last_end > stall.begin
              ? fmt::format("waited for {} on {}", last.name, recording.streams[last.stream].name)
              : fmt::format("was ready: {} had ended {:.3f} ms before", last.name,
                            in_milliseconds(stall.end - stall.last_end));
  }
  return fmt::format("  {:>9.3f} ms at {:>9.3f}  {}: {} {}\n", in_milliseconds(stall.length()),
                     in_milliseconds(stall.begin - begin), recording.streams[stall.stream].name,
                     recording.tasks[stall.task].name, why);
}

const plan::RecordedStep* step_before(const plan::RecordedRank& rank, const plan::RecordedStep& step) {
  const auto at = static_cast<std::size_t>(&step - rank.steps.data());
  return at > 0 && rank.steps[at - 1].step + 1 == step.step ? &rank.steps[at - 1] : nullptr;
}

}  // namespace

StepSummary summarize_step(const plan::Recording& recording, const plan::RecordedRank& rank,
                           const plan::RecordedStep& step, std::size_t stalls) {
  const plan::BusyTimes busy = plan::busy_times(recording, step);
  StepSummary out{.rank = rank.rank,
                  .overlap = plan::summarize(busy, {step.begin, step.end}),
                  .number = step.step,
                  .idle = 0,
                  .kinds = times_by(
                      recording, step, busy.compute, [](const plan::RecordedTask& t) -> auto& { return t.kind; }),
                  .channels = times_by(
                      recording, step, busy.compute, [](const plan::RecordedTask& t) -> auto& { return t.channel; }),
                  .stream_busy = {},
                  .stalls = stalls_of(recording, step_before(rank, step), step, stalls)};
  out.idle = out.overlap.step - out.overlap.compute - out.overlap.exposed;
  for (const Intervals& stream : busy.streams) out.stream_busy.push_back(share(total_length(stream), out.overlap.step));
  std::ranges::stable_sort(out.kinds, std::greater(), &KindTimes::busy);
  return out;
}

TraceSummary summarize_trace(const plan::Recording& recording, bool all_steps, std::size_t stalls) {
  TraceSummary summary;
  for (const plan::RecordedRank& rank : recording.ranks) {
    for (const plan::RecordedStep& step : rank.steps) {
      if (!all_steps && &step != &rank.steps.back()) continue;
      summary.push_back(summarize_step(recording, rank, step, stalls));
    }
  }
  return summary;
}

StyledText styled_summary(const plan::Recording& recording, const TraceSummary& summary,
                          std::optional<std::size_t> width) {
  StyledText text(fmt::format("policy {}, {} ranks, {} tasks and {} edges a step\n", recording.policy, recording.world,
                              recording.tasks.size(), recording.edges.size()));
  for (const StepSummary& of : summary) {
    const plan::OverlapSummary& sums = of.overlap;
    text.add(fmt::format("\nrank {}, step {}: {:.3f} ms\n", of.rank, of.number, in_milliseconds(sums.step)),
             Emphasis::heading);
    text.add(fmt::format("  computing {:.3f} ms, communicating {:.3f} ms, ", in_milliseconds(sums.compute),
                         in_milliseconds(sums.communication)));
    text.add(fmt::format("of which exposed {:.3f} ms", in_milliseconds(sums.exposed)), Emphasis::bad);
    text.add(fmt::format("; {:.1f} % overlapped; idle {:.3f} ms\n", 100 * sums.overlap_fraction(),
                         in_milliseconds(of.idle)));
    text.add("  busy:");
    for (std::size_t i = 0; i < of.stream_busy.size(); ++i) {
      text.add(fmt::format(" {} {:.1f} %{}", recording.streams[i].name, 100 * of.stream_busy[i],
                           i + 1 < of.stream_busy.size() ? "," : "\n"));
    }
    text.add("\n").add(table_text(kinds_table(of.kinds, sums.step, "kind"), width));
    if (!of.channels.empty()) text.add("\n").add(table_text(kinds_table(of.channels, sums.step, "channel"), width));
    if (of.stalls.empty()) continue;
    const auto& times = *std::ranges::find(recording.ranks, of.rank, &plan::RecordedRank::rank);
    const auto& step = *std::ranges::find(times.steps, of.number, &plan::RecordedStep::step);
    text.add("\n  longest stalls of compute streams, and what came last\n", Emphasis::heading);
    for (const Stall& stall : of.stalls) text.add(stall_text(recording, stall, step.begin));
  }
  return text;
}

JsonObject summary_json(const plan::Recording& recording, const TraceSummary& summary) {
  const auto kinds_json = [](const std::vector<KindTimes>& kinds) {
    JsonArray list;
    for (const KindTimes& kind : kinds) {
      list.add(JsonObject()
                   .add("name", kind.name)
                   .add("tasks", kind.tasks)
                   .add("busy_ns", kind.busy)
                   .add("exposed_ns", kind.exposed)
                   .add("flops", kind.flops)
                   .add("network_bytes", kind.network_bytes));
    }
    return list;
  };
  JsonArray steps;
  for (const StepSummary& of : summary) {
    JsonArray stalls;
    for (const Stall& stall : of.stalls) {
      stalls.add(JsonObject()
                     .add("stream", recording.streams[stall.stream].name)
                     .add("begin_ns", stall.begin)
                     .add("length_ns", stall.length())
                     .add("task", recording.tasks[stall.task].name)
                     .add("last_dependency", stall.last ? JsonValue(recording.tasks[*stall.last].name) : nullptr)
                     .add("last_end_ns", stall.last ? JsonValue(stall.last_end) : nullptr));
    }
    JsonObject busy;
    for (std::size_t i = 0; i < of.stream_busy.size(); ++i) busy.add(recording.streams[i].name, of.stream_busy[i]);
    steps.add(JsonObject()
                  .add("rank", of.rank)
                  .add("step", of.number)
                  .add("step_ns", of.overlap.step)
                  .add("compute_ns", of.overlap.compute)
                  .add("communication_ns", of.overlap.communication)
                  .add("exposed_ns", of.overlap.exposed)
                  .add("overlap_fraction", of.overlap.overlap_fraction())
                  .add("idle_ns", of.idle)
                  .add("stream_busy", busy)
                  .add("kinds", kinds_json(of.kinds))
                  .add("channels", kinds_json(of.channels))
                  .add("stalls", stalls));
  }
  return JsonObject()
      .add("policy", recording.policy)
      .add("world", recording.world)
      .add("tasks", recording.tasks.size())
      .add("edges", recording.edges.size())
      .add("steps", steps);
}

}  // namespace weft::inspect
