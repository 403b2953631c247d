#include "runtime/simulate/remedies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <utility>

#include "base/units.h"
#include "runtime/plan/checker.h"
#include "runtime/plan/memory_report.h"
#include "runtime/policy/scheduling/timetable.h"

namespace weft::simulate {
namespace {

constexpr std::size_t kMostPlanned = 4;  // candidates of a kind that are planned, when the better ones take too much
// A candidate that changes less than another counts as good as that if it reaches this share of its gain.
constexpr double kAsGood = 0.99;
constexpr double kDeadlock = std::numeric_limits<double>::infinity();  // the time of a step that never ends

}  // namespace

Remedies::Remedies(const Problem& problem, const Report& report, std::size_t of_class)
    : problem_(problem),
      report_(report),
      of_class_(of_class),
      own_(report.classes[of_class]),
      options_(simulation_options(problem)),
      order_(order_of(*own_.plan)) {
  options_.traced_ranks = 1;
  for (const ClassReport& each : report.classes) others_.push_back(order_of(*each.plan));
}

bool keeps_memory(const Problem& problem, const plan::Plan& plan) {
  const policy::PolicyOptions& options = problem.options;
  if (options.memory_limit > 0 && plan.scratch_bytes > options.memory_limit) return false;
  return options.memory <= 0 || plan::memory_report(plan).total() <= options.memory;
}

void Remedies::find(const SimulatedStep& step, const std::vector<ExposedCollective>& collectives,
                    ExposureGroup& group) {
  if (order_ns_ == 0) order_ns_ = timetable_ns(order_);
  std::vector<ExposedCollective> members;
  for (const std::size_t i : group.members) members.push_back(collectives[i]);
  std::vector<Ranked> all = ranked(step, CandidateSearch(step, order_).candidates(members));
  while (!all.empty()) {
    const RemedyKind kind = all.front().candidate.kind;
    std::vector<Ranked*> of_kind;
    for (Ranked& each : all) {
      if (each.candidate.kind == kind) of_kind.push_back(&each);
    }
    group.remedies.push_back(best_of(of_kind, step));
    std::erase_if(all, [&](const Ranked& each) { return each.candidate.kind == kind; });
  }
  if (members.front().cause == ExposureCause::memory_limit) {
    if (std::optional<Remedy> remedy = without_limit()) group.remedies.push_back(*std::move(remedy));
  }
  std::ranges::stable_sort(group.remedies, std::greater{}, &Remedy::gain_ns);
  group.remedies.push_back(without_cost(members));
}

std::vector<Remedies::Ranked> Remedies::ranked(const SimulatedStep& step,
                                               std::vector<CandidateMoves> candidates) const {
  std::vector<Ranked> all;
  for (CandidateMoves& candidate : candidates) {
    Ranked each{std::move(candidate), order_, 0};
    if (!apply(step.graph, each.candidate.moves, each.order).empty()) continue;
    const bool known = std::ranges::any_of(all, [&](const Ranked& other) {
      return other.order.sequence == each.order.sequence && other.order.added_edges == each.order.added_edges;
    });
    if (known) continue;
    each.gain_ns = order_ns_ - timetable_ns(each.order);
    if (std::isinf(each.gain_ns)) continue;
    all.push_back(std::move(each));
  }
  return all;
}

Remedy Remedies::best_of(const std::vector<Ranked*>& of_kind, const SimulatedStep& step) const {
  std::vector<Ranked*> left = of_kind;
  Remedy best;
  for (std::size_t tried = 0; tried < kMostPlanned && !left.empty(); ++tried) {
    double most = left.front()->gain_ns;
    for (const Ranked* each : left) most = std::max(most, each->gain_ns);
    const auto next = std::ranges::find_if(
        left, [&](const Ranked* each) { return each->gain_ns >= (most > 0 ? kAsGood * most : most); });
    Remedy remedy = unplanned(**next, step);
    // Planning memory takes far longer than simulating, and a remedy without a gain needs no plan.
    const bool known = std::abs(order_ns_ - report_.step_ns()) <= kTick;
    if (!known || remedy.gains()) plan_and_simulate((*next)->order, remedy);
    left.erase(next);
    if (tried == 0 || (remedy.fits && remedy.gains())) best = std::move(remedy);
    if (best.fits) break;
  }
  return best;
}

Remedy Remedies::unplanned(const Ranked& ranked, const SimulatedStep& step) const {
  const CandidateMoves& candidate = ranked.candidate;
  Remedy remedy{.kind = candidate.kind, .what = candidate.what, .collectives = candidate.collectives};
  remedy.gain_ns = remedy.alone_ns = ranked.gain_ns;
  remedy.computations = candidate.computations;
  remedy.moves = candidate.moves;
  if (plan::Order alone = order_; candidate.collectives > 1 && apply(step.graph, candidate.worst, alone).empty()) {
    remedy.alone_ns = order_ns_ - timetable_ns(alone);
  }
  return remedy;
}

void Remedies::plan_and_simulate(const plan::Order& order, Remedy& remedy) const {
  const plan::Plan plan = plan::make_plan(own_.plan->graph, order, own_.plan->policy);
  const double step_ns = simulated_ns(plan, report_.costs);
  remedy.gain_ns = step_ns < kDeadlock ? report_.step_ns() - step_ns : 0;
  remedy.memory_bytes = plan.scratch_bytes - own_.plan->scratch_bytes;
  remedy.fits = step_ns < kDeadlock && keeps_memory(problem_, plan);
  if (remedy.collectives == 1) remedy.alone_ns = remedy.gain_ns;
}

double Remedies::simulated_ns(const plan::Plan& plan, std::span<const cost::TaskCosts> costs) const {
  std::vector<const plan::Plan*> plans = report_.plans();
  plans[of_class_] = &plan;
  if (plans.size() > 1 && !plan::check(plans, 1).empty()) return kDeadlock;
  return simulate(plans, costs, problem_.machine, options_).step_ns;
}

double Remedies::timetable_ns(const plan::Order& order) const {
  std::vector<plan::Order> orders = others_;
  orders[of_class_] = order;
  try {
    return policy::timetable_of(report_.graphs(), orders, report_.costs, problem_.options).makespan;
  } catch (const std::logic_error&) {
    if (orders.size() == 1) throw;
    return kDeadlock;  // a move within one class may let the classes wait for each other in a cycle
  }
}

std::vector<Remedy> Remedies::rewrites() const {
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
    remedy.memory_bytes = other.classes[of_class_].plan->scratch_bytes - own_.plan->scratch_bytes;
    remedy.rewrite = rewrite;
    remedies.push_back(std::move(remedy));
  }
  std::ranges::stable_sort(remedies, std::greater{}, &Remedy::gain_ns);
  return remedies;
}

std::optional<Remedy> Remedies::without_limit() {
  if (problem_.options.memory_limit == 0 && problem_.options.memory == 0) return std::nullopt;
  if (!unlimited_) {
    Problem unlimited = problem_;
    unlimited.options.memory = unlimited.options.memory_limit = 0;
    unlimited_ = report_plan(unlimited, report_.policy);
  }
  if (!unlimited_->planned()) return std::nullopt;
  const auto bytes = [this](const Report& report) {
    return human_bytes(static_cast<std::uint64_t>(report.classes[of_class_].plan->scratch_bytes));
  };
  Remedy remedy{.kind = RemedyKind::no_memory_limit,
                .what = fmt::format("without a memory limit (--memory none): {} of scratch instead of {}",
                                    bytes(*unlimited_), bytes(report_))};
  remedy.gain_ns = remedy.alone_ns = report_.step_ns() - unlimited_->step_ns();
  remedy.memory_bytes = unlimited_->classes[of_class_].plan->scratch_bytes - own_.plan->scratch_bytes;
  remedy.fits = false;
  return remedy;
}

Remedy Remedies::without_cost(const std::vector<ExposedCollective>& members) const {
  Remedy remedy{.kind = RemedyKind::no_time, .what = "no time at all", .collectives = members.size()};
  std::vector<cost::TaskCosts> all = report_.costs;
  cost::TaskCosts& costs = all[of_class_];
  const auto gain = [&](graph::TaskId task) {
    costs.ns[task.index()] = costs.cpu_ns[task.index()] = 0;
    return report_.step_ns() - simulated_ns(*own_.plan, all);
  };
  remedy.alone_ns = gain(members.front().task);
  for (const ExposedCollective& each : members) costs.ns[each.task.index()] = costs.cpu_ns[each.task.index()] = 0;
  remedy.gain_ns = members.size() == 1 ? remedy.alone_ns : gain(members.front().task);
  return remedy;
}

}  // namespace weft::simulate
