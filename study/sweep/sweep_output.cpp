#include "study/sweep/sweep_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/median.h"
#include "base/text/parse_number.h"
#include "base/units.h"
#include "inspect/drawing/chart.h"
#include "runtime/cost/machine_keys.h"

namespace weft::study {
namespace {

std::optional<double> number_of(std::string_view text) {
  return number_in<double>(text);
}

/// A value of a key, in JSON a number where it is one.
Cell key_cell(const std::string& value) {
  if (const auto whole = number_in<std::int64_t>(value)) return {value, *whole};
  if (const auto number = number_of(value)) return {value, *number};
  return value;
}

/// The rows of each combination and policy as one: medians over its seeds.
std::vector<SweepRow> summaries_of(const Sweep& sweep, std::span<const SweepRow> rows) {
  std::vector<SweepRow> summaries;
  const auto seeds = static_cast<std::size_t>(sweep.seeds);
  for (; rows.size() >= seeds; rows = rows.subspan(seeds)) {
    SweepRow& summary = summaries.emplace_back(rows.front());
    if (!summary.possible()) continue;
    const auto over_seeds = [&](double SweepRow::*figure, double share) {
      std::vector<double> values;
      for (const SweepRow& row : rows.first(seeds)) values.push_back(row.*figure);
      return quantile(std::move(values), share);
    };
    for (double SweepRow::*figure : {&SweepRow::tokens_per_s, &SweepRow::mfu, &SweepRow::exposed_ms,
                                     &SweepRow::communication_ms, &SweepRow::step_ms, &SweepRow::bound_ms}) {
      summary.*figure = over_seeds(figure, 0.5);
    }
    summary.low_ms = over_seeds(&SweepRow::step_ms, 0.05);
    summary.high_ms = over_seeds(&SweepRow::step_ms, 0.95);
  }
  return summaries;
}

/// The first key with several values; 0 if none has.
std::size_t key_over(const Sweep& sweep) {
  for (std::size_t i = 0; i < sweep.keys.size(); ++i) {
    if (sweep.keys[i].values.size() > 1) return i;
  }
  return 0;
}

/// Whether an axis whose values span this range reads better in logarithms.
inspect::ChartScale scale_of(double least, double most) {
  constexpr double kWide = 20;
  return least > 0 && most / least >= kWide ? inspect::ChartScale::logarithmic : inspect::ChartScale::linear;
}

/// The unit of a number of the machine.
inspect::ChartUnit unit_of(const std::string& key) {
  using cost::MachineUnit, inspect::ChartUnit;
  static const std::map<MachineUnit, ChartUnit> units = {
      {MachineUnit::seconds, ChartUnit::seconds},
      {MachineUnit::bytes, ChartUnit::bytes},
      {MachineUnit::bytes_a_second, ChartUnit::bytes_a_second},
      {MachineUnit::operations_a_second, ChartUnit::operations_a_second}};
  for (const cost::MachineKey& each : cost::machine_keys()) {
    const auto unit = units.find(each.unit);
    if (unit != units.end() && key == std::string(kMachinePrefix) + each.key()) return unit->second;
  }
  return ChartUnit::number;
}

inspect::ChartAxis axis_over(const SweptKey& key) {
  inspect::ChartAxis axis{.title = key.key, .at_points = true};
  std::vector<double> numbers;
  for (const std::string& value : key.values) {
    if (const auto number = number_of(value)) numbers.push_back(*number);
  }
  if (numbers.size() == key.values.size()) {
    axis.unit = unit_of(key.key);
    axis.scale = scale_of(*std::ranges::min_element(numbers), *std::ranges::max_element(numbers));
  } else {
    axis.places = key.values;
  }
  return axis;
}

/// "micro-batch=2, program": what tells a series from the others.
std::string series_name(const Sweep& sweep, const SweepRow& row, std::size_t over) {
  std::string name;
  for (std::size_t i = 0; i < row.values.size(); ++i) {
    if (i != over && sweep.keys[i].values.size() > 1) name += fmt::format("{}={}, ", sweep.keys[i].key, row.values[i]);
  }
  return name + row.policy;
}

inspect::ChartPoint point_of(const Sweep& sweep, const SweepRow& row, const inspect::ChartAxis& axis, std::size_t over,
                             const std::string& name) {
  inspect::ChartPoint point{.y = row.step_ms * 1e-3};
  const std::string& value = row.values[over];
  point.x = axis.places.empty() ? number_of(value).value_or(0)
                                : static_cast<double>(std::ranges::find(axis.places, value) - axis.places.begin());
  point.tooltip = fmt::format("{}={}, {}: {}", axis.title, value, name, format_time(point.y * 1e9));
  if (sweep.seeds > 1) {
    point.low = row.low_ms * 1e-3, point.high = row.high_ms * 1e-3;
    point.tooltip += fmt::format(" ({} to {})", format_time(*point.low * 1e9), format_time(*point.high * 1e9));
  }
  return point;
}

/// Moves the points of series at one place beside each other.
void stand_apart(std::vector<inspect::ChartSeries>& series) {
  constexpr double kRoom = 0.5;  // of the distance between places
  const auto count = static_cast<double>(series.size());
  for (std::size_t i = 0; i < series.size(); ++i) {
    const double shift = ((static_cast<double>(i) + 0.5) / count - 0.5) * kRoom;
    for (inspect::ChartPoint& point : series[i].points) point.x += shift;
  }
}

}  // namespace

Columns<SweepRow> sweep_columns(const Sweep& sweep) {
  const bool noisy = sweep.seeds > 1;
  Columns<SweepRow> columns;
  for (std::size_t i = 0; i < sweep.keys.size(); ++i) {
    const SweptKey& key = sweep.keys[i];
    const bool words = !std::ranges::all_of(key.values, [](const auto& value) { return number_of(value).has_value(); });
    columns
        .add(key.key, [i](const SweepRow& row) { return key_cell(row.values.at(i)); },
             {.head = key.key, .words = words})
        .read = [](const std::string& value, SweepRow& row) {
      row.values.push_back(value);
      return true;
    };
  }
  columns.add("policy", &SweepRow::policy, {.head = "policy", .words = true});
  columns.add("seed", &SweepRow::seed);
  columns.figure("step_ms", &SweepRow::step_ms, {.head = noisy ? "median step" : "step"}, ms_text);
  if (noisy) {
    columns.show({.head = "5 to 95 %", .rank = 1},
                 [](const SweepRow& row) { return ms_range_text(row.low_ms, row.high_ms); });
  }
  columns.figure("tokens_per_s", &SweepRow::tokens_per_s, {.head = "tokens/s", .rank = 2}, human_count);
  columns.figure("mfu", &SweepRow::mfu, {.head = "MFU", .rank = 2}, percent_text);
  columns.figure("exposed_ms", &SweepRow::exposed_ms, {.head = "exposed", .rank = 3}, ms_text);
  columns.figure("communication_ms", &SweepRow::communication_ms, {.head = "communication", .rank = 4}, ms_text);
  columns.figure("memory_bytes", &SweepRow::memory_bytes).shown({.head = "memory", .rank = 1}, [](const SweepRow& row) {
    return bytes_text(row.memory_bytes) + (row.fits ? "" : ", doesn't fit");
  });
  columns.add("fits", &SweepRow::fits);
  columns.figure("bound_ms", &SweepRow::bound_ms, {.head = "bound", .rank = 5}, ms_text);
  columns.add("reason", &SweepRow::reason);
  return columns;
}

JsonObject sweep_json(const Sweep& sweep, std::span<const SweepRow> rows) {
  return JsonObject().add("rows", sweep_columns(sweep).json(rows));
}

StyledText sweep_text(const Sweep& sweep, std::span<const SweepRow> rows, std::optional<std::size_t> width) {
  const std::vector<SweepRow> summaries = summaries_of(sweep, rows);
  TextTable table = sweep_columns(sweep).table(summaries);
  for (std::size_t i = 0; i < summaries.size() && summaries.size() > 1; ++i) {
    if (!summaries[i].possible()) continue;
    if (!table.best || summaries[i].step_ms < summaries[*table.best].step_ms) table.best = i;
  }
  return table_text(table, width);
}

inspect::Picture sweep_picture(const Sweep& sweep, std::span<const SweepRow> rows) {
  constexpr std::size_t kNamed = 16;  // series with a line in the legend
  const std::size_t over = key_over(sweep);
  inspect::SeriesChart chart{.title = fmt::format("step over {}", sweep.keys[over].key),
                             .x = axis_over(sweep.keys[over]),
                             .y = {.title = "step", .unit = inspect::ChartUnit::seconds}};
  double least = 0, most = 0;
  for (const SweepRow& row : summaries_of(sweep, rows)) {
    if (!row.possible()) continue;
    const std::string name = series_name(sweep, row, over);
    auto series = std::ranges::find(chart.series, name, &inspect::ChartSeries::name);
    if (series == chart.series.end()) {
      chart.series.push_back({.name = name, .line = chart.x.places.empty()});
      series = std::prev(chart.series.end());
    }
    series->points.push_back(point_of(sweep, row, chart.x, over, name));
    const double step = series->points.back().y;
    least = most == 0 ? step : std::min(least, step), most = std::max(most, step);
  }
  chart.y.scale = scale_of(least, most);
  chart.y.from_zero = least < most / 2;  // else the differences would be small
  if (!chart.x.places.empty()) stand_apart(chart.series);
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    std::ranges::stable_sort(chart.series[i].points, {}, &inspect::ChartPoint::x);
    if (i >= kNamed) chart.series[i].name.clear();
  }
  if (chart.series.size() > kNamed) {
    chart.series.push_back({.name = fmt::format("and {} more", chart.series.size() - kNamed),
                            .color = "#ffffff",
                            .line = false,
                            .radius = 0});
  }
  return inspect::chart_picture(chart);
}

}  // namespace weft::study
