#include "study/bench/bench_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/hash.h"
#include "base/units.h"
#include "inspect/drawing/chart.h"

namespace weft::study {
namespace {

/// Steps that differ by less than this share are equally good: simulated times are rounded to nanoseconds.
constexpr double kSame = 1e-6;

constexpr double kNsInMs = 1e6;

/// The nanoseconds that are written as so many milliseconds, so that a file that is read and written stays the same.
double ns_of(double ms) {
  const double near = ms * kNsInMs, infinite = std::numeric_limits<double>::infinity();
  for (const double candidate : {near, std::nextafter(near, -infinite), std::nextafter(near, infinite)}) {
    if (candidate / kNsInMs == ms) return candidate;
  }
  return near;
}

enum class Zero : std::uint8_t { refused, taken };

/// A time in milliseconds.
template <class Row>
void add_ms(Columns<Row>& columns, const std::string& name, double Row::*ns, Zero zero) {
  Column<Row>& column = columns.figure(name, [ns](const Row& row) { return row.*ns / kNsInMs; });
  column.read = [ns, zero](const std::string& text, Row& row) {
    double ms = 0;
    const bool read = read_cell(text, ms);
    row.*ns = ns_of(ms);
    return read && (ms > 0 || zero == Zero::taken);
  };
}

/// In CSV alone.
template <class Row>
Column<Row>& add_fingerprint(Columns<Row>& columns, const std::string& name, std::uint64_t Row::*member) {
  Column<Row>& column = columns.add(name, [member](const Row& row) { return hex_fingerprint(row.*member); });
  column.json.clear();
  column.read = [member](const std::string& text, Row& row) {
    const auto value = parse_hex_fingerprint(text);
    row.*member = value.value_or(0);
    return value.has_value();
  };
  return column;
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
  columns.add("dominated_by", &PolicyScore::dominated_by);
  columns.add("planning_ms", &PolicyScore::planning_ms);
  columns.show({.head = "planning", .rank = 1}, [](const PolicyScore& score) { return ms_text(score.planning_ms); });
  return columns;
}

enum class Kind : std::uint8_t { contenders, baselines };

/// Contenders are the policies that no other one dominates.
TextTable policies_table(const BenchResult& result, Kind kind) {
  std::vector<PolicyScore> scores = scores_of(result.rows, result.best);
  std::erase_if(scores,
                [&](const PolicyScore& score) { return score.dominated_by.empty() == (kind == Kind::baselines); });
  Columns<PolicyScore> columns = score_columns();
  if (kind == Kind::baselines) {
    columns.show({.head = "never better than", .words = true},
                 [](const PolicyScore& score) { return score.dominated_by; });
  }
  return columns.table(scores);
}

constexpr std::string_view kBaselines =
    "\nBaselines, which a policy without a search meets or beats on each of their instances:\n\n";
constexpr std::size_t kFewest = 3;  // instances, to call a policy a baseline

/// Whether `other` has a step wherever the policy has one, never a longer one, and somewhere a shorter one.
bool dominates(const std::string& other, const std::string& policy, std::span<const BenchRow> rows) {
  std::size_t both = 0, shorter = 0;
  for (const BenchRow& row : rows) {
    if (row.policy != policy || !row.possible()) continue;
    const BenchRow* own = row_of(rows, {.instance = row.instance, .policy = other});
    if (own == nullptr || !own->possible() || own->step_ns > row.step_ns * (1 + kSame)) return false;
    ++both;
    shorter += own->step_ns < row.step_ns * (1 - kSame) ? 1 : 0;
  }
  return both >= kFewest && shorter > 0;
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
      const BenchRow* row = row_of(result.rows, {.instance = instance.name, .policy = policy});
      const bool known = best != nullptr && row != nullptr;
      cells.push_back(!known ? "" : row->possible() ? percent_text(row->step_ns / best->step_ns - 1) : "no plan");
    }
  }
  return table;
}

constexpr std::string_view kNote =
    "\nabove the best: how much longer a policy's step is than the best that is known of the instance; mean: the "
    "geometric mean.\ngap: how far the best known step is above the bound, which no order of the graph is below.\n";

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

}  // namespace

std::vector<BestKnown> best_of(std::span<const BenchInstance> instances, std::span<const BenchRow> rows,
                               std::vector<BestKnown> known) {
  for (const BenchInstance& instance : instances) {
    const std::string& name = instance.name;
    const std::uint64_t step = instance.step.fingerprint;
    std::map<std::uint64_t, double> bounds;  // by graph
    std::optional<BestKnown> best;
    const auto enter = [&](const BestKnown& other) {
      double& bound = bounds[other.graph];
      bound = std::max(bound, other.bound_ns);
      if (!best || other.step_ns < best->step_ns * (1 - kSame)) best = other;
    };
    for (const BestKnown& each : known) {
      if (each.instance == name && each.step == step) enter(each);
    }
    for (const BenchRow& row : rows) {
      if (row.instance == name && row.step == step && row.possible())
        enter({name, step, row.step_ns, row.policy, row.graph, row.bound_ns});
    }
    std::erase_if(known, [&](const BestKnown& each) { return each.instance == name; });
    if (!best) continue;
    std::tie(best->graph, best->bound_ns) =
        *std::ranges::min_element(bounds, {}, [](const auto& each) { return each.second; });
    known.push_back(*std::move(best));
  }
  std::ranges::sort(known, {}, &BestKnown::instance);
  return known;
}

std::vector<PolicyScore> scores_of(std::span<const BenchRow> rows, std::span<const BestKnown> best) {
  std::vector<PolicyScore> scores;
  for (const BenchRow& row : rows) {
    auto score = std::ranges::find(scores, row.policy, &PolicyScore::policy);
    if (score == scores.end()) score = scores.insert(scores.end(), {.policy = row.policy});
    ++score->instances;
    const auto known = std::ranges::find(best, row.instance, &BestKnown::instance);
    if (!row.possible() || known == best.end()) continue;
    ++score->solved;
    score->planning_ms += row.planning_ms;
    const double ratio = std::max(1.0, row.step_ns / known->step_ns);
    score->ratios.push_back(ratio);
    if (ratio <= 1 + kSame) ++score->best;
  }
  for (PolicyScore& score : scores) {
    std::ranges::sort(score.ratios);
    double logarithms = 0;
    for (const double ratio : score.ratios) logarithms += std::log(ratio);
    if (score.ratios.empty()) continue;
    score.mean_ratio = std::exp(logarithms / static_cast<double>(score.ratios.size()));
    score.worst_ratio = score.ratios.back();
  }
  std::ranges::stable_sort(scores, [](const PolicyScore& a, const PolicyScore& b) {
    const auto share = [](const PolicyScore& of) {
      return static_cast<double>(of.solved) / static_cast<double>(std::max<std::int64_t>(1, of.instances));
    };
    if (share(a) != share(b)) return share(a) > share(b);
    return a.mean_ratio < b.mean_ratio;
  });
  for (PolicyScore& score : scores) {
    const auto found = std::ranges::find_if(scores, [&](const PolicyScore& other) {
      return !policy::searches(other.policy) && dominates(other.policy, score.policy, rows);
    });
    if (found != scores.end()) score.dominated_by = found->policy;
  }
  return scores;
}

Columns<BenchRow> row_columns(std::span<const BestKnown> best) {
  Columns<BenchRow> columns;
  columns.add("instance", &BenchRow::instance);
  add_fingerprint(columns, "step", &BenchRow::step);
  columns.add("policy", &BenchRow::policy);
  add_fingerprint(columns, "graph", &BenchRow::graph).figure = true;
  columns.figure("tasks", &BenchRow::tasks);
  add_ms(columns, "step_ms", &BenchRow::step_ns, Zero::refused);
  add_ms(columns, "bound_ms", &BenchRow::bound_ns, Zero::taken);
  const auto above_best = [best](const BenchRow& row) {
    const auto known = std::ranges::find(best, row.instance, &BestKnown::instance);
    return known == best.end() ? "" : fmt::format("{:.6f}", row.step_ns / known->step_ns - 1);
  };
  columns.figure("above_best", above_best).json.clear();
  add_ms(columns, "exposed_ms", &BenchRow::exposed_ns, Zero::taken);
  columns.figure("memory_bytes", &BenchRow::memory_bytes);
  columns.figure("planning_ms", &BenchRow::planning_ms).csv.clear();
  columns.add("reason", [](const BenchRow& row) { return row.possible() ? Cell() : Cell(row.reason); }).read =
      [](const std::string& text, BenchRow& row) { return read_cell(text, row.reason); };
  return columns;
}

Columns<BenchRow> planning_columns() {
  Columns<BenchRow> columns;
  columns.add("instance", &BenchRow::instance);
  columns.add("policy", &BenchRow::policy);
  columns.add("planning_ms", [](const BenchRow& row) { return fmt::format("{:.1f}", row.planning_ms); }).read =
      [](const std::string& text, BenchRow& row) { return read_cell(text, row.planning_ms); };
  return columns;
}

Columns<BestKnown> best_columns() {
  Columns<BestKnown> columns;
  columns.add("instance", &BestKnown::instance);
  add_fingerprint(columns, "step", &BestKnown::step);
  add_ms(columns, "step_ms", &BestKnown::step_ns, Zero::refused);
  columns.add("policy", &BestKnown::policy);
  add_fingerprint(columns, "graph", &BestKnown::graph);
  add_ms(columns, "bound_ms", &BestKnown::bound_ns, Zero::refused);
  columns.add("gap", &BestKnown::gap).csv.clear();
  return columns;
}

void sort_rows(std::vector<BenchRow>& rows) {
  const std::vector<std::string> names = policy::policy_names();
  const auto key = [&](const BenchRow& row) {
    return std::tuple(row.instance, std::ranges::find(names, row.policy) - names.begin(), row.policy);
  };
  std::ranges::stable_sort(rows, {}, key);
}

const BenchRow* row_of(std::span<const BenchRow> rows, const BenchRow& point) {
  const auto same = std::ranges::find_if(
      rows, [&](const BenchRow& each) { return each.instance == point.instance && each.policy == point.policy; });
  return same == rows.end() ? nullptr : &*same;
}

void enter_row(std::vector<BenchRow>& rows, BenchRow row) {
  if (const BenchRow* same = row_of(rows, row)) {
    rows[static_cast<std::size_t>(same - rows.data())] = std::move(row);
  } else {
    rows.push_back(std::move(row));
  }
}

bool stands(std::span<const BenchRow> rows, const BenchRow& point) {
  const BenchRow* row = row_of(rows, point);
  return row != nullptr && row->step == point.step && is_built_in(point.policy);
}

std::string planning_csv(std::span<const BenchRow> rows) {
  std::vector<BenchRow> solved(rows.begin(), rows.end());
  std::erase_if(solved, [](const BenchRow& row) { return !row.possible(); });
  return planning_columns().csv(solved);
}

void enter_planning(std::vector<BenchRow>& rows, std::span<const BenchRow> planning) {
  for (BenchRow& row : rows) {
    if (const BenchRow* same = row_of(planning, row)) row.planning_ms = same->planning_ms;
  }
}

Results results_of(const BenchResult& result) {
  return {.text =
              [&result](std::optional<std::size_t> width) {
                StyledText text = table_text(policies_table(result, Kind::contenders), width);
                const TextTable baselines = policies_table(result, Kind::baselines);
                if (!baselines.rows.empty()) {
                  text.add(std::string(kBaselines));
                  text.add(table_text(baselines, width));
                }
                text.add("\n");
                text.add(table_text(instances_table(result), width));
                text.add(std::string(kNote));
                return text;
              },
          .json =
              [&result] {
                return JsonObject()
                    .add("rows", row_columns().json(result.rows, Absent::left_out))
                    .add("best", best_columns().json(result.best))
                    .add("policies", score_columns().json(scores_of(result.rows, result.best)));
              },
          .csv = [&result] { return row_columns(result.best).csv(result.rows); },
          .picture = [&result] { return performance_profile(result); }};
}

std::string bench_markdown(const BenchResult& result) {
  std::string text = table_markdown(policies_table(result, Kind::contenders));
  const TextTable baselines = policies_table(result, Kind::baselines);
  if (!baselines.rows.empty()) text += std::string(kBaselines) + table_markdown(baselines);
  text += "\n" + table_markdown(instances_table(result)) + std::string(kNote) +
          "\nBy how much each policy's step is above the best known:\n\n" + table_markdown(matrix(result));
  return text;
}

}  // namespace weft::study
