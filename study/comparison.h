// The output of `weft compare`: a comparison of policies, simulated and measured, as a table, Markdown or JSON.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/styled_text.h"
#include "base/text/json_object.h"
#include "runtime/simulate/report.h"
#include "runtime/simulate/robustness.h"

namespace weft::study {

/// Measured steps of one policy, in nanoseconds.
struct MeasuredSteps {
  std::vector<double> ns;
  double exposed_ns = 0, communication_ns = 0;  // means over the steps, of rank 0

  double median() const { return quantile(0.5); }
  double quantile(double share) const;
};

/// A policy under a memory limit, a candidate for the front of time against memory.
struct LimitedPlan {
  std::string policy;
  std::int64_t limit_bytes = 0, memory_bytes = 0;
  double step_ns = 0;
};

struct Comparison {
  std::string title;   // model, ranks, machine
  std::string source;  // of the costs
  std::vector<std::string> unsure =
      {};  // keys of the machine's numbers that are unverified or assumed, if costs rest on them
  std::string summation_note = {};  // see train::summation_note()
  simulate::ProblemBounds problem = {};
  std::vector<simulate::Report> reports;
  std::vector<MeasuredSteps> measured;          // by report, or empty
  std::vector<LimitedPlan> limited;             // by rising memory; empty: not requested
  std::vector<simulate::Robustness> disturbed;  // by report, or empty
  bool tells_planning = true;                   // JSON says how long planning took

  const simulate::Report* serial() const;  // null: not among the policies
  double bound_ns() const { return problem.bounds.best(); }
};

/// The share of pairs of policies that the simulator ranks in the measured order, by their simulated and their measured
/// times, among the pairs whose measured times differ by more than `least` (relative). Equal simulated times count as
/// another order. 1 if there are no such pairs.
double ranked_alike(std::span<const double> simulated, std::span<const double> measured, double least);

/// The same of the planned policies of a comparison, by the medians of their measured steps.
double ranked_alike(const Comparison& comparison, double least);

/// Plans that no other plan beats in both time and memory, by rising memory.
std::vector<LimitedPlan> pareto_front(std::vector<LimitedPlan> plans);

/// The front as a table with a title, and as JSON; "" of none.
StyledText front_text(const std::vector<LimitedPlan>& front, std::optional<std::size_t> width);
JsonArray front_json(const std::vector<LimitedPlan>& front);

enum class TableStyle : std::uint8_t { terminal, markdown };

std::string comparison_text(const Comparison& comparison, TableStyle style);
/// The same for a terminal of `width` columns; without a width, tables are as wide as they come.
StyledText styled_comparison(const Comparison& comparison, std::optional<std::size_t> width);
/// By report, the members that comparison_json() has of it.
std::vector<JsonObject> policies_json(const Comparison& comparison);
JsonObject comparison_json(const Comparison& comparison);

}  // namespace weft::study
