#include "study/scaling/scaling_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/json_file.h"
#include "base/text/csv.h"
#include "base/text/text_table.h"
#include "base/text/units.h"
#include "inspect/drawing/chart.h"

namespace weft::study {
namespace {

/// A value of a row, under the name that CSV and JSON give it.
struct ScalingCell {
  std::string name, text;
  bool words = false;
};

std::vector<ScalingCell> scaling_cells(const ScalingRow& row) {
  std::vector<ScalingCell> cells;
  const auto add = [&](const char* name, const std::string& text, bool words) {
    cells.push_back({name, row.possible() ? text : "", words});
  };
  const auto number = [&](const char* name, auto value) { add(name, fmt::format("{}", value), false); };
  cells.push_back({"ranks", fmt::format("{}", row.ranks), false});
  cells.push_back({"model", row.model, true});
  cells.push_back({"machine", row.machine, true});
  cells.push_back({"policy", row.policy, true});
  add("grid", graph::to_string(row.choice.grid), true);
  std::vector<std::string> order;
  for (const graph::Axis axis : row.choice.grid.order) order.emplace_back(graph::to_string(axis));
  add("axis_order", join(order, ","), true);
  number("micro_batch", row.choice.micro_batch);
  add("recompute", row.choice.recompute == train::Recompute::block ? "block" : "none", true);
  number("reshard_after_forward", row.choice.reshard_after_forward);
  number("zero_1", row.choice.zero1);
  number("global_batch", row.global_batch);
  number("step_ms", row.step_ms);
  number("step_low_ms", row.low_ms);
  number("step_high_ms", row.high_ms);
  number("flops_per_s", row.flops);
  number("efficiency", row.efficiency);
  number("mfu", row.mfu);
  number("memory_bytes", row.memory_bytes);
  number("exposed_ms", row.exposed_ms);
  cells.push_back({"reason", row.reason, true});
  return cells;
}

/// What differs between rows, and so has a column or stands in names of series.
struct Differences {
  bool models = false, machines = false;
};

Differences differences_of(std::span<const ScalingRow> rows) {
  const auto differ = [&](std::string ScalingRow::*member) {
    return std::ranges::any_of(rows, [&](const ScalingRow& row) { return row.*member != rows.front().*member; });
  };
  return {differ(&ScalingRow::model), differ(&ScalingRow::machine)};
}

std::string ms_text(double ms) {
  return format_time(ms * 1e6);
}

TextTable scaling_table(const ScalingStudy& study, std::span<const ScalingRow> rows) {
  const Differences differ = differences_of(rows);
  TextTable table;
  if (differ.models) table.columns.push_back({.head = "model", .words = true});
  if (differ.machines) table.columns.push_back({.head = "machine", .words = true});
  const bool noisy = study.seeds > 1;
  table.columns.insert(table.columns.end(), {{.head = "ranks"},
                                             {.head = "grid, innermost first", .words = true},
                                             {.head = "micro-batch", .rank = 2},
                                             {.head = "with", .words = true, .rank = 1},
                                             {.head = "policy", .words = true, .rank = 3},
                                             {.head = "batch", .rank = 4},
                                             {.head = noisy ? "median step" : "step"}});
  if (noisy) table.columns.push_back({.head = "5 to 95 %", .rank = 2});
  table.columns.insert(table.columns.end(), {{.head = "total"},
                                             {.head = "efficiency"},
                                             {.head = "MFU", .rank = 3},
                                             {.head = "memory", .rank = 2},
                                             {.head = "exposed", .rank = 3}});
  for (const ScalingRow& row : rows) {
    std::vector<std::string>& cells = table.rows.emplace_back();
    if (differ.models) cells.push_back(row.model);
    if (differ.machines) cells.push_back(row.machine);
    cells.push_back(fmt::format("{}", row.ranks));
    if (!row.possible()) {
      cells.push_back(row.reason);
      continue;
    }
    cells.insert(cells.end(),
                 {grid_text(row.choice), fmt::format("{}", row.choice.micro_batch), options_text(row.choice),
                  row.policy, fmt::format("{}", row.global_batch), ms_text(row.step_ms)});
    if (noisy) cells.push_back(ms_text(row.low_ms) + " … " + ms_text(row.high_ms));
    cells.insert(cells.end(), {with_prefix(row.flops, "flop/s"), fmt::format("{:.1f} %", 100 * row.efficiency),
                               fmt::format("{:.1f} %", 100 * row.mfu),
                               human_bytes(static_cast<std::uint64_t>(row.memory_bytes)), ms_text(row.exposed_ms)});
  }
  return table;
}

/// "perlmutter, gpt-5b, axonn": of the words, those that differ between series.
std::string series_name(const ScalingStudy& study, const ScalingRow& row, const Differences& differ) {
  std::vector<std::string> words;
  if (differ.machines) words.push_back(row.machine);
  if (study.models.size() > 1) words.push_back(row.model);
  if (!study.policies.empty()) words.push_back(row.policy);
  return words.empty() ? row.machine : join(words);
}

inspect::ChartPoint chart_point(const ScalingRow& row, bool noisy) {
  const double arithmetic = row.flops * row.step_ms;
  inspect::ChartPoint point{.x = static_cast<double>(row.ranks), .y = row.flops};
  point.tooltip = fmt::format("{} on {} ranks of {}: {}, {:.1f} % efficient; {}, {}, {}", row.model, row.ranks,
                              row.machine, with_prefix(row.flops, "flop/s"), 100 * row.efficiency,
                              to_string(row.choice), row.policy, ms_text(row.step_ms));
  if (noisy) point.low = arithmetic / row.high_ms, point.high = arithmetic / row.low_ms;
  return point;
}

std::string ending_of(const std::string& file) {
  return std::filesystem::path(file).extension().string();
}

}  // namespace

StyledText scaling_text(const ScalingStudy& study, std::span<const ScalingRow> rows, std::optional<std::size_t> width) {
  return table_text(scaling_table(study, rows), width);
}

std::string scaling_csv(std::span<const ScalingRow> rows) {
  std::string text;
  for (const ScalingRow& row : rows) {
    CsvRow names, cells;
    for (const ScalingCell& cell : scaling_cells(row)) {
      names.push_back(cell.name);
      cells.push_back(cell.text);
    }
    if (text.empty()) text = csv_line(names);
    text += csv_line(cells);
  }
  return text;
}

JsonObject scaling_json(const ScalingStudy& study, std::span<const ScalingRow> rows) {
  JsonArray list;
  for (const ScalingRow& row : rows) {
    JsonObject object;
    for (const ScalingCell& cell : scaling_cells(row)) {
      const bool is_null = cell.text.empty() && cell.name != "reason";
      object.add(cell.name, is_null      ? JsonValue(nullptr)
                            : cell.words ? JsonValue(cell.text)
                                         : JsonValue::written(cell.text));
    }
    list.add(object);
  }
  return JsonObject().add("kind", study.kind == ScalingKind::strong ? "strong" : "weak").add("rows", list);
}

inspect::Picture scaling_picture(const ScalingStudy& study, std::span<const ScalingRow> rows) {
  constexpr const char* kIdealColor = "#808080";
  constexpr auto kLogarithmic = inspect::ChartScale::logarithmic;
  const Differences differ = differences_of(rows);
  inspect::SeriesChart chart{.title = fmt::format("{} scaling", study.kind == ScalingKind::strong ? "strong" : "weak"),
                             .x = {.title = "ranks", .scale = kLogarithmic, .at_points = true},
                             .y = {.title = "model flop/s of all ranks",
                                   .unit = inspect::ChartUnit::operations_a_second,
                                   .scale = kLogarithmic}};
  if (!differ.models) chart.title += " of " + rows.front().model;
  if (!differ.machines) chart.title += " on " + rows.front().machine;
  std::vector<inspect::ChartSeries> ideal;
  const std::size_t points = study.points.size();
  for (std::size_t begin = 0; begin + points <= rows.size(); begin += points) {
    const std::span<const ScalingRow> series = rows.subspan(begin, points);
    const std::string color(inspect::chart_color(begin / points));
    inspect::ChartSeries line{.name = series_name(study, series.front(), differ), .color = color};
    for (const ScalingRow& row : series) {
      if (row.possible()) line.points.push_back(chart_point(row, study.seeds > 1));
    }
    if (!line.points.empty()) {
      const inspect::ChartPoint first = line.points.front();
      std::ranges::stable_sort(line.points, {}, &inspect::ChartPoint::x);
      inspect::ChartSeries from_first{.color = color, .dashed = true, .radius = 0};
      for (const inspect::ChartPoint& point : {line.points.front(), line.points.back()}) {
        from_first.points.push_back({.x = point.x, .y = first.y * point.x / first.x});
      }
      ideal.push_back(std::move(from_first));
    }
    chart.series.push_back(std::move(line));
  }
  chart.series.insert(chart.series.begin(), ideal.begin(), ideal.end());
  chart.series.push_back(
      {.name = "ideal: each rank as fast as at the first point", .color = kIdealColor, .dashed = true, .radius = 0});
  return inspect::chart_picture(chart);
}

void expect_scaling_file(const std::string& file) {
  const std::string ending = ending_of(file);
  if (ending == ".csv" || ending == ".json" || ending == ".svg") return;
  throw UserError(fmt::format("the format of {} is unknown", file), "a file that ends in .csv, .json or .svg",
                  "-o scaling.csv");
}

std::string scaling_file(const std::string& file, const ScalingStudy& study, std::span<const ScalingRow> rows) {
  const std::string ending = ending_of(file);
  if (ending == ".csv") return scaling_csv(rows);
  if (ending == ".svg") return scaling_picture(study, rows).svg();
  return indented_json(scaling_json(study, rows).text(), 1) + "\n";
}

}  // namespace weft::study
