// The rows of OverlapBench as files, so that what stands isn't computed again: results.csv, and planning.csv with the
// times that depend on the machine.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "study/bench/bench.h"
#include "study/columns.h"

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

/// Of results.csv and JSON. Times have all their digits, and equal rows give equal text: planning times, which depend
/// on the machine, are left out of CSV.
Columns<BenchRow> row_columns(std::span<const BestKnown> best = {});
/// Of planning.csv.
Columns<BenchRow> planning_columns();
/// Of best.csv and JSON.
Columns<BestKnown> best_columns();

/// planning.csv of the rows with a step.
std::string planning_csv(std::span<const BenchRow> rows);
/// Enters the planning times of rows that were read.
void enter_planning(std::vector<BenchRow>& rows, std::span<const BenchRow> planning);

}  // namespace weft::study
