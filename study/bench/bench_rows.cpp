#include "study/bench/bench_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "base/text/hex.h"
#include "runtime/policy/catalog/policies.h"

namespace weft::study {
namespace {

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

}  // namespace

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

void enter_row(std::vector<BenchRow>& rows, BenchRow row) {
  const auto same = std::ranges::find_if(
      rows, [&](const BenchRow& each) { return each.instance == row.instance && each.policy == row.policy; });
  if (same == rows.end()) {
    rows.push_back(std::move(row));
  } else {
    *same = std::move(row);
  }
}

bool stands(std::span<const BenchRow> rows, const BenchJob& job) {
  const std::vector<std::string> names = policy::policy_names();
  const std::string& policy = job.policy.name;
  if (std::ranges::find(names, policy.substr(0, policy.find(':'))) == names.end()) return false;
  return std::ranges::any_of(rows, [&](const BenchRow& row) {
    return row.instance == job.instance.name && row.policy == policy && row.step == job.step.fingerprint;
  });
}

bool lacks_proof(std::span<const BenchRow> rows, const BenchJob& job) {
  return std::ranges::any_of(rows, [&](const BenchRow& row) {
    return row.instance == job.instance.name && row.policy == job.policy.name && row.possible() && row.proof == 0;
  });
}

std::string planning_csv(std::span<const BenchRow> rows) {
  std::vector<BenchRow> solved(rows.begin(), rows.end());
  std::erase_if(solved, [](const BenchRow& row) { return !row.possible(); });
  return planning_columns().csv(solved);
}

void enter_planning(std::vector<BenchRow>& rows, std::span<const BenchRow> planning) {
  for (BenchRow& row : rows) {
    const auto same = std::ranges::find_if(
        planning, [&](const BenchRow& each) { return each.instance == row.instance && each.policy == row.policy; });
    if (same != planning.end()) row.planning_ms = same->planning_ms;
  }
}

}  // namespace weft::study
