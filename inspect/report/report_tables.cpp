#include "inspect/report/report_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "base/intervals.h"
#include "base/median.h"
#include "base/units.h"
#include "inspect/drawing/colors.h"
#include "inspect/report/policy_difference.h"
#include "runtime/cost/cost_model.h"

namespace weft::inspect {
namespace {

std::string percent(double share) {
  const std::string text = fmt::format("{:.1f}", 100 * share);
  return text == "-0.0" ? "0.0" : text;
}

std::string ms_text(std::int64_t ns) {
  return fmt::format("{:.3f}", static_cast<double>(ns) * 1e-6);
}

/// A number of `entry`, or "-" where there is none.
template <class Text>
std::string number(const DocumentValue& entry, const char* key, Text text) {
  const auto found = entry.find(key);
  return found ? text(found->number()) : "-";
}

constexpr std::size_t kKinds = kKindStyles.size();
constexpr std::string_view kIdleColor = "#dddddd";

struct TaskEdge {
  std::int64_t time = 0;
  std::size_t kind = 0;
  bool compute = true;
  int by = 0;  // 1 where a task begins, -1 where it ends
};

/// A row of boxes as wide as their shares. Narrow ones are told by the colours in the rows below.
std::string bar_html(const StepShares& shares) {
  constexpr double kRoom = 15;
  std::string out = "<div class=\"shares\" role=\"img\" aria-label=\"shares of the step\">";
  const auto piece = [&](std::string_view name, std::string_view fill, std::string_view text, double ns) {
    const double percent = shares.step_ns > 0 ? 100 * ns / shares.step_ns : 0;
    if (percent < 0.05) return;
    out += fmt::format("<span style=\"flex-grow:{1:.1f};background:{2};color:{3}\" title=\"{0} {1:.1f} %\">{4}</span>",
                       name, percent, fill, text, percent >= kRoom ? fmt::format("{} {:.0f} %", name, percent) : "");
  };
  for (const KindShare& kind : shares.kinds) {
    const KindStyle& style = style_of(kind.kind);
    piece(style.name, style.fill, style.text, kind.share_ns);
  }
  piece("idle", kIdleColor, "#000000", shares.idle_ns);
  return out + "</div>\n";
}

struct Samples {
  AxisBandwidth of;
  double most = 0;                                // bytes of the largest collective
  std::vector<std::pair<double, double>> single;  // bytes and nanoseconds of each
};

}  // namespace

std::string step_ms_text(double ms) {
  constexpr double kShort = 0.1;
  return ms > 0 && ms < kShort ? fmt::format("{:.3g}", ms) : fmt::format("{:.2f}", ms);
}

ReportTable policies_table(const DocumentValue& comparison) {
  const std::vector<DocumentValue> policies = comparison["policies"].items();
  const bool timed =
      std::ranges::any_of(policies, [](const auto& entry) { return entry.find("planning_ms").has_value(); });
  const bool measured =
      std::ranges::any_of(policies, [](const auto& entry) { return entry.find("measured").has_value(); });
  ReportTable table{.title = "Policies",
                    .heads = {"policy", measured ? "simulated ms" : "step ms", "speed-up", "gap %", "hidden %",
                              "exposed ms", "overlap %", "contention ms", "memory"}};
  if (const auto bound = comparison.find("bound_ms")) {
    table.note = fmt::format(
        "By these costs no order of the configured step takes less than {} ms, the bound. Gap: how far the policy "
        "is above the bound of its own graph, which it may have rewritten. Hidden: the part of the time between the "
        "serial step and that bound that the policy saves.{}",
        step_ms_text(bound->number()), measured ? " Only the last two columns are measured." : "");
  }
  const auto ms = [](double value) { return fmt::format("{:.2f}", value); };
  if (timed) table.heads.emplace_back("planning ms");
  if (measured) table.heads.insert(table.heads.end(), {"measured ms", "error %"});
  double least = 0;
  for (const DocumentValue& entry : policies) {
    std::vector<ReportCell> row = {{entry["policy"].text()}};
    if (entry.find("refused")) {
      row.emplace_back("no plan");
      row.resize(table.heads.size());
      table.rows.push_back(std::move(row));
      continue;
    }
    double step = entry["step_ms"].number();
    row.emplace_back(step_ms_text(step));
    row.emplace_back(number(entry, "speed_up", [](double value) { return fmt::format("{:.3f}", value); }));
    row.emplace_back(number(entry, "gap", percent));
    row.emplace_back(number(entry, "hidden", percent));
    row.emplace_back(number(entry, "exposed_ms", ms));
    row.emplace_back(number(entry, "overlap", percent));
    row.emplace_back(number(entry, "contention_ms", ms));
    row.emplace_back(
        number(entry, "memory_bytes", [](double bytes) { return human_bytes(static_cast<std::uint64_t>(bytes)); }));
    if (timed) {
      row.emplace_back(number(entry, "planning_ms", [](double value) { return fmt::format("{:.1f}", value); }));
    }
    if (measured) {
      const DocumentValue times = entry["measured"];
      step = times["median_ms"].number();
      row.emplace_back(ms(step));
      row.emplace_back(percent(times["simulated_error"].number()));
    }
    if (!table.best || step < least) table.best = table.rows.size(), least = step;
    table.rows.push_back(std::move(row));
  }
  return table;
}

ReportTable exposed_table(const plan::Recording& recording, const std::string& view) {
  struct Sum {
    std::int64_t tasks = 0, busy = 0, exposed = 0, worst = -1;
    std::string worst_task;
  };
  const plan::RecordedStep& step = recording.ranks.front().steps.back();
  const std::vector<std::int64_t> exposed = exposed_times(recording, step);
  std::map<std::pair<std::string, std::string>, Sum> sums;
  for (std::size_t i = 0; i < recording.tasks.size(); ++i) {
    const plan::RecordedTask& task = recording.tasks[i];
    if (task.channel.empty()) continue;
    Sum& sum = sums[{task.channel, task.kind}];
    ++sum.tasks;
    sum.busy += step.times[i].end - step.times[i].begin;
    sum.exposed += exposed[i];
    if (exposed[i] > sum.worst) sum.worst = exposed[i], sum.worst_task = task.name;
  }
  ReportTable table{.title = "Exposed communication by axis and kind",
                    .note = fmt::format("Of rank {}, step {}: communication while nothing computes. A task's name "
                                        "selects it in the timeline.",
                                        recording.ranks.front().rank, step.step),
                    .view = view,
                    .words = 2,
                    .trailing_words = 1,
                    .heads = {"axis", "kind", "tasks", "busy ms", "exposed ms", "overlap %", "most exposed"}};
  if (sums.empty()) table.note = "This step doesn't communicate.";
  for (const auto& [key, sum] : sums) {
    const double overlap = sum.busy == 0 ? 0 : 1 - static_cast<double>(sum.exposed) / static_cast<double>(sum.busy);
    table.rows.push_back({{key.first},
                          {key.second},
                          {fmt::format("{}", sum.tasks)},
                          {ms_text(sum.busy)},
                          {ms_text(sum.exposed)},
                          {percent(overlap)},
                          {sum.worst > 0 ? sum.worst_task : "", sum.worst > 0 ? sum.worst_task : ""}});
  }
  return table;
}

JsonArray causes_json(const graph::Graph& graph, const simulate::Explanation& explanation) {
  JsonArray list;
  for (const simulate::ExposureGroup& group : explanation.groups) {
    const simulate::ExposedCollective& worst = explanation.collectives[group.members.front()];
    const graph::Task& task = graph.task(worst.task);
    // By falling gain; those without a number can't be had.
    const auto remedy =
        std::ranges::find_if(group.remedies, [](const simulate::Remedy& each) { return each.number > 0; });
    const bool remedied = remedy != group.remedies.end();
    JsonObject entry;
    entry.add("because", worst.because)
        .add("cause", simulate::to_string(worst.cause))
        .add("exposed_ns", group.exposed_ns);
    if (remedied) entry.add("gain_ns", remedy->gain_ns);
    entry
        .add("kind", fmt::format("{} on {}", graph::kind_name(task.operation),
                                 graph.channel_name(*graph::channel_of(task.operation))))
        .add("members", group.members.size())
        .add("name", group.name);
    if (remedied) entry.add("remedy", remedy->what);
    list.add(entry.add("worst", task.name).add("worst_ns", worst.exposed_ns));
  }
  return list;
}

ReportTable causes_table(const DocumentValue& causes, const std::string& view) {
  ReportTable table{.title = "Why communication is exposed",
                    .view = view,
                    .words = 2,
                    .trailing_words = 3,
                    .heads = {"collectives", "kind", "count", "exposed ms", "cause", "the worst one", "remedy"}};
  constexpr std::size_t kMostRows = 40;
  double rest = 0;
  const std::vector<DocumentValue> entries = causes.items();
  for (const DocumentValue& entry : entries) {
    const double exposed = entry["exposed_ns"].number();
    if (table.rows.size() == kMostRows) {
      rest += exposed;
      continue;
    }
    std::string remedy = "none of those tried";
    if (const auto what = entry.find("remedy")) {
      remedy = fmt::format("{}: −{:.3f} ms", what->text(), entry["gain_ns"].number() * 1e-6);
    }
    table.rows.push_back({{entry["name"].text(), entry["worst"].text()},
                          {entry["kind"].text()},
                          {fmt::format("{}", entry["members"].integer(0, INT64_MAX))},
                          {fmt::format("{:.3f}", exposed * 1e-6)},
                          {entry["cause"].text()},
                          {entry["because"].text()},
                          {std::move(remedy)}});
  }
  if (entries.empty()) table.note = "No collective is exposed for long enough to matter.";
  if (rest > 0)
    table.note = fmt::format("{} more with {:.3f} ms aren't listed.", entries.size() - kMostRows, rest * 1e-6);
  return table;
}

StepShares step_shares(const plan::Recording& recording, const plan::RecordedStep& step) {
  StepShares out{.step_ns = static_cast<double>(step.end - step.begin)};
  std::array<KindShare, kKinds> kinds;
  std::vector<TaskEdge> changes;
  for (std::size_t i = 0; i < recording.tasks.size(); ++i) {
    const plan::RecordedTask& task = recording.tasks[i];
    const auto kind = static_cast<std::size_t>(task.style);
    ++kinds[kind].tasks;
    kinds[kind].busy += std::max<std::int64_t>(0, step.times[i].end - step.times[i].begin);
    const std::int64_t begin = std::max(step.times[i].begin, step.begin), end = std::min(step.times[i].end, step.end);
    if (begin >= end) continue;
    if (recording.streams[task.stream].local) continue;
    const bool compute = recording.streams[task.stream].compute;
    changes.push_back({begin, kind, compute, 1});
    changes.push_back({end, kind, compute, -1});
  }
  std::ranges::sort(changes, {}, &TaskEdge::time);
  std::array<std::array<int, kKinds>, 2> running{};  // communicating, computing
  std::array<int, 2> count{};
  std::int64_t time = step.begin;
  const auto pass = [&](std::int64_t until) {
    const auto length = static_cast<double>(until - time);
    const std::size_t what = count[1] > 0 ? 1 : 0;
    if (count[what] == 0) out.idle_ns += length;
    for (std::size_t kind = 0; count[what] > 0 && kind < kKinds; ++kind) {
      kinds[kind].share_ns += length * running[what][kind] / count[what];
    }
    time = until;
  };
  for (const TaskEdge& change : changes) {
    pass(change.time);
    running[change.compute ? 1 : 0][change.kind] += change.by;
    count[change.compute ? 1 : 0] += change.by;
  }
  pass(step.end);
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    kinds[kind].kind = kKindStyles[kind].kind;
    if (kinds[kind].tasks > 0) out.kinds.push_back(kinds[kind]);
  }
  return out;
}

ReportTable shares_table(const plan::Recording& recording) {
  const plan::RecordedRank& rank = recording.ranks.front();
  const plan::RecordedStep& step = rank.steps.back();
  const StepShares shares = step_shares(recording, step);
  ReportTable table{.title = "Shares of the step",
                    .note = fmt::format("Of rank {}, step {}. A moment counts for what computes in it; where nothing "
                                        "computes, for the communication, which is then exposed.",
                                        rank.rank, step.step),
                    .heads = {"kind", "tasks", "busy ms", "of the step ms", "of the step %"}};
  table.picture = bar_html(shares);
  const auto row = [&](std::string_view name, std::string_view fill, std::string tasks, std::string busy, double ns) {
    ReportCell head{std::string(name)};
    head.swatch = fill;
    table.rows.push_back({std::move(head),
                          {std::move(tasks)},
                          {std::move(busy)},
                          {fmt::format("{:.3f}", ns * 1e-6)},
                          {fmt::format("{:.1f}", shares.step_ns > 0 ? 100 * ns / shares.step_ns : 0)}});
  };
  for (const KindShare& kind : shares.kinds) {
    row(style_of(kind.kind).name, style_of(kind.kind).fill, fmt::format("{}", kind.tasks),
        fmt::format("{:.3f}", static_cast<double>(kind.busy) * 1e-6), kind.share_ns);
  }
  row("idle", kIdleColor, "", "", shares.idle_ns);
  return table;
}

std::vector<AxisBandwidth> bandwidths(const plan::Recording& recording) {
  std::map<std::string, Samples> axes;
  double steps = 0;
  for (const plan::RecordedTask& task : recording.tasks) {
    if (task.channel.empty()) continue;
    Samples& samples = axes[task.channel];
    samples.of.axis = task.channel;
    samples.of.ranks = std::max(samples.of.ranks, task.group_size);
    ++samples.of.collectives;
    samples.of.bytes += task.network_bytes;
    samples.most = std::max(samples.most, task.network_bytes);
  }
  for (const plan::RecordedRank& rank : recording.ranks) {
    for (const plan::RecordedStep& step : rank.steps) {
      ++steps;
      std::map<std::string_view, Intervals> busy;
      for (std::size_t i = 0; i < recording.tasks.size(); ++i) {
        const plan::RecordedTask& task = recording.tasks[i];
        const plan::TaskTime& time = step.times[i];
        if (task.channel.empty() || time.end <= time.begin) continue;
        busy[task.channel].push_back(time);
        axes[task.channel].single.emplace_back(task.network_bytes, static_cast<double>(time.end - time.begin));
      }
      for (auto& [axis, intervals] : busy) {
        axes[std::string(axis)].of.busy_ns += static_cast<double>(total_length(merged(std::move(intervals))));
      }
    }
  }
  std::vector<AxisBandwidth> out;
  for (auto& [axis, samples] : axes) {
    AxisBandwidth of = samples.of;
    of.busy_ns = steps > 0 ? of.busy_ns / steps : 0;
    if (of.busy_ns > 0) of.achieved = of.bytes / (of.busy_ns * 1e-9);
    std::vector<double> rates;
    for (const auto& [bytes, ns] : samples.single) {
      if (2 * bytes >= samples.most) rates.push_back(bytes / (ns * 1e-9));
    }
    if (!rates.empty()) of.largest = median(std::move(rates));
    out.push_back(std::move(of));
  }
  return out;
}

ReportLinks links_of(const graph::Graph& graph, const cost::Machine& machine, const graph::Grid& grid) {
  ReportLinks links{.machine = machine.name};
  for (const graph::Task& task : graph.tasks()) {
    const graph::Channel* channel = graph::channel_of(task.operation);
    if (channel == nullptr) continue;
    if (graph.channel_info(*channel) != nullptr) continue;
    const std::string axis(graph::to_string(*channel));
    if (links.bandwidth.contains(axis)) continue;
    const cost::GroupSpan span = cost::group_span(machine, grid, *channel);
    if (span.ranks > 1) links.bandwidth[axis] = cost::group_bandwidth(machine, span);
  }
  return links;
}

ReportTable bandwidth_table(const plan::Recording& recording, const ReportLinks& links) {
  ReportTable table{
      .title = "Bandwidth by axis",
      .note =
          "Bytes that a rank sends, by the time from its begin of a collective to the end: waiting for "
          "the other ranks counts. The largest messages are those of at least half the greatest size.",
      .heads = {"axis", "ranks", "collectives", "sent a step", "busy ms", "achieved GB/s", "largest messages GB/s"}};
  const bool known = !links.bandwidth.empty();
  if (known) {
    table.heads.push_back(fmt::format("link GB/s, model of {}", links.machine));
    table.heads.emplace_back("achieved, of the link %");
  }
  const auto gigabytes = [](double bytes) { return fmt::format("{:.3g}", bytes * 1e-9); };
  for (const AxisBandwidth& of : bandwidths(recording)) {
    std::vector<ReportCell> row = {{of.axis},
                                   {of.ranks > 0 ? fmt::format("{}", of.ranks) : "-"},
                                   {fmt::format("{}", of.collectives)},
                                   {human_bytes(static_cast<std::uint64_t>(of.bytes))},
                                   {fmt::format("{:.3f}", of.busy_ns * 1e-6)},
                                   {gigabytes(of.achieved)},
                                   {gigabytes(of.largest)}};
    if (known) {
      const auto link = links.bandwidth.find(of.axis);
      const bool has = link != links.bandwidth.end() && link->second > 0;
      row.emplace_back(has ? gigabytes(link->second) : "-");
      row.emplace_back(has ? fmt::format("{:.0f}", 100 * of.achieved / link->second) : "-");
    }
    table.rows.push_back(std::move(row));
  }
  if (table.rows.empty()) table.note = "This step doesn't communicate.";
  return table;
}

}  // namespace weft::inspect
