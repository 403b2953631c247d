// The output of `weft compare`: a comparison of policies, simulated and measured, as a table, Markdown, JSON, CSV or a
// picture; the ending of a file's name says which.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/printable.h"
#include "base/text/json_object.h"
#include "runtime/simulate/report.h"
#include "study/policy_step.h"

namespace weft::study {

/// A policy under a memory limit, a candidate for the front of time against memory.
struct LimitedPlan {
  std::string policy;
  std::int64_t memory_bytes = 0;
  double step_ns = 0;
};

struct Comparison {
  std::string title;   // model, ranks, machine
  std::string source;  // of the costs
  std::vector<std::string> unsure =
      {};  // keys of the machine's numbers that are unverified or assumed, if costs rest on them
  std::string summation_note = {};  // see train::summation_note()
  simulate::ProblemBounds problem = {};
  std::vector<PolicyStep> steps;     // as the policies were named
  std::vector<LimitedPlan> limited;  // by rising memory; empty: not requested
  bool tells_planning = true;        // JSON says how long planning took

  const PolicyStep* serial() const;  // null: not among the policies
  bool measured() const;
  bool disturbed() const;
  bool has_stages() const;
  double bound_ns() const { return problem.bounds.best(); }

  /// Sets the bounds of the first step's problem, and what windows prove for it and for all reports.
  void prove();
};

/// The share of pairs of policies that the simulator ranks in the measured order, by their simulated and their measured
/// times, among the pairs whose measured times differ by more than `least` (relative). Equal simulated times count as
/// another order. 1 if there are no such pairs.
double ranked_alike(std::span<const double> simulated, std::span<const double> measured, double least);

/// The same of the planned policies of a comparison, by the medians of their measured steps.
double ranked_alike(const Comparison& comparison, double least);

enum class TableStyle : std::uint8_t { terminal, markdown };

std::string comparison_text(const Comparison& comparison, TableStyle style);
/// The same for a terminal of `width` columns; without a width, tables are as wide as they come.
StyledText styled_comparison(const Comparison& comparison, std::optional<std::size_t> width);
JsonObject comparison_json(const Comparison& comparison);

enum class ComparisonFile : std::uint8_t {
  csv,
  markdown,
  json,
  svg,
  folder,     // for `weft report`, see comparison_folder.h
  as_printed  // to a device or a pipe
};

/// Throws UserError, which lists the endings, if `output` has another one.
ComparisonFile comparison_file_of(const std::string& output);

/// A row a policy, with what comparison_json() has of it but its lists: its keys, joined by "_", are the headings.
/// Fields with commas, quotes or new lines are quoted (RFC 4180).
std::string comparison_csv(const Comparison& comparison);

/// The content of a file of that format; not of a folder, nor of what is printed.
std::string comparison_file(const Comparison& comparison, ComparisonFile format);

}  // namespace weft::study
