// The rows of OverlapBench as files, so that what stands isn't computed again: results.csv, and planning.csv with the
// times that depend on the machine.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "study/bench/bench.h"

namespace weft::study {

/// Rows by instance; of an instance the built-in policies first, in their order, then others by name.
void sort_rows(std::vector<BenchRow>& rows);

/// Replaces the row of the same instance and policy, or adds it.
void enter_row(std::vector<BenchRow>& rows, BenchRow row);

/// Whether a job's row is there: of its policy on the same step. A user's policy may be another by now, whatever it is
/// called, so no row of it stands.
bool stands(std::span<const BenchRow> rows, const BenchJob& job);

/// Whether the row of a job is a step whose graph isn't in the run's CertificateBook.
bool lacks_proof(std::span<const BenchRow> rows, const BenchJob& job);

/// results.csv, a line a row: instance, step, policy, graph, tasks, step_ms, bound_ms, above_best, exposed_ms,
/// memory_bytes, reason. Times have all their digits, and equal rows give equal text: planning times are left out.
std::string rows_csv(std::span<const BenchRow> rows, std::span<const BestKnown> best);
/// Reads such a text. Throws UserError naming `file`.
std::vector<BenchRow> parse_rows(std::string_view text, std::string_view file);

/// planning.csv: instance, policy, planning_ms.
std::string planning_csv(std::span<const BenchRow> rows);
/// Enters the times of such a text into the rows. Throws UserError naming `file`.
void enter_planning(std::vector<BenchRow>& rows, std::string_view text, std::string_view file);

/// best.csv: instance, step, step_ms, policy, graph, bound_ms. Times have all their digits.
std::string best_csv(std::span<const BestKnown> best);
/// Reads such a text. Throws UserError naming `file`.
std::vector<BestKnown> parse_best(std::string_view text, std::string_view file);

}  // namespace weft::study
