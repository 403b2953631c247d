#include "study/bench/bench_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/text/csv.h"
#include "base/text/hex.h"

namespace weft::study {
namespace {

constexpr double kNsInMs = 1e6;

const CsvRow kRowColumns = {"instance", "step",       "policy",     "graph",        "tasks", "step_ms",
                            "bound_ms", "above_best", "exposed_ms", "memory_bytes", "reason"};
const CsvRow kPlanningColumns = {"instance", "policy", "planning_ms"};
const CsvRow kBestColumns = {"instance", "step", "step_ms", "policy", "graph", "bound_ms"};

/// All digits that a number needs to be read back.
std::string ns_as_ms(double ns) {
  return fmt::format("{}", ns / kNsInMs);
}

/// The nanoseconds that are written as so many milliseconds, so that a file that is read and written stays the same.
double ns_of(double ms) {
  const double near = ms * kNsInMs, infinite = std::numeric_limits<double>::infinity();
  for (const double candidate : {near, std::nextafter(near, -infinite), std::nextafter(near, infinite)}) {
    if (candidate / kNsInMs == ms) return candidate;
  }
  return near;
}

/// A table with known columns, read cell by cell.
class TableReader {
 public:
  TableReader(std::string_view text, std::string_view file, const CsvRow& columns) : file_(file), columns_(columns) {
    auto rows = read_csv(text);
    if (!rows || rows->empty() || rows->front() != columns) refuse(1);
    rows_ = *std::move(rows);
    for (std::size_t i = 1; i < rows_.size(); ++i) {
      if (rows_[i].size() != columns.size()) refuse(i + 1);
    }
  }

  /// Goes to the next line; false after the last.
  bool next() {
    column_ = 0;
    return ++line_ < rows_.size();
  }
  std::string text() { return rows_[line_][column_++]; }
  bool at_empty() const { return rows_[line_][column_].empty(); }
  template <class T>
  T number() {
    const std::string& cell = rows_[line_][column_++];
    T value{};
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc() || end != cell.data() + cell.size() || !(value >= 0)) refuse(line_ + 1);
    return value;
  }
  double ns() { return ns_of(number<double>()); }
  double ns_above_zero() {
    const double value = ns();
    if (value <= 0) refuse(line_ + 1);
    return value;
  }
  std::uint64_t fingerprint() {
    const auto value = parse_hex_fingerprint(rows_[line_][column_++]);
    if (!value) refuse(line_ + 1);
    return *value;
  }

 private:
  [[noreturn]] void refuse(std::size_t line) const {
    throw UserError(fmt::format("{} line {}: not what weft bench writes", file_, line),
                    fmt::format("{}", fmt::join(columns_, ",")), "remove the file; weft bench finds out again");
  }

  std::string_view file_;
  const CsvRow& columns_;
  std::vector<CsvRow> rows_;
  std::size_t line_ = 0, column_ = 0;
};

}  // namespace

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
    return row.instance == job.instance.name && row.policy == job.policy.name && row.solved() && row.proof == 0;
  });
}

std::string rows_csv(std::span<const BenchRow> rows, std::span<const BestKnown> best) {
  std::string text = csv_line(kRowColumns);
  for (const BenchRow& row : rows) {
    CsvRow cells = {row.instance, hex_fingerprint(row.step), row.policy};
    if (row.solved()) {
      const auto known = std::ranges::find(best, row.instance, &BestKnown::instance);
      cells.insert(cells.end(), {hex_fingerprint(row.graph), fmt::format("{}", row.tasks), ns_as_ms(row.step_ns),
                                 ns_as_ms(row.bound_ns),
                                 known == best.end() ? "" : fmt::format("{:.6f}", row.step_ns / known->step_ns - 1),
                                 ns_as_ms(row.exposed_ns), fmt::format("{}", row.memory_bytes)});
    }
    cells.resize(kRowColumns.size() - 1);
    cells.push_back(row.reason);
    text += csv_line(cells);
  }
  return text;
}

std::vector<BenchRow> parse_rows(std::string_view text, std::string_view file) {
  std::vector<BenchRow> rows;
  for (TableReader table(text, file, kRowColumns); table.next();) {
    BenchRow& row = rows.emplace_back();
    row.instance = table.text();
    row.step = table.fingerprint();
    row.policy = table.text();
    if (table.at_empty()) {
      for (std::size_t skipped = 3; skipped < kRowColumns.size() - 1; ++skipped) table.text();
    } else {
      row.graph = table.fingerprint();
      row.tasks = table.number<std::int64_t>();
      row.step_ns = table.ns_above_zero();
      row.bound_ns = table.ns();
      table.text();  // above_best, which the others tell
      row.exposed_ns = table.ns();
      row.memory_bytes = table.number<std::int64_t>();
    }
    row.reason = table.text();
    if (row.solved() && row.graph == 0) row.reason = "no reason is told";
  }
  return rows;
}

std::string planning_csv(std::span<const BenchRow> rows) {
  std::string text = csv_line(kPlanningColumns);
  for (const BenchRow& row : rows) {
    if (row.solved()) text += csv_line({row.instance, row.policy, fmt::format("{:.1f}", row.planning_ms)});
  }
  return text;
}

void enter_planning(std::vector<BenchRow>& rows, std::string_view text, std::string_view file) {
  for (TableReader table(text, file, kPlanningColumns); table.next();) {
    const std::string instance = table.text(), policy = table.text();
    const double ms = table.number<double>();
    for (BenchRow& row : rows) {
      if (row.instance == instance && row.policy == policy) row.planning_ms = ms;
    }
  }
}

std::string best_csv(std::span<const BestKnown> best) {
  std::string text = csv_line(kBestColumns);
  for (const BestKnown& each : best) {
    text += csv_line({each.instance, hex_fingerprint(each.step), ns_as_ms(each.step_ns), each.policy,
                      hex_fingerprint(each.graph), ns_as_ms(each.bound_ns)});
  }
  return text;
}

std::vector<BestKnown> parse_best(std::string_view text, std::string_view file) {
  std::vector<BestKnown> best;
  for (TableReader table(text, file, kBestColumns); table.next();) {
    BestKnown& each = best.emplace_back();
    each.instance = table.text();
    each.step = table.fingerprint();
    each.step_ns = table.ns_above_zero();
    each.policy = table.text();
    each.graph = table.fingerprint();
    each.bound_ns = table.ns_above_zero();
  }
  return best;
}

}  // namespace weft::study
