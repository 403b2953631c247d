#include "study/bench/bench_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "inspect/drawing/chart.h"
#include "study/bench/bench_rows.h"
#include "study/columns.h"

namespace weft::study {
namespace {

const BestKnown* best_of(const BenchResult& result, const std::string& instance) {
  const auto found = std::ranges::find(result.best, instance, &BestKnown::instance);
  return found == result.best.end() ? nullptr : &*found;
}

std::vector<std::string> policies_of(const BenchResult& result) {
  std::vector<std::string> names;
  for (const PolicyScore& score : scores_of(result.rows, result.best)) names.push_back(score.policy);
  return names;
}

/// Of JSON and the table.
Columns<PolicyScore> score_columns() {
  Columns<PolicyScore> columns;
  columns.add("policy", &PolicyScore::policy, {.head = "policy", .words = true});
  columns.add("instances", &PolicyScore::instances);
  columns.add("solved", &PolicyScore::solved).shown({.head = "solved"}, [](const PolicyScore& score) {
    return fmt::format("{} of {}", score.solved, score.instances);
  });
  columns.add("best", &PolicyScore::best, {.head = "best"});
  columns.add("mean_ratio", &PolicyScore::mean_ratio);
  columns.show({.head = "above the best, mean"},
               [](const PolicyScore& score) { return percent_text(score.mean_ratio - 1); });
  columns.add("worst_ratio", &PolicyScore::worst_ratio);
  columns.show({.head = "at most"}, [](const PolicyScore& score) { return percent_text(score.worst_ratio - 1); });
  columns.add("planning_ms", &PolicyScore::planning_ms);
  columns.show({.head = "planning", .rank = 1}, [](const PolicyScore& score) { return ms_text(score.planning_ms); });
  return columns;
}

TextTable policies_table(const BenchResult& result) {
  return score_columns().table(scores_of(result.rows, result.best));
}

TextTable instances_table(const BenchResult& result) {
  struct Row {
    const std::string& instance;
    std::int64_t tasks = 0;
    const BestKnown* best = nullptr;
    std::string reason = "no policy has a step";
    bool possible() const { return best != nullptr; }
  };
  std::vector<Row> rows;
  for (const BenchInstance& instance : result.instances) {
    Row& row = rows.emplace_back(Row{.instance = instance.name, .best = best_of(result, instance.name)});
    for (const BenchRow& each : result.rows) {
      if (each.instance == instance.name) row.tasks = std::max(row.tasks, each.tasks);
    }
  }
  Columns<Row> columns;
  columns.show(
      {.head = "instance", .words = true}, [](const Row& row) { return row.instance; }, false);
  columns.show(
      {.head = "tasks", .rank = 1}, [](const Row& row) { return fmt::format("{}", row.tasks); }, false);
  columns.show({.head = "best known"}, [](const Row& row) { return format_time(row.best->step_ns); });
  columns.show({.head = "bound"}, [](const Row& row) { return format_time(row.best->bound_ns); });
  columns.show({.head = "gap"}, [](const Row& row) { return percent_text(row.best->gap()); });
  columns.show({.head = "found by", .words = true}, [](const Row& row) { return row.best->policy; });
  return columns.table(rows);
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
      cells.push_back(!known ? "" : row->possible() ? percent_text(row->step_ns / best->step_ns - 1) : "no plan");
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
  return JsonObject()
      .add("rows", row_columns().json(result.rows, Absent::left_out))
      .add("best", best_columns().json(result.best))
      .add("policies", score_columns().json(scores_of(result.rows, result.best)));
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
