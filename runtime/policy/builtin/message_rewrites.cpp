#include "runtime/policy/builtin/message_rewrites.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <utility>
#include <variant>

#include "runtime/policy/builtin/anneal.h"
#include "runtime/policy/scheduling/limited_lists.h"

namespace weft::policy {
namespace {

constexpr int kSweepsOfPrice = 8;
constexpr std::int64_t kMebibyte = 1 << 20;
constexpr std::int64_t kBuckets[] = {4 * kMebibyte,  10 * kMebibyte,  25 * kMebibyte,
                                     50 * kMebibyte, 100 * kMebibyte, 200 * kMebibyte};
constexpr std::int64_t kPieces[] = {16 * kMebibyte, 4 * kMebibyte};
constexpr std::size_t kMostTasks = 30'000;  // of a graph: more would take minutes, and leave a search too few sweeps
constexpr std::size_t kMostGrowth = 2;      // times the tasks of the graph
constexpr double kWorthIt = 1 - 2e-3;       // of the step without a rewrite; a search makes up for less
constexpr double kTooLarge = std::numeric_limits<double>::infinity();

/// The makespan of the shortest of a few orders; infinite if its plan exceeds the memory.
double price_of(const std::shared_ptr<const graph::Graph>& graph, const PolicyOptions& options,
                std::span<const Policy* const> quick) {
  const graph::Classes one(&graph, 1);
  const PolicyOptions unlimited = without_limits(options);
  const LimitedLists lists(one, unlimited);
  const LimitedOrders plain{.gathers_ahead = options.gathers_ahead};
  const auto forward = lists.scheduler(plain), backward = lists.scheduler(plain, ListScheduler::Direction::backward);
  forward->run(sweep(*forward, *backward, upward_rank(lists.tasks()), kSweepsOfPrice).priority);
  double least = kTooLarge;
  const auto look_at = [&](std::vector<plan::Order> orders) {
    LimitedOrders found = lists.weigh(std::move(orders));
    if (found.makespan < least && planned(one, std::move(found.orders), options).fits()) least = found.makespan;
  };
  look_at(forward->orders());
  for (const Policy* policy : quick) look_at(policy->orders(one, unlimited));
  return least;
}

std::vector<plan::Rewrite> candidates() {
  std::vector<plan::Rewrite> all;
  for (const std::int64_t bytes : kBuckets) all.emplace_back(plan::BucketAllReduces{bytes});
  for (const std::int64_t bytes : kPieces) all.emplace_back(plan::SplitAllReduces{bytes});
  all.emplace_back(plan::ReduceScatterAllGather{});
  return all;
}

}  // namespace

bool takes_message_rewrites(const graph::Graph& graph) {
  if (graph.tasks().size() > kMostTasks) return false;
  bool sums = false;
  for (const graph::Task& task : graph.tasks()) {
    const graph::Channel* channel = graph::channel_of(task.operation);
    if (channel != nullptr && graph::is_message(*channel)) return false;
    sums = sums || std::holds_alternative<graph::AllReduce>(task.operation);
  }
  return sums;
}

std::vector<plan::Rewrite> message_rewrites(const graph::Graph& graph, const PolicyOptions& options,
                                            std::span<const Policy* const> quick) {
  if (!takes_message_rewrites(graph)) return {};
  const std::shared_ptr<const graph::Graph> borrowed = graph::borrowed(graph);
  double least = price_of(borrowed, options, quick) * kWorthIt;
  if (least == kTooLarge) return {};
  std::vector<plan::Rewrite> best;
  std::set<std::uint64_t> tried = {graph.fingerprint()};
  for (const plan::Rewrite& rewrite : candidates()) {
    const auto rewritten = plan::rewrite(borrowed, {&rewrite, 1}, options.weight_layouts);
    if (rewritten->tasks().size() > kMostGrowth * graph.tasks().size()) continue;
    if (!tried.insert(rewritten->fingerprint()).second) continue;
    const double price = price_of(rewritten, options, quick);
    if (price >= least) continue;
    least = price;
    best = {rewrite};
  }
  return best;
}

}  // namespace weft::policy
