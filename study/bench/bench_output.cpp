#include "study/bench/bench_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text/text_table.h"
#include "base/text/units.h"
#include "inspect/drawing/chart.h"

namespace weft::study {
namespace {

constexpr double kNsPerMs = 1e6;

std::string percent_text(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

const BestKnown* best_of(const BenchResult& result, const std::string& instance) {
  const auto found = std::ranges::find(result.best, instance, &BestKnown::instance);
  return found == result.best.end() ? nullptr : &*found;
}

std::vector<std::string> policies_of(const BenchResult& result) {
  std::vector<std::string> names;
  for (const PolicyScore& score : scores_of(result.rows, result.best)) names.push_back(score.policy);
  return names;
}

TextTable policies_table(const BenchResult& result) {
  TextTable table{.columns = {{.head = "policy", .words = true},
                              {.head = "solved"},
                              {.head = "best"},
                              {.head = "above the best, mean"},
                              {.head = "at most"},
                              {.head = "planning", .rank = 1}}};
  for (const PolicyScore& score : scores_of(result.rows, result.best)) {
    std::vector<std::string>& cells = table.rows.emplace_back();
    cells = {score.policy, fmt::format("{} of {}", score.solved, score.instances), fmt::format("{}", score.best)};
    if (score.solved == 0) continue;
    cells.push_back(percent_text(score.mean_ratio - 1));
    cells.push_back(percent_text(score.worst_ratio - 1));
    cells.push_back(format_time(score.planning_ms * kNsPerMs));
  }
  return table;
}

TextTable instances_table(const BenchResult& result) {
  TextTable table{.columns = {{.head = "instance", .words = true},
                              {.head = "tasks", .rank = 1},
                              {.head = "best known"},
                              {.head = "bound"},
                              {.head = "gap"},
                              {.head = "found by", .words = true}}};
  for (const BenchInstance& instance : result.instances) {
    std::int64_t tasks = 0;
    for (const BenchRow& row : result.rows) {
      if (row.instance == instance.name) tasks = std::max(tasks, row.tasks);
    }
    std::vector<std::string>& cells = table.rows.emplace_back();
    cells = {instance.name, fmt::format("{}", tasks)};
    if (const BestKnown* best = best_of(result, instance.name)) {
      cells.insert(cells.end(),
                   {format_time(best->step_ns), format_time(best->bound_ns), percent_text(best->gap()), best->policy});
    } else {
      cells.emplace_back("no policy has a step");
    }
  }
  return table;
}

/// By how much each policy's step is above the best known.
TextTable matrix(const BenchResult& result) {
  TextTable table{.columns = {{.head = "instance", .words = true}}};
  const std::vector<std::string> policies = policies_of(result);
  for (const std::string& policy : policies) table.columns.push_back({.head = policy});
  for (const BenchInstance& instance : result.instances) {
    std::vector<std::string>& cells = table.rows.emplace_back();
    cells.push_back(instance.name);
    const BestKnown* best = best_of(result, instance.name);
    for (const std::string& policy : policies) {
      const auto row = std::ranges::find_if(
          result.rows, [&](const BenchRow& each) { return each.instance == instance.name && each.policy == policy; });
      const bool known = best != nullptr && row != result.rows.end();
      cells.push_back(!known ? "" : row->solved() ? percent_text(row->step_ns / best->step_ns - 1) : "no plan");
    }
  }
  return table;
}

constexpr std::string_view kNote =
    "\nabove the best: how much longer a policy's step is than the best that is known of the instance; mean: the "
    "geometric mean.\ngap: how far the best known step is above the bound, which no order of the graph is below.\n";

}  // namespace

StyledText bench_text(const BenchResult& result, std::optional<std::size_t> width) {
  StyledText text;
  text.add(table_text(policies_table(result), width));
  text.add("\n");
  text.add(table_text(instances_table(result), width));
  text.add(std::string(kNote));
  return text;
}

std::string bench_markdown(const BenchResult& result) {
  std::string text = table_markdown(policies_table(result)) + "\n" + table_markdown(instances_table(result)) +
                     std::string(kNote) + "\nBy how much each policy's step is above the best known:\n\n" +
                     table_markdown(matrix(result));
  return text;
}

JsonObject bench_json(const BenchResult& result) {
  std::vector<JsonObject> rows, best, policies;
  for (const BenchRow& row : result.rows) {
    JsonObject json;
    json.add("instance", row.instance).add("policy", row.policy);
    if (row.solved()) {
      json.add("tasks", row.tasks)
          .add("step_ms", row.step_ns / kNsPerMs)
          .add("bound_ms", row.bound_ns / kNsPerMs)
          .add("exposed_ms", row.exposed_ns / kNsPerMs)
          .add("memory_bytes", row.memory_bytes)
          .add("planning_ms", row.planning_ms);
    } else {
      json.add("reason", row.reason);
    }
    rows.push_back(std::move(json));
  }
  for (const BestKnown& each : result.best) {
    best.push_back(JsonObject()
                       .add("instance", each.instance)
                       .add("step_ms", each.step_ns / kNsPerMs)
                       .add("policy", each.policy)
                       .add("bound_ms", each.bound_ns / kNsPerMs)
                       .add("gap", each.gap()));
  }
  for (const PolicyScore& score : scores_of(result.rows, result.best)) {
    policies.push_back(JsonObject()
                           .add("policy", score.policy)
                           .add("instances", score.instances)
                           .add("solved", score.solved)
                           .add("best", score.best)
                           .add("mean_ratio", score.mean_ratio)
                           .add("worst_ratio", score.worst_ratio)
                           .add("planning_ms", score.planning_ms));
  }
  return JsonObject().add("rows", rows).add("best", best).add("policies", policies);
}

inspect::Picture performance_profile(const BenchResult& result) {
  constexpr double kMostShown = 2;  // times the best known
  inspect::SeriesChart chart{.title = "share of instances on which a step is at most so many times the best known",
                             .x = {.title = "step / best known step", .scale = inspect::ChartScale::logarithmic},
                             .y = {.title = "share of instances", .from_zero = true}};
  for (const PolicyScore& score : scores_of(result.rows, result.best)) {
    inspect::ChartSeries series{.name = score.policy, .radius = 0};
    double share = 0;
    const auto add = [&](double ratio) { series.points.push_back({.x = ratio, .y = share}); };
    add(1);
    for (const double ratio : score.ratios) {
      if (ratio > kMostShown) break;
      add(ratio);
      share += 1 / static_cast<double>(score.instances);
      add(ratio);
    }
    add(kMostShown);
    chart.series.push_back(std::move(series));
  }
  return inspect::chart_picture(chart);
}

}  // namespace weft::study
