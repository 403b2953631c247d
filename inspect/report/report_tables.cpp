#include "inspect/report/report_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/units.h"
#include "inspect/report/policy_difference.h"

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

}  // namespace

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
        "By these costs no order of the configured step takes less than {:.2f} ms, the bound. Gap: how far the policy "
        "is above the bound of its own graph, which it may have rewritten. Hidden: the part of the time between the "
        "serial step and the bound that the policy saves.{}",
        bound->number(), measured ? " Only the last two columns are measured." : "");
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
    row.emplace_back(ms(step));
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

}  // namespace weft::inspect
