// What OverlapBench's rows say: the best that is known of each instance, scores of policies, their tables, and the
// files that keep rows, so that what stands isn't computed again.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "study/bench/bench.h"

namespace weft::study {

/// What is known of an instance.
struct BestKnown {
  std::string instance;
  std::uint64_t step = 0;   // the fingerprint of its step
  double step_ns = 0;       // the shortest step
  std::string policy;       // that found it
  std::uint64_t graph = 0;  // the graph whose bound it is
  double bound_ns = 0;      // that no step is below: the least over all graphs that were tried
  double gap() const { return bound_ns > 0 ? step_ns / bound_ns - 1 : 0; }
};

/// The best of the rows of `instances` and of `known`, by name. Of a graph the greatest of its bounds counts, so that a
/// bound that a search proved stays; of an instance the least over its graphs. Rows and what is known of another step
/// than an instance has are forgotten; what is known of other instances stays.
std::vector<BestKnown> best_of(std::span<const BenchInstance> instances, std::span<const BenchRow> rows,
                               std::vector<BestKnown> known);

/// A policy over all instances that it orders.
struct PolicyScore {
  std::string policy;
  std::int64_t instances = 0, solved = 0;
  std::int64_t best = 0;  // number of instances on which no step is shorter
  double mean_ratio = 0;  // geometric mean of step / best known step, where it has a step
  double worst_ratio = 0;
  double planning_ms = 0;  // sum
  /// Another policy that takes no longer to plan in sum and is at least as good wherever this one applies, and better
  /// somewhere: this one is a baseline. Empty: there is none.
  std::string dominated_by = {};
  /// Rising ratios of its steps to the best known, its performance profile (Dolan and Moré, 2002); one for each
  /// instance that it solved.
  std::vector<double> ratios = {};

  bool possible() const { return solved > 0; }
};

/// By mean ratio, policies that solve more first.
std::vector<PolicyScore> scores_of(std::span<const BenchRow> rows, std::span<const BestKnown> best);

/// Rows by instance; of an instance the built-in policies first, in their order, then others by name.
void sort_rows(std::vector<BenchRow>& rows);

/// The row of the same instance and policy; nullptr: there is none.
const BenchRow* row_of(std::span<const BenchRow> rows, const BenchRow& point);

/// Replaces that row, or adds it.
void enter_row(std::vector<BenchRow>& rows, BenchRow row);

/// Whether a point's row is there: of its policy, which is built in, on the same step.
bool stands(std::span<const BenchRow> rows, const BenchRow& point);

/// Of results.csv and JSON. Times have all their digits, and equal rows give equal text: planning times, which depend
/// on the machine, are left out of CSV.
Columns<BenchRow> row_columns(std::span<const BestKnown> best = {});
/// Of planning.csv, whose rows have a step.
Columns<BenchRow> planning_columns();
/// Of best.csv and JSON.
Columns<BestKnown> best_columns();

/// planning.csv of the rows with a step.
std::string planning_csv(std::span<const BenchRow> rows);
/// Enters the planning times of rows that were read.
void enter_planning(std::vector<BenchRow>& rows, std::span<const BenchRow> planning);

struct BenchResult {
  std::vector<BenchInstance> instances;
  std::vector<BenchRow> rows;
  std::vector<BestKnown> best;
};

/// As text a line for each policy, then one for each instance with the best that is known of it; as a picture of each
/// policy the share of its instances on which its step is at most so many times the best known. `result` outlives them.
Results results_of(const BenchResult& result);

/// The same tables in Markdown, and one of every policy on every instance: by how much its step is above the best
/// known.
std::string bench_markdown(const BenchResult& result);

}  // namespace weft::study
