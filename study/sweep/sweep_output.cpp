#include "study/sweep/sweep_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <utility>

#include "base/median.h"
#include "base/text/text_table.h"
#include "base/text/units.h"
#include "inspect/drawing/chart.h"
#include "runtime/cost/machine_keys.h"

namespace weft::study {
namespace {

constexpr std::size_t kFigures = 11;  // columns after the keys
constexpr std::array<std::string_view, kFigures> kColumns = {
    "policy",           "seed",         "step_ms", "tokens_per_s", "mfu",   "exposed_ms",
    "communication_ms", "memory_bytes", "fits",    "bound_ms",     "reason"};

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

template <class Number>
bool read_number(std::string_view text, Number& number) {
  const auto read = number_of<Number>(text);
  if (read) number = *read;
  return read.has_value();
}

/// A value of a key for JSON: a number where it is one.
JsonValue json_value(const std::string& value) {
  if (const auto whole = number_of<std::int64_t>(value)) return *whole;
  if (const auto number = number_of<double>(value)) return *number;
  return value;
}

/// The rows of one combination and one policy: its seeds.
using Group = std::span<const SweepRow>;

std::vector<Group> groups_of(const Sweep& sweep, std::span<const SweepRow> rows) {
  std::vector<Group> groups;
  const auto seeds = static_cast<std::size_t>(sweep.seeds);
  for (std::size_t i = 0; i + seeds <= rows.size(); i += seeds) groups.push_back(rows.subspan(i, seeds));
  return groups;
}

std::vector<double> figures(Group group, double SweepRow::*figure) {
  std::vector<double> values;
  for (const SweepRow& row : group) values.push_back(row.*figure);
  return values;
}

constexpr double kLow = 0.05, kHigh = 0.95;

std::string time_text(double ms) {
  return format_time(ms * 1e6);
}

TextTable table_of(const Sweep& sweep, std::span<const SweepRow> rows) {
  TextTable table;
  for (const SweptKey& key : sweep.keys) {
    const bool words = !std::ranges::all_of(key.values, [](const auto& v) { return number_of<double>(v).has_value(); });
    table.columns.push_back({.head = key.key, .words = words});
  }
  const bool noisy = sweep.seeds > 1;
  table.columns.push_back({.head = "policy", .words = true});
  table.columns.push_back({.head = noisy ? "median step" : "step"});
  if (noisy) table.columns.push_back({.head = "5 to 95 %", .rank = 1});
  table.columns.insert(table.columns.end(), {{.head = "tokens/s", .rank = 2},
                                             {.head = "MFU", .rank = 2},
                                             {.head = "exposed", .rank = 3},
                                             {.head = "communication", .rank = 4},
                                             {.head = "memory", .rank = 1},
                                             {.head = "bound", .rank = 5}});
  double best = 0;
  for (const Group& group : groups_of(sweep, rows)) {
    const SweepRow& first = group.front();
    std::vector<std::string> cells = first.values;
    cells.push_back(first.policy);
    if (!first.possible()) {
      cells.push_back(first.reason);
      table.rows.push_back(std::move(cells));
      continue;
    }
    const auto median = [&](double SweepRow::*figure) { return quantile(figures(group, figure), 0.5); };
    const std::vector<double> steps = figures(group, &SweepRow::step_ms);
    const double step = quantile(steps, 0.5);
    if (!table.best || step < best) best = step, table.best = table.rows.size();
    cells.push_back(time_text(step));
    if (noisy) cells.push_back(time_text(quantile(steps, kLow)) + " … " + time_text(quantile(steps, kHigh)));
    const std::string memory = human_bytes(static_cast<std::uint64_t>(first.memory_bytes));
    cells.insert(cells.end(),
                 {human_count(median(&SweepRow::tokens_per_s)), fmt::format("{:.1f} %", 100 * median(&SweepRow::mfu)),
                  time_text(median(&SweepRow::exposed_ms)), time_text(median(&SweepRow::communication_ms)),
                  first.fits ? memory : memory + ", doesn't fit", time_text(median(&SweepRow::bound_ms))});
    table.rows.push_back(std::move(cells));
  }
  if (table.rows.size() < 2) table.best.reset();
  return table;
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
  const bool of_machine = key.starts_with(kMachinePrefix);
  for (const cost::MachineKey& each : cost::machine_keys()) {
    if (!of_machine || each.key() != std::string_view(key).substr(kMachinePrefix.size())) continue;
    switch (each.unit) {
      case cost::MachineUnit::seconds:
        return inspect::ChartUnit::seconds;
      case cost::MachineUnit::bytes:
        return inspect::ChartUnit::bytes;
      case cost::MachineUnit::bytes_a_second:
        return inspect::ChartUnit::bytes_a_second;
      case cost::MachineUnit::operations_a_second:
        return inspect::ChartUnit::operations_a_second;
      case cost::MachineUnit::seconds_a_byte:
      case cost::MachineUnit::number:
        break;
    }
  }
  return inspect::ChartUnit::number;
}

inspect::ChartAxis axis_over(const SweptKey& key) {
  inspect::ChartAxis axis{.title = key.key, .at_points = true};
  std::vector<double> numbers;
  for (const std::string& value : key.values) {
    if (const auto number = number_of<double>(value)) numbers.push_back(*number);
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

inspect::ChartPoint point_of(const Group& group, const inspect::ChartAxis& axis, std::size_t over,
                             const std::string& name) {
  const SweepRow& row = group.front();
  const std::vector<double> steps = figures(group, &SweepRow::step_ms);
  inspect::ChartPoint point{.y = quantile(steps, 0.5) * 1e-3};
  const std::string& value = row.values[over];
  point.x = axis.places.empty() ? number_of<double>(value).value_or(0)
                                : static_cast<double>(std::ranges::find(axis.places, value) - axis.places.begin());
  point.tooltip = fmt::format("{}={}, {}: {}", axis.title, value, name, format_time(point.y * 1e9));
  if (group.size() > 1) {
    point.low = quantile(steps, kLow) * 1e-3, point.high = quantile(steps, kHigh) * 1e-3;
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

CsvRow sweep_columns(const Sweep& sweep) {
  CsvRow columns;
  for (const SweptKey& key : sweep.keys) columns.push_back(key.key);
  columns.insert(columns.end(), kColumns.begin(), kColumns.end());
  return columns;
}

CsvRow sweep_cells(const SweepRow& row) {
  CsvRow cells = row.values;
  cells.insert(cells.end(), {row.policy, fmt::format("{}", row.seed)});
  if (!row.possible()) {
    cells.insert(cells.end(), {"", "", "", "", "", "", "false", "", row.reason});
    return cells;
  }
  const auto text = [](double number) { return fmt::format("{}", number); };  // the shortest that reads back
  cells.insert(cells.end(), {text(row.step_ms), text(row.tokens_per_s), text(row.mfu), text(row.exposed_ms),
                             text(row.communication_ms), fmt::format("{}", row.memory_bytes),
                             row.fits ? "true" : "false", text(row.bound_ms), ""});
  return cells;
}

std::optional<SweepRow> sweep_row(const CsvRow& cells, std::size_t keys) {
  if (cells.size() != keys + kFigures) return std::nullopt;
  SweepRow row;
  row.values.assign(cells.begin(), cells.begin() + static_cast<std::ptrdiff_t>(keys));
  const std::span<const std::string> figures = std::span(cells).subspan(keys);
  row.policy = figures[0];
  row.reason = figures[10];
  row.fits = figures[8] == "true";
  if (!read_number(figures[1], row.seed)) return std::nullopt;
  const bool read = read_number(figures[2], row.step_ms) && read_number(figures[3], row.tokens_per_s) &&
                    read_number(figures[4], row.mfu) && read_number(figures[5], row.exposed_ms) &&
                    read_number(figures[6], row.communication_ms) && read_number(figures[7], row.memory_bytes) &&
                    read_number(figures[9], row.bound_ms);
  if (read == row.possible()) return row;
  return std::nullopt;
}

JsonObject sweep_json(const Sweep& sweep, std::span<const SweepRow> rows) {
  JsonArray list;
  for (const SweepRow& row : rows) {
    JsonObject object;
    for (std::size_t i = 0; i < row.values.size(); ++i) object.add(sweep.keys[i].key, json_value(row.values[i]));
    object.add("policy", row.policy).add("seed", row.seed);
    const auto figure = [&](double number) { return row.possible() ? JsonValue(number) : JsonValue(nullptr); };
    object.add("step_ms", figure(row.step_ms))
        .add("tokens_per_s", figure(row.tokens_per_s))
        .add("mfu", figure(row.mfu))
        .add("exposed_ms", figure(row.exposed_ms))
        .add("communication_ms", figure(row.communication_ms))
        .add("memory_bytes", row.possible() ? JsonValue(row.memory_bytes) : JsonValue(nullptr))
        .add("fits", row.fits)
        .add("bound_ms", figure(row.bound_ms))
        .add("reason", row.reason);
    list.add(object);
  }
  return JsonObject().add("rows", list);
}

StyledText sweep_text(const Sweep& sweep, std::span<const SweepRow> rows, std::optional<std::size_t> width) {
  return table_text(table_of(sweep, rows), width);
}

inspect::Picture sweep_picture(const Sweep& sweep, std::span<const SweepRow> rows) {
  constexpr std::size_t kNamed = 16;  // series with a line in the legend
  const std::size_t over = key_over(sweep);
  inspect::SeriesChart chart{.title = fmt::format("step over {}", sweep.keys[over].key),
                             .x = axis_over(sweep.keys[over]),
                             .y = {.title = "step", .unit = inspect::ChartUnit::seconds}};
  double least = 0, most = 0;
  for (const Group& group : groups_of(sweep, rows)) {
    if (!group.front().possible()) continue;
    const std::string name = series_name(sweep, group.front(), over);
    auto series = std::ranges::find(chart.series, name, &inspect::ChartSeries::name);
    if (series == chart.series.end()) {
      chart.series.push_back({.name = name, .line = chart.x.places.empty()});
      series = std::prev(chart.series.end());
    }
    series->points.push_back(point_of(group, chart.x, over, name));
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
