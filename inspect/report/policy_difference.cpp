#include "inspect/report/policy_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/intervals.h"
#include "runtime/plan/plan_difference.h"

namespace weft::inspect {

std::vector<std::int64_t> exposed_times(const plan::Recording& recording, const plan::RecordedStep& step) {
  const Intervals exposed = plan::busy_times(recording, step).exposed;
  std::vector<std::int64_t> times(recording.tasks.size(), 0);
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (recording.tasks[i].channel.empty()) continue;
    const plan::TaskTime& time = step.times[i];
    // Exposed intervals rise and don't touch, so the few that the task meets lie side by side.
    const auto first = std::ranges::upper_bound(exposed, time.begin, {}, &Interval::end);
    const auto last = std::ranges::lower_bound(exposed, time.end, {}, &Interval::begin);
    for (auto at = first; at < last; ++at) times[i] += std::min(at->end, time.end) - std::max(at->begin, time.begin);
  }
  return times;
}

namespace {

std::vector<plan::PlacedName> placed_names(const plan::Recording& recording) {
  std::vector<plan::PlacedName> names;
  for (const plan::RecordedTask& task : recording.tasks) {
    names.push_back({task.name, recording.streams[task.stream].name});
  }
  return names;
}

const plan::RecordedStep& last_step(const plan::Recording& recording) {
  return recording.ranks.front().steps.back();
}

std::string ms(std::int64_t ns) {
  return fmt::format("{:.3f}", static_cast<double>(ns) * 1e-6);
}

std::string tasks_text(std::size_t count) {
  return count == 1 ? "1 task" : fmt::format("{} tasks", count);
}

/// How a task of both recordings changed: the first change that was found, and how many more there are.
struct Change {
  std::uint32_t in_a = 0;
  std::string first = {};
  std::size_t more = 0;

  void add(std::string change) {
    if (first.empty()) {
      first = std::move(change);
    } else {
      ++more;
    }
  }
  std::string text() const { return more == 0 ? first : fmt::format("{}, and {} more", first, more); }
};

using WaitNames = std::set<std::pair<std::string_view, std::string_view>>;

/// Waits within a step that a policy asks for, by the names of the tasks.
WaitNames waits_of(const plan::Recording& recording) {
  WaitNames waits;
  for (const plan::RecordedEdge& edge : recording.edges) {
    if (edge.reason != graph::EdgeReason::policy || edge.distance > 0) continue;
    waits.emplace(recording.tasks[edge.from].name, recording.tasks[edge.to].name);
  }
  return waits;
}

/// By b's task.
std::map<std::uint32_t, Change> changes_of(const plan::Recording& a, const plan::Recording& b) {
  std::map<std::uint32_t, Change> changes;
  for (const plan::MovedTask& moved : plan::moved_tasks(placed_names(a), placed_names(b))) {
    Change& change = changes[static_cast<std::uint32_t>(moved.in_b)];
    change.in_a = static_cast<std::uint32_t>(moved.in_a);
    if (!moved.other_stream) change.add(moved.follows ? "now after " + b.tasks[*moved.follows].name : "now the first");
  }
  std::unordered_map<std::string_view, std::uint32_t> in_a, in_b;
  for (std::uint32_t i = 0; i < a.tasks.size(); ++i) in_a.emplace(a.tasks[i].name, i);
  for (std::uint32_t i = 0; i < b.tasks.size(); ++i) in_b.emplace(b.tasks[i].name, i);
  const WaitNames waits_a = waits_of(a), waits_b = waits_of(b);
  // A wait is told of its collective, whose time it hides or exposes.
  const auto tell = [&](const WaitNames& waits, const WaitNames& others, std::string_view verb) {
    for (const auto& [from, to] : waits) {
      if (others.contains({from, to})) continue;
      const auto from_a = in_a.find(from), from_b = in_b.find(from), to_a = in_a.find(to), to_b = in_b.find(to);
      if (from_a == in_a.end() || from_b == in_b.end() || to_a == in_a.end() || to_b == in_b.end()) continue;
      const bool of_from = !b.tasks[from_b->second].channel.empty();
      Change& change = changes[of_from ? from_b->second : to_b->second];
      change.in_a = of_from ? from_a->second : to_a->second;
      change.add(of_from ? fmt::format("{} {} for it", to, verb) : fmt::format("{} for {}", verb, from));
    }
  };
  tell(waits_a, waits_b, "no longer waits");
  tell(waits_b, waits_a, "now waits");
  return changes;
}

}  // namespace

std::vector<std::uint32_t> moved_in(const plan::Recording& a, const plan::Recording& b) {
  std::vector<std::uint32_t> tasks;
  for (const auto& [in_b, change] : changes_of(a, b)) tasks.push_back(in_b);
  return tasks;
}

PolicyDifference policy_difference(const plan::Recording& a, const plan::Recording& b) {
  const plan::RecordedStep &step_a = last_step(a), &step_b = last_step(b);
  const std::vector<std::int64_t> exposed_a = exposed_times(a, step_a), exposed_b = exposed_times(b, step_b);
  PolicyDifference out{.step_a = step_a.end - step_a.begin, .step_b = step_b.end - step_b.begin};
  std::map<std::pair<std::string, std::string>, CollectiveGain> gains;
  const auto add = [&](const plan::Recording& recording, const std::vector<std::int64_t>& exposed,
                       std::int64_t CollectiveGain::*sum) {
    for (std::size_t i = 0; i < recording.tasks.size(); ++i) {
      const plan::RecordedTask& task = recording.tasks[i];
      if (task.channel.empty()) continue;
      CollectiveGain& gain = gains[{task.channel, task.kind}];
      gain.axis = task.channel, gain.kind = task.kind;
      gain.*sum += exposed[i];
    }
  };
  add(a, exposed_a, &CollectiveGain::exposed_a);
  add(b, exposed_b, &CollectiveGain::exposed_b);
  for (auto& [key, gain] : gains) out.collectives.push_back(std::move(gain));

  for (const auto& [in_b, change] : changes_of(a, b)) {
    out.moves.push_back({.in_a = change.in_a,
                         .in_b = in_b,
                         .change = change.text(),
                         .begin_a = step_a.times[change.in_a].begin - step_a.begin,
                         .begin_b = step_b.times[in_b].begin - step_b.begin,
                         .exposed_a = exposed_a[change.in_a],
                         .exposed_b = exposed_b[in_b]});
  }
  std::ranges::stable_sort(out.moves, std::greater(), &PolicyMove::gain);
  const auto names = [](const plan::Recording& recording) {
    std::vector<std::string_view> list;
    for (const plan::RecordedTask& task : recording.tasks) list.push_back(task.name);
    std::ranges::sort(list);
    return list;
  };
  const std::vector<std::string_view> in_a = names(a), in_b = names(b);
  std::vector<std::string_view> both;
  std::ranges::set_intersection(in_a, in_b, std::back_inserter(both));
  out.only_a = in_a.size() - both.size(), out.only_b = in_b.size() - both.size();
  return out;
}

ReportTable gain_table(std::span<const ReportView> views, std::span<const PolicyDifference> differences) {
  const std::string& first = views.front().name;
  ReportTable table{.title = fmt::format("Gain by collective, against {}", first),
                    .note = "Exposed communication in ms, and how much less of it there is.",
                    .words = 2,
                    .heads = {"axis", "kind", first}};
  std::map<std::pair<std::string, std::string>, std::vector<ReportCell>> rows;
  std::vector<ReportCell> steps = {{"the step"}, {}, {ms(differences.front().step_a)}};
  for (std::size_t i = 0; i < differences.size(); ++i) {
    table.heads.push_back(views[i + 1].name);
    table.heads.emplace_back("gain");
    const PolicyDifference& difference = differences[i];
    steps.emplace_back(ms(difference.step_b));
    steps.emplace_back(ms(difference.step_a - difference.step_b));
    for (const CollectiveGain& gain : difference.collectives) {
      std::vector<ReportCell>& row = rows[{gain.axis, gain.kind}];
      if (row.empty()) row = {{gain.axis}, {gain.kind}, {ms(gain.exposed_a)}};
      row.resize(3 + 2 * i);  // kinds that only a policy with rewrites has
      row.emplace_back(ms(gain.exposed_b));
      row.emplace_back(ms(gain.gain()));
    }
  }
  for (auto& [key, row] : rows) {
    row.resize(table.heads.size());
    table.rows.push_back(std::move(row));
  }
  table.rows.push_back(std::move(steps));
  return table;
}

ReportTable moves_table(const ReportView& a, const ReportView& b, const PolicyDifference& difference) {
  constexpr std::size_t kMostRows = 40;
  const plan::Recording &from = a.recording, &to = b.recording;
  ReportTable table{.title = fmt::format("{} against {}: what moved", b.name, a.name),
                    .view = b.name,
                    .words = 2,
                    .trailing_words = 1,
                    .heads = {"task", "stream", "begin ms, " + a.name, "begin ms, " + b.name, "exposed ms, " + a.name,
                              "exposed ms, " + b.name, "gain ms", "change"}};
  std::size_t collectives = 0;
  for (const PolicyMove& move : difference.moves) collectives += to.tasks[move.in_b].channel.empty() ? 0 : 1;
  table.note = fmt::format("{} moved, {} of them collectives: to another stream or place, or with other waits.",
                           tasks_text(difference.moves.size()), collectives);
  if (difference.moves.size() > kMostRows) table.note += fmt::format(" The {} that gained most are listed.", kMostRows);
  if (difference.only_a > 0) table.note += fmt::format(" Only {} has {}.", a.name, tasks_text(difference.only_a));
  if (difference.only_b > 0) table.note += fmt::format(" Only {} has {}.", b.name, tasks_text(difference.only_b));
  for (const PolicyMove& move : difference.moves) {
    if (table.rows.size() == kMostRows) break;
    const plan::RecordedTask &before = from.tasks[move.in_a], &after = to.tasks[move.in_b];
    const std::string &stream_a = from.streams[before.stream].name, &stream_b = to.streams[after.stream].name;
    const bool communicates = !after.channel.empty();
    const auto exposed = [&](std::int64_t ns) { return communicates ? ms(ns) : std::string(); };
    table.rows.push_back({{after.name, after.name},
                          {stream_a == stream_b ? stream_b : fmt::format("{} → {}", stream_a, stream_b)},
                          {ms(move.begin_a)},
                          {ms(move.begin_b)},
                          {exposed(move.exposed_a)},
                          {exposed(move.exposed_b)},
                          {exposed(move.gain())},
                          {move.change}});
  }
  return table;
}

}  // namespace weft::inspect
