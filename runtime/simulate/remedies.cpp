#include "runtime/simulate/remedies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "runtime/plan/checker.h"
#include "runtime/plan/plan.h"
#include "runtime/policy/scheduling/timetable.h"

namespace weft::simulate {
namespace {

constexpr std::size_t kMostPlanned = 4;  // candidates of a kind that are planned, when the better ones take too much
// A candidate that changes less than another counts as good as that if it reaches this share of its gain.
constexpr double kAsGood = 0.99;
constexpr double kDeadlock = std::numeric_limits<double>::infinity();  // the time of a step that never ends

/// Whether the plan takes no more memory than the problem allows.
bool keeps_memory(const Problem& problem, const plan::Plan& plan) {
  const policy::PolicyOptions& options = problem.options;
  if (options.memory_limit > 0 && plan.scratch_bytes > options.memory_limit) return false;
  return options.memory <= 0 || plan::memory_report(plan).total() <= options.memory;
}

/// Finds remedies for one class of a problem and its report.
class Remedies {
 public:
  Remedies(const Problem& problem, const Report& report, const SimulatedStep& step)
      : problem_(problem),
        report_(report),
        step_(step),
        own_(report.classes[step.of_class]),
        options_(simulation_options(problem)),
        order_(order_of(*own_.plan)) {
    options_.traced_ranks = 1;
    for (const ClassReport& each : report.classes) others_.push_back(order_of(*each.plan));
  }

  void find(const std::vector<ExposedCollective>& collectives, ExposureGroup& group) {
    if (order_ns_ == 0) order_ns_ = timetable_ns(order_);
    std::vector<ExposedCollective> members;
    for (const std::size_t i : group.members) members.push_back(collectives[i]);
    std::vector<Ranked> all = ranked(candidate_remedies(step_, order_, members));
    while (!all.empty()) {
      const RemedyKind kind = all.front().remedy.kind;
      const auto rest =
          std::ranges::stable_partition(all, [&](const Ranked& each) { return each.remedy.kind == kind; });
      group.remedies.push_back(best_of({std::make_move_iterator(all.begin()), std::make_move_iterator(rest.begin())}));
      all.erase(all.begin(), rest.begin());
    }
    if (members.front().cause == ExposureCause::memory_limit) {
      if (std::optional<Remedy> remedy = without_limit()) group.remedies.push_back(*std::move(remedy));
    }
    std::ranges::stable_sort(group.remedies, std::greater{}, &Remedy::gain_ns);
    group.remedies.push_back(without_cost(members));
  }

  std::vector<Remedy> rewrites() const {
    std::vector<Remedy> remedies;
    for (const plan::Rewrite& rewrite :
         {plan::Rewrite(plan::BucketAllReduces{}), plan::Rewrite(plan::SplitAllReduces{}),
          plan::Rewrite(plan::ReduceScatterAllGather{}), plan::Rewrite(plan::ReshardAfterForward{})}) {
      Problem changed = problem_;
      changed.rewrites.push_back(rewrite);
      const Report other = report_plan(changed, report_.policy);
      if (!other.planned()) continue;
      Remedy remedy{.kind = RemedyKind::rewrite, .what = plan::to_string(rewrite)};
      remedy.gain_ns = remedy.alone_ns = report_.step_ns() - other.step_ns();
      remedy.memory_bytes = other.classes[step_.of_class].plan->scratch_bytes - own_.plan->scratch_bytes;
      remedy.rewrite = rewrite;
      remedies.push_back(std::move(remedy));
    }
    std::ranges::stable_sort(remedies, std::greater{}, &Remedy::gain_ns);
    return remedies;
  }

 private:
  struct Ranked {
    Remedy remedy;  // its gain is that of the timetable
    plan::Order order;
  };

  std::vector<Ranked> ranked(std::vector<Remedy> candidates) const {
    std::vector<Ranked> all;
    for (Remedy& candidate : candidates) {
      Ranked each{std::move(candidate), order_};
      if (!apply(step_.graph, each.remedy.moves, each.order).empty()) continue;
      const bool known = std::ranges::any_of(all, [&](const Ranked& other) {
        return other.order.sequence == each.order.sequence && other.order.added_edges == each.order.added_edges;
      });
      if (known) continue;
      each.remedy.gain_ns = each.remedy.alone_ns = order_ns_ - timetable_ns(each.order);
      if (std::isinf(each.remedy.gain_ns)) continue;
      all.push_back(std::move(each));
    }
    return all;
  }

  /// Plans and simulates the best candidates of one kind, until one keeps the memory limit.
  Remedy best_of(std::vector<Ranked> left) const {
    Remedy best;
    for (std::size_t tried = 0; tried < kMostPlanned && !left.empty(); ++tried) {
      double most = left.front().remedy.gain_ns;
      for (const Ranked& each : left) most = std::max(most, each.remedy.gain_ns);
      const auto next = std::ranges::find_if(
          left, [&](const Ranked& each) { return each.remedy.gain_ns >= (most > 0 ? kAsGood * most : most); });
      Remedy remedy = std::move(next->remedy);
      if (plan::Order alone = order_; remedy.collectives > 1 && apply(step_.graph, remedy.worst, alone).empty())
        remedy.alone_ns = order_ns_ - timetable_ns(alone);
      // Planning memory takes far longer than simulating, and a remedy without a gain needs no plan.
      const bool known = std::abs(order_ns_ - report_.step_ns()) <= kTick;
      if (!known || remedy.gains()) plan_and_simulate(next->order, remedy);
      left.erase(next);
      if (tried == 0 || (remedy.fits && remedy.gains())) best = std::move(remedy);
      if (best.fits) break;
    }
    return best;
  }

  void plan_and_simulate(const plan::Order& order, Remedy& remedy) const {
    const plan::Plan plan = plan::make_plan(own_.plan->graph, order, own_.plan->policy);
    const double step_ns = simulated_ns(plan, report_.costs);
    remedy.gain_ns = step_ns < kDeadlock ? report_.step_ns() - step_ns : 0;
    remedy.memory_bytes = plan.scratch_bytes - own_.plan->scratch_bytes;
    remedy.fits = step_ns < kDeadlock && keeps_memory(problem_, plan);
    if (remedy.collectives == 1) remedy.alone_ns = remedy.gain_ns;
  }

  /// With this plan of the class.
  double simulated_ns(const plan::Plan& plan, std::span<const cost::TaskCosts> costs) const {
    std::vector<const plan::Plan*> plans = report_.plans();
    plans[step_.of_class] = &plan;
    if (plans.size() > 1 && !plan::check(plans, 1).empty()) return kDeadlock;
    return simulate(plans, costs, problem_.machine, options_).step_ns;
  }

  double timetable_ns(const plan::Order& order) const {
    std::vector<plan::Order> orders = others_;
    orders[step_.of_class] = order;
    try {
      return policy::timetable_of(report_.graphs(), orders, report_.costs, problem_.options).makespan;
    } catch (const std::logic_error&) {
      if (orders.size() == 1) throw;
      return kDeadlock;  // a move within one class may let the classes wait for each other in a cycle
    }
  }

  std::optional<Remedy> without_limit() {
    if (problem_.options.memory_limit == 0 && problem_.options.memory == 0) return std::nullopt;
    if (!unlimited_) {
      Problem unlimited = problem_;
      unlimited.options.memory = unlimited.options.memory_limit = 0;
      unlimited_ = report_plan(unlimited, report_.policy);
    }
    if (!unlimited_->planned()) return std::nullopt;
    const auto bytes = [this](const Report& report) {
      return human_bytes(static_cast<std::uint64_t>(report.classes[step_.of_class].plan->scratch_bytes));
    };
    Remedy remedy{.kind = RemedyKind::no_memory_limit,
                  .what = fmt::format("without a memory limit (--memory none): {} of scratch instead of {}",
                                      bytes(*unlimited_), bytes(report_))};
    remedy.gain_ns = remedy.alone_ns = report_.step_ns() - unlimited_->step_ns();
    remedy.memory_bytes = unlimited_->classes[step_.of_class].plan->scratch_bytes - own_.plan->scratch_bytes;
    remedy.fits = false;
    return remedy;
  }

  Remedy without_cost(const std::vector<ExposedCollective>& members) const {
    Remedy remedy{.kind = RemedyKind::no_time, .what = "no time at all", .collectives = members.size()};
    std::vector<cost::TaskCosts> all = report_.costs;
    cost::TaskCosts& costs = all[step_.of_class];
    const auto gain = [&](graph::TaskId task) {
      costs.ns[task.index()] = costs.cpu_ns[task.index()] = 0;
      return report_.step_ns() - simulated_ns(*own_.plan, all);
    };
    remedy.alone_ns = gain(members.front().task);
    for (const ExposedCollective& each : members) costs.ns[each.task.index()] = costs.cpu_ns[each.task.index()] = 0;
    remedy.gain_ns = members.size() == 1 ? remedy.alone_ns : gain(members.front().task);
    return remedy;
  }

  const Problem& problem_;
  const Report& report_;
  const SimulatedStep& step_;
  const ClassReport& own_;  // of the class
  SimulationOptions options_;
  std::vector<plan::Order> others_;  // by class, as the report has them
  plan::Order order_;
  double order_ns_ = 0;              // by the timetable
  std::optional<Report> unlimited_;  // made when a group asks for it
};

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

void find_remedies(const Problem& problem, const Report& report, const SimulatedStep& step,
                   const ExplainOptions& options, Explanation& explanation) {
  Remedies remedies(problem, report, step);
  for (std::size_t i = 0; i < std::min(options.most_remedied, explanation.groups.size()); ++i)
    remedies.find(explanation.collectives, explanation.groups[i]);
  if (options.rewrites && !step.graph.has_opaque_tasks()) explanation.rewrites = remedies.rewrites();
}

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
