#include "runtime/policy/builtin/portfolio.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "runtime/policy/builtin/anneal.h"
#include "runtime/policy/builtin/axonn.h"
#include "runtime/policy/builtin/ddp_bucket.h"
#include "runtime/policy/builtin/deepcompile.h"
#include "runtime/policy/builtin/fit_memory.h"
#include "runtime/policy/builtin/fsdp.h"
#include "runtime/policy/builtin/inductor.h"
#include "runtime/policy/builtin/list_policies.h"
#include "runtime/policy/builtin/message_rewrites.h"
#include "runtime/policy/builtin/program.h"
#include "runtime/policy/builtin/random.h"
#include "runtime/policy/schedules/pipe_search.h"
#include "runtime/policy/schedules/published.h"
#include "runtime/policy/scheduling/limited_lists.h"

namespace weft::policy {
namespace {

constexpr std::int64_t kUsualBudget = 600, kNoBudget = -1;
constexpr std::int64_t kUnitMoves = 4;  // of pipe-search, for each move of the search

/// A member's orders, changed to fit the limits where that is possible, as they would be if it were chosen alone.
std::vector<plan::Order> orders_of(const Policy& member, graph::Classes classes, const LimitedLists& lists,
                                   const PolicyOptions& options) {
  if (lists.limited()) {
    try {
      return orders_within_memory(member, classes, options);
    } catch (const UserError&) {
      // Nothing fits: the member with the least memory counts.
    }
  }
  return member.orders(classes, options);
}

/// Priorities from which to search, the best first: sweeps of each of the priorities, of which the one at `first`
/// gave the shortest list schedule. Of starts with equal makespans one is kept.
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
    : seed_(seed_parameter(parameters)), messages_(parameters.truth("messages", true)) {
  chunks_ = chunks_parameter(parameters);
  const std::int64_t given = parameters.integer("budget", kNoBudget, 0, 100'000'000);
  if (given != kNoBudget) budget_ = given;
}

std::vector<plan::Rewrite> PortfolioPolicy::rewrites(const graph::Graph& graph, const PolicyOptions& options) const {
  if (!messages_ || budget_ == 0 || !takes_message_rewrites(graph)) return {};
  const std::vector<Member> all = members();
  std::vector<const Policy*> quick;
  for (const Member& member : all) quick.push_back(member.policy.get());
  return message_rewrites(graph, options, quick);
}

std::vector<PortfolioPolicy::Member> PortfolioPolicy::pipeline_members(std::int64_t moves, std::uint64_t seed) const {
  std::vector<Member> members;
  for (const PublishedPolicy& policy : published_policies(chunks_))
    members.push_back({policy.name(), std::make_unique<PublishedPolicy>(policy)});
  members.push_back({"pipe-list", std::make_unique<PipeListPolicy>(chunks_)});
  if (moves > 0)
    members.push_back({"pipe-search", std::make_unique<PipeSearchPolicy>(chunks_, kUnitMoves * moves, seed)});
  members.push_back({"program", std::make_unique<ProgramPolicy>()});
  members.push_back({"critical-path", std::make_unique<CriticalPathPolicy>(chunks_)});
  members.push_back({"lhs", std::make_unique<LhsPolicy>(chunks_)});
  return members;
}

std::vector<plan::Order> PortfolioPolicy::orders(graph::Classes classes, const PolicyOptions& options) const {
  return held_back(classes, orders_without_waits(classes, options), options).orders;
}

HeldBack PortfolioPolicy::held_back(graph::Classes classes, const std::vector<plan::Order>& orders,
                                    const PolicyOptions& options) const {
  const std::vector<cost::TaskCosts> costs = costs_of_each(classes, options);
  const ClassTasks tasks(classes, costs, orders);
  const SearchEffort effort = search_effort(budget_, kUsualBudget, tasks.size());
  return hold_back(tasks, orders, options, effort.moves, keeps_limits(classes, options));
}

std::vector<plan::Order> PortfolioPolicy::orders_without_waits(graph::Classes classes,
                                                               const PolicyOptions& options) const {
  const std::uint64_t seed = seed_.value_or(options.seed);
  const LimitedLists lists(classes, options);
  const SearchEffort effort = search_effort(budget_, kUsualBudget, lists.tasks().size());
  std::optional<LimitedOrders> best;
  plan::Selection selection;
  const auto enter = [&](const std::string& name, LimitedOrders found) {
    if (best && !found.better_than(*best)) return false;
    best = std::move(found);
    selection.order = name;
    return true;
  };
  const std::vector<Member> all = classes.size() == 1 ? members() : pipeline_members(effort.moves, seed);
  const Policy* winner = nullptr;
  std::optional<UserError> refused;
  for (const Member& member : all) {
    try {
      if (enter(member.name, lists.weigh(orders_of(*member.policy, classes, lists, options))))
        winner = member.policy.get();
      ++selection.orders;
    } catch (const UserError& error) {
      refused = error;  // for example of the number of micro-batches
    }
  }
  if (!best) throw UserError(*refused);
  if (best->fits() && effort.moves > 0) {
    const std::vector<double> priorities[] = {
        upward_rank(lists.tasks()), lists.priority_of(best->orders),
        lists.priority_of(lists.limited() ? winner->orders(classes, without_limits(options)) : best->orders)};
    std::size_t first = 0;
    LimitedOrders list;
    for (std::size_t i = 0; i < std::size(priorities); ++i) {
      LimitedOrders found = lists.shortest(by_priority(priorities[i]));
      if (i > 0 && found.makespan >= list.makespan) continue;
      list = std::move(found);
      first = i;
    }
    const auto forward = lists.scheduler(list), backward = lists.scheduler(list, ListScheduler::Direction::backward);
    const FitsMemory fits = lists.fits();
    const std::vector<std::vector<double>> starts =
        swept_starts(*forward, *backward, priorities, first, effort.sweeps, fits);
    const auto again = [&](const std::vector<double>& priority, plan::Reason reason) {
      return lists.within(by_priority(priority, std::move(reason)), list.gathers_ahead, list.limits);
    };
    enter("sweeps", again(starts.front(), {.table = &kReasons, .code = kSwept}));
    const std::string start = selection.order;
    const Annealed searched = search(*forward, *backward, starts, effort, seed, fits);
    enter("search from " + start,
          again(searched.priority,
                {.table = &kReasons, .code = kSearched, .numbers = {static_cast<std::uint64_t>(effort.moves)}}));
  }
  selection.makespan_ns = best->makespan;
  for (std::size_t k = 0; k < classes.size(); ++k) {
    if (!best->fits()) selection.memory_limit = static_cast<std::uint64_t>(scratch_limit(*classes[k], options));
    for (plan::Reason& reason : best->orders[k].reasons) reason.selection = selection;
  }
  return std::move(best->orders);
}

}  // namespace weft::policy
