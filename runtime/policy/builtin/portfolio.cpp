#include "runtime/policy/builtin/portfolio.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "runtime/plan/plan.h"
#include "runtime/policy/builtin/anneal.h"
#include "runtime/policy/builtin/axonn.h"
#include "runtime/policy/builtin/critical_path.h"
#include "runtime/policy/builtin/ddp_bucket.h"
#include "runtime/policy/builtin/deepcompile.h"
#include "runtime/policy/builtin/fsdp.h"
#include "runtime/policy/builtin/inductor.h"
#include "runtime/policy/builtin/lhs.h"
#include "runtime/policy/builtin/message_rewrites.h"
#include "runtime/policy/builtin/program.h"
#include "runtime/policy/builtin/random.h"
#include "runtime/policy/builtin/serial.h"
#include "runtime/policy/builtin/sweep.h"
#include "runtime/policy/fit_memory.h"
#include "runtime/policy/pipeline/chunks_parameter.h"
#include "runtime/policy/schedules/pipe_list.h"
#include "runtime/policy/schedules/pipe_search.h"
#include "runtime/policy/schedules/published.h"
#include "runtime/policy/scheduling/joint_lists.h"
#include "runtime/policy/scheduling/timetable.h"
#include "runtime/policy/scheduling/within_limit.h"

namespace weft::policy {
namespace {

constexpr std::int64_t kUsualBudget = 600, kNoBudget = -1;
constexpr std::int64_t kUnitMoves = 4;  // of pipe-search, for each move of the search

struct Candidate {
  std::string name;
  plan::Order order;
  double makespan = 0;             // nanoseconds
  std::int64_t scratch_bytes = 0;  // of the order's plan; 0 without a memory limit
};

/// Evaluates orders of one graph.
class Judge {
 public:
  Judge(const graph::Graph& graph, const PolicyOptions& options)
      : graph_(graph),
        borrowed_(std::shared_ptr<void>(), &graph),
        options_(options),
        costs_(costs_of(graph, options)) {}

  const cost::TaskCosts& costs() const { return costs_; }
  bool limited() const { return options_.memory_limit > 0; }
  bool fits(const Candidate& candidate) const { return !limited() || candidate.scratch_bytes <= options_.memory_limit; }
  double makespan(const plan::Order& order) const { return timetable_of(graph_, order, costs_, options_).makespan; }
  Candidate weigh(std::string name, plan::Order order) const {
    Candidate candidate{std::move(name), std::move(order), 0, 0};
    candidate.makespan = makespan(candidate.order);
    if (limited()) candidate.scratch_bytes = plan::make_plan(borrowed_, candidate.order, candidate.name).scratch_bytes;
    return candidate;
  }
  /// The list schedule by `priority`, under a limit low enough for its plan to keep the options' limit.
  Candidate weigh(std::string name, std::span<const double> priority, const plan::Reason& reason) const {
    PolicyOptions chosen = options_;
    chosen.gathers_ahead = list_options_.gathers_ahead;
    LimitedOrder found =
        order_within_limit(graph_, chosen, list_schedule(priority, reason), list_options_.memory_limit);
    const double time = makespan(found.order);
    return {std::move(name), std::move(found.order), time, found.scratch_bytes};
  }
  /// The options under which the plans of list schedules keep the options' limit.
  const PolicyOptions& list_options() const { return list_options_; }
  /// Chooses them for the shortest list schedule by one of the priorities. Returns the index of that priority.
  std::size_t choose_list_options(std::span<const std::vector<double>> priorities) {
    double least = std::numeric_limits<double>::infinity();
    std::size_t best = 0;
    for (std::size_t i = 0; i < priorities.size(); ++i) {
      const LimitedOrder found = shortest_within_limit(
          graph_, costs_, options_, list_schedule(priorities[i], {.kind = plan::ReasonKind::best_ready}));
      if (found.makespan >= least) continue;
      least = found.makespan;
      list_options_.memory_limit = found.limit;
      list_options_.gathers_ahead = found.gathers_ahead;
      best = i;
    }
    return best;
  }

 private:
  std::function<plan::Order(const PolicyOptions&)> list_schedule(std::span<const double> priority,
                                                                 plan::Reason reason) const {
    return [this, priority, reason = std::move(reason)](const PolicyOptions& under) {
      ListScheduler scheduler(graph_, costs_, under);
      scheduler.run(priority);
      return scheduler.order(reason);
    };
  }

  const graph::Graph& graph_;
  std::shared_ptr<const graph::Graph> borrowed_;
  PolicyOptions options_;
  cost::TaskCosts costs_;
  PolicyOptions list_options_ = options_;
};

/// A member's order, changed to fit the limit where that is possible, as it would be if the member were chosen alone.
plan::Order order_of(const Policy& member, const graph::Graph& graph, const PolicyOptions& options) {
  if (options.memory_limit > 0) {
    try {
      return order_within_memory(member, graph, options);
    } catch (const UserError&) {
      // Nothing fits: the member with the least memory counts.
    }
  }
  return member.order(graph, options);
}

/// Priorities by which tasks start in the same order as in `order`.
std::vector<double> as_in(const graph::Graph& graph, const Judge& judge, const PolicyOptions& options,
                          const plan::Order& order) {
  std::vector<double> priority = timetable_of(graph, order, judge.costs(), options).start;
  for (double& value : priority) value = -value;
  return priority;
}

/// Priorities from which to search, the best first: sweeps of each of the priorities, of which the one at `first` gave
/// the shortest list schedule. Of starts with equal makespans one is kept.
std::vector<std::vector<double>> swept_starts(ListScheduler& forward, ListScheduler& backward,
                                              std::span<const std::vector<double>> priorities, std::size_t first,
                                              int sweeps, const FitsMemory& fits) {
  std::vector<Swept> swept;
  const auto add = [&](std::size_t i) {
    Swept one = sweep(forward, backward, priorities[i], sweeps, fits);
    if (std::ranges::find(swept, one.makespan, &Swept::makespan) == swept.end()) swept.push_back(std::move(one));
  };
  add(0);
  if (first != 0) add(first);
  for (std::size_t i = 1; i < priorities.size(); ++i) {
    if (i != first) add(i);
  }
  std::ranges::stable_sort(swept, {}, &Swept::makespan);
  std::vector<std::vector<double>> starts;
  for (Swept& each : swept) starts.push_back(std::move(each.priority));
  return starts;
}

}  // namespace

std::vector<PortfolioPolicy::Member> PortfolioPolicy::members() {
  std::vector<Member> members;
  members.push_back({"critical-path", std::make_unique<CriticalPathPolicy>()});
  members.push_back({"lhs", std::make_unique<LhsPolicy>()});
  const std::string_view other = "memory+communication+critical";
  members.push_back({fmt::format("lhs:rules={}", other), std::make_unique<LhsPolicy>(other)});
  members.push_back({"program", std::make_unique<ProgramPolicy>()});
  for (const int depth : {4, 2, 1, 0}) {
    members.push_back({fmt::format("program:depth={}", depth), std::make_unique<ProgramPolicy>(depth)});
  }
  members.push_back({"fsdp", std::make_unique<FsdpPolicy>()});
  members.push_back({"ddp-bucket", std::make_unique<DdpBucketPolicy>()});
  members.push_back({"axonn", std::make_unique<AxonnPolicy>()});
  members.push_back({"deepcompile", std::make_unique<DeepCompilePolicy>()});
  members.push_back({"inductor", std::make_unique<InductorPolicy>()});
  members.push_back({"random", std::make_unique<RandomPolicy>()});
  members.push_back({"serial", std::make_unique<SerialPolicy>()});
  return members;
}

PortfolioPolicy::PortfolioPolicy(PolicyParameters& parameters)
    : seed_(seed_parameter(parameters)),
      messages_(parameters.truth("messages", true)),
      chunks_(chunks_parameter(parameters)) {
  const std::int64_t budget = parameters.integer("budget", kNoBudget, 0, 100'000'000);
  if (budget != kNoBudget) budget_ = budget;
}

std::vector<plan::Rewrite> PortfolioPolicy::rewrites(const graph::Graph& graph, const PolicyOptions& options) const {
  if (!messages_ || budget_ == 0 || !takes_message_rewrites(graph)) return {};
  const std::vector<Member> all = members();
  std::vector<const Policy*> quick;
  for (const Member& member : all) quick.push_back(member.policy.get());
  return message_rewrites(graph, options, quick);
}

plan::Order PortfolioPolicy::order(const graph::Graph& graph, const PolicyOptions& options) const {
  const SearchEffort effort = search_effort(budget_, kUsualBudget, graph.tasks().size());
  Judge judge(graph, options);
  Candidate best;
  bool found = false;
  const auto enter = [&](Candidate candidate) {
    const bool fits = judge.fits(candidate);
    const bool better = fits ? !found || candidate.makespan < best.makespan
                             : !found && (best.name.empty() || candidate.scratch_bytes < best.scratch_bytes);
    if (better) best = std::move(candidate);
    found = found || fits;
  };
  const std::vector<Member> all = members();
  const Policy* winner = nullptr;
  for (const Member& member : all) {
    enter(judge.weigh(member.name, order_of(*member.policy, graph, options)));
    if (best.name == member.name) winner = member.policy.get();
  }
  plan::Selection selection{.orders = all.size()};
  if (!found) {
    selection.memory_limit = static_cast<std::uint64_t>(options.memory_limit);
  } else if (effort.moves > 0) {
    PolicyOptions unlimited = options;
    unlimited.memory = unlimited.memory_limit = 0;
    const std::vector<double> priorities[] = {upward_rank(graph, judge.costs().ns),
                                              as_in(graph, judge, options, best.order),
                                              as_in(graph, judge, options, winner->order(graph, unlimited))};
    const std::size_t first = judge.choose_list_options(priorities);
    const PolicyOptions& chosen = judge.list_options();
    ListScheduler forward(graph, judge.costs(), chosen),
        backward(graph, judge.costs(), chosen, ListScheduler::Direction::backward);
    const FitsMemory fits = fits_memory(graph, options);
    const std::vector<std::vector<double>> starts =
        swept_starts(forward, backward, priorities, first, effort.sweeps, fits);
    enter(judge.weigh("sweeps", starts.front(),
                      {.kind = plan::ReasonKind::best_ready, .priority = plan::Priority::swept}));
    const std::string start = best.name;
    const Annealed searched = search(forward, backward, starts, effort, seed_.value_or(options.seed), fits);
    enter(judge.weigh("search from " + start, searched.priority,
                      {.kind = plan::ReasonKind::best_ready,
                       .priority = plan::Priority::annealed,
                       .numbers = {static_cast<std::uint64_t>(effort.moves)}}));
  }
  selection.order = best.name;
  selection.makespan_ns = best.makespan;
  for (plan::Reason& reason : best.order.reasons) reason.selection = selection;
  return std::move(best.order);
}

std::vector<PortfolioPolicy::Member> PortfolioPolicy::pipeline_members(std::int64_t moves, std::uint64_t seed) const {
  std::vector<Member> members;
  for (auto& schedule : published_schedules(chunks_)) {
    std::string name = schedule->name();
    members.push_back({std::move(name), std::move(schedule)});
  }
  members.push_back({"pipe-list", std::make_unique<PipeListPolicy>(chunks_)});
  if (moves > 0)
    members.push_back({"pipe-search", std::make_unique<PipeSearchPolicy>(chunks_, kUnitMoves * moves, seed)});
  members.push_back({"program", std::make_unique<ProgramPolicy>()});
  members.push_back({"critical-path", std::make_unique<CriticalPathPolicy>(chunks_)});
  members.push_back({"lhs", std::make_unique<LhsPolicy>(chunks_)});
  return members;
}

std::vector<plan::Order> PortfolioPolicy::orders(std::span<const std::shared_ptr<const graph::Graph>> classes,
                                                 const PolicyOptions& options) const {
  if (classes.size() == 1) return orders_of_each(*this, classes, options);
  const std::uint64_t seed = seed_.value_or(options.seed);
  const JointLists lists(classes, options);
  const SearchEffort effort = search_effort(budget_, kUsualBudget, lists.tasks().size());
  PolicyOptions unlimited = options;
  unlimited.memory = unlimited.memory_limit = 0;
  std::optional<LimitedOrders> best, shortest;  // within the limits, and without any
  plan::Selection selection;
  const auto enter = [&](const std::string& name, LimitedOrders found) {
    ++selection.orders;
    if (best && !found.better_than(*best)) return;
    best = std::move(found);
    selection.order = name;
  };
  for (const Member& member : pipeline_members(effort.moves, seed)) {
    try {
      LimitedOrders found = lists.weigh(member.policy->orders(classes, unlimited));
      if (!shortest || found.makespan < shortest->makespan) shortest = found;
      if (!found.fits()) found = lists.weigh(member.policy->orders(classes, options));
      enter(member.name, std::move(found));
    } catch (const UserError&) {
      // It doesn't take this number of micro-batches.
    }
  }
  if (effort.moves > 0) {
    const auto by = [](std::span<const double> priority, plan::Reason reason) {
      return [priority, reason = std::move(reason)](ListScheduler& scheduler) {
        scheduler.run(priority);
        return scheduler.orders(reason);
      };
    };
    const std::vector<double> priorities[] = {upward_rank(lists.tasks()), lists.priority_of(best->orders),
                                              lists.priority_of(shortest->orders)};
    std::size_t first = 0;
    std::optional<LimitedOrders> listed;
    for (std::size_t i = 0; i < std::size(priorities); ++i) {
      LimitedOrders found = lists.shortest(by(priorities[i], {.kind = plan::ReasonKind::best_ready}));
      if (listed && !found.better_than(*listed)) continue;
      listed = std::move(found);
      first = i;
    }
    const auto forward = lists.scheduler(listed->part, listed->gathers_ahead, ListScheduler::Direction::forward);
    const auto backward = lists.scheduler(listed->part, listed->gathers_ahead, ListScheduler::Direction::backward);
    const FitsMemory fits = lists.fits();
    const std::vector<std::vector<double>> starts =
        swept_starts(*forward, *backward, priorities, first, effort.sweeps, fits);
    const auto again = [&](const std::vector<double>& priority, const plan::Reason& reason) {
      return lists.within_limits(by(priority, reason), listed->gathers_ahead, listed->part);
    };
    enter("sweeps", again(starts.front(), {.kind = plan::ReasonKind::best_ready, .priority = plan::Priority::swept}));
    const std::string start = selection.order;
    const Annealed searched = search(*forward, *backward, starts, effort, seed, fits);
    enter("search from " + start, again(searched.priority, {.kind = plan::ReasonKind::best_ready,
                                                            .priority = plan::Priority::annealed,
                                                            .numbers = {static_cast<std::uint64_t>(effort.moves)}}));
  }
  selection.makespan_ns = best->makespan;
  for (plan::Order& order : best->orders) {
    for (plan::Reason& reason : order.reasons) reason.selection = selection;
  }
  return std::move(best->orders);
}

}  // namespace weft::policy
