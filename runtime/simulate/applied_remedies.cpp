#include "runtime/simulate/applied_remedies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "runtime/plan/checker.h"
#include "runtime/plan/memory_report.h"
#include "runtime/simulate/remedies.h"

namespace weft::simulate {
namespace {

constexpr const char* kFewer = "choose other remedies, or one alone";

std::string in_words(std::span<const int> numbers) {
  std::vector<std::string> words;
  for (const int number : numbers) words.push_back(std::to_string(number));
  return (numbers.size() == 1 ? "remedy " : "remedies ") + join(words);
}

/// In rising order.
std::vector<int> checked(const Explanation& explanation, std::span<const int> numbers) {
  const int most = explanation.remedies();
  std::vector<int> sorted(numbers.begin(), numbers.end());
  std::ranges::sort(sorted);
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (explanation.remedy(sorted[i]) == nullptr) {
      throw UserError(fmt::format("there is no remedy {}", sorted[i]),
                      most == 0 ? "no number: no remedy gains here" : fmt::format("numbers from 1 to {}", most),
                      "run `weft explain` with the same options, which prints the numbers");
    }
    if (i > 0 && sorted[i] == sorted[i - 1]) {
      throw UserError(fmt::format("remedy {} is chosen twice", sorted[i]), "each number once", "leave one of them out");
    }
  }
  return sorted;
}

/// Makes the remedy's moves, and says in the reasons of the moved tasks why they are where they are.
void move_tasks(const Remedy& remedy, const graph::Graph& from, const graph::Graph& to, plan::Order& order) {
  std::string missing;
  const std::vector<OrderMove> moves = translated(remedy.moves, from, to, missing);
  if (!missing.empty()) {
    throw UserError(fmt::format("remedy {} moves {}, which a chosen rewrite removes", remedy.number, missing),
                    "remedies of one graph",
                    "apply the rewrite alone, and explain the plan again with --policy file:PLAN");
  }
  if (const std::string why = apply(to, moves, order); !why.empty()) {
    throw UserError(fmt::format("remedy {} contradicts the others that were chosen: {}", remedy.number, why),
                    "remedies that can be had together", kFewer);
  }
  order.reasons.push_back({.text = fmt::format("weft explain: {}", remedy.what)});
  for (plan::Placement& placement : order.sequence) {
    const bool moves_it = std::ranges::any_of(
        moves, [&](const OrderMove& move) { return move.task == placement.task && move.kind != MoveKind::detach; });
    if (moves_it) placement.reason = static_cast<std::uint32_t>(order.reasons.size() - 1);
  }
}

std::vector<const plan::Plan*> pointers_to(const std::vector<plan::Plan>& plans) {
  std::vector<const plan::Plan*> pointers;
  for (const plan::Plan& plan : plans) pointers.push_back(&plan);
  return pointers;
}

void check(const Problem& problem, const std::vector<plan::Plan>& plans, std::size_t of_class,
           const std::string& words) {
  const plan::Plan& plan = plans[of_class];
  const std::vector<plan::Violation> violations = plan::check(pointers_to(plans), 1);
  if (!violations.empty()) {
    throw UserError(fmt::format("the plan with {} isn't safe: {}", words, violations.front().message), "a safe plan",
                    kFewer);
  }
  if (keeps_memory(problem, plan)) return;
  const std::int64_t limit = problem.options.memory > 0 ? problem.options.memory : problem.options.memory_limit;
  throw UserError(fmt::format("the plan with {} takes {} of memory", words,
                              human_bytes(static_cast<std::uint64_t>(plan::memory_report(plan).total()))),
                  fmt::format("at most {}", human_bytes(static_cast<std::uint64_t>(limit))), kFewer);
}

}  // namespace

AppliedRemedies apply_remedies(const Problem& problem, const Report& report, const Explanation& explanation,
                               std::span<const int> numbers, std::size_t of_class) {
  AppliedRemedies applied;
  applied.numbers = checked(explanation, numbers);
  const std::string words = in_words(applied.numbers);
  Problem rewritten = problem;
  for (const int number : applied.numbers) {
    const Remedy& remedy = *explanation.remedy(number);
    if (remedy.rewrite) rewritten.rewrites.push_back(*remedy.rewrite);
    applied.promised_ns += remedy.gain_ns;
  }
  Report base = report;
  if (rewritten.rewrites.size() > problem.rewrites.size()) base = report_plan(rewritten, report.policy);
  if (!base.planned()) throw UserError(base.refusal, "", "");
  std::vector<plan::Order> orders;
  for (const ClassReport& each : base.classes) orders.push_back(order_of(*each.plan));
  for (const int number : applied.numbers) {
    const Remedy& remedy = *explanation.remedy(number);
    if (remedy.moves.empty()) continue;
    move_tasks(remedy, report.classes[of_class].graph(), base.classes[of_class].graph(), orders[of_class]);
  }
  const std::string policy = fmt::format("{} with {} of weft explain", report.first().plan->policy, words);
  std::vector<plan::Plan> plans, replayed;
  for (std::size_t k = 0; k < orders.size(); ++k) {
    plans.push_back(plan::make_plan(base.classes[k].plan->graph, orders[k], policy));
    applied.file.push_back(plan::filed(plans[k], base.classes[k].rewrites));
  }
  check(problem, plans, of_class, words);

  // The plan that counts is the one that a reader of the file makes.
  const plan::PlanFile read = plan::parse_plan_file(plan::to_json(applied.file), "the plan");
  for (std::size_t k = 0; k < read.size(); ++k) {
    const auto& graph = base.classes[k].plan->graph;
    replayed.push_back(plan::make_plan(graph, plan::order_of(read[k], *graph, "the plan", {}), policy));
  }
  SimulationOptions options = simulation_options(problem);
  options.traced_ranks = 1;
  applied.step_ns = simulate(pointers_to(replayed), base.costs, problem.machine, options).step_ns;
  applied.memory_bytes = plan::memory_report(replayed[of_class]).total();
  applied.gain_ns = report.step_ns() - applied.step_ns;
  if (applied.gain_ns < kLeastGain) {
    throw UserError(fmt::format("with {} a step of {:.3f} ms gets {:.3f} ms {}", words, report.step_ns() * 1e-6,
                                std::abs(applied.gain_ns) * 1e-6, applied.gain_ns > 0 ? "shorter" : "longer"),
                    "a step that is at least 0.001 ms shorter", kFewer);
  }
  return applied;
}

}  // namespace weft::simulate
