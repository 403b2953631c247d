#include "study/scaling/scaling_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/json_file.h"
#include "base/units.h"
#include "inspect/drawing/chart.h"
#include "study/columns.h"
#include "study/search/choice_columns.h"

namespace weft::study {
namespace {

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

/// A text in CSV, null in JSON where it is empty.
auto text_of(std::string ScalingRow::*member) {
  return [member](const ScalingRow& row) { return (row.*member).empty() ? Cell() : Cell(row.*member); };
}

/// Of files and tables.
Columns<ScalingRow> columns_of(const ScalingStudy& study, std::span<const ScalingRow> rows) {
  const Differences differ = differences_of(rows);
  const bool noisy = study.seeds > 1;
  Columns<ScalingRow> columns;
  if (differ.models) columns.show({.head = "model", .words = true}, &ScalingRow::model, false);
  if (differ.machines) columns.show({.head = "machine", .words = true}, &ScalingRow::machine, false);
  columns.add("ranks", &ScalingRow::ranks, {.head = "ranks"});
  columns.add("model", text_of(&ScalingRow::model));
  columns.add("machine", text_of(&ScalingRow::machine));
  columns.add("policy", text_of(&ScalingRow::policy));
  add_choice(
      columns, &ScalingRow::choice, [](const Choice& choice) { return Cell(join(axis_order(choice), ",")); }, 2);
  columns.show({.head = "with", .words = true, .rank = 1},
               [](const ScalingRow& row) { return options_text(row.choice); });
  columns.show({.head = "policy", .words = true, .rank = 3}, &ScalingRow::policy);
  columns.figure("global_batch", &ScalingRow::global_batch, {.head = "batch", .rank = 4});
  columns.figure("step_ms", &ScalingRow::step_ms, {.head = noisy ? "median step" : "step"}, ms_text);
  columns.figure("step_low_ms", &ScalingRow::low_ms);
  columns.figure("step_high_ms", &ScalingRow::high_ms);
  if (noisy) {
    columns.show({.head = "5 to 95 %", .rank = 2},
                 [](const ScalingRow& row) { return ms_range_text(row.low_ms, row.high_ms); });
  }
  columns.figure("flops_per_s", &ScalingRow::flops, {.head = "total"},
                 [](double flops) { return with_prefix(flops, "flop/s"); });
  columns.figure("efficiency", &ScalingRow::efficiency, {.head = "efficiency"}, percent_text);
  columns.figure("mfu", &ScalingRow::mfu, {.head = "MFU", .rank = 3}, percent_text);
  columns.figure("memory_bytes", &ScalingRow::memory_bytes, {.head = "memory", .rank = 2}, bytes_text);
  columns.figure("exposed_ms", &ScalingRow::exposed_ms, {.head = "exposed", .rank = 3}, ms_text);
  columns.add("reason", &ScalingRow::reason);
  return columns;
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
  return table_text(columns_of(study, rows).table(rows), width);
}

std::string scaling_csv(const ScalingStudy& study, std::span<const ScalingRow> rows) {
  return columns_of(study, rows).csv(rows);
}

JsonObject scaling_json(const ScalingStudy& study, std::span<const ScalingRow> rows) {
  return JsonObject()
      .add("kind", study.kind == ScalingKind::strong ? "strong" : "weak")
      .add("rows", columns_of(study, rows).json(rows));
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
  if (ending == ".csv") return scaling_csv(study, rows);
  if (ending == ".svg") return scaling_picture(study, rows).svg();
  return indented_json(scaling_json(study, rows).text(), 1) + "\n";
}

}  // namespace weft::study
