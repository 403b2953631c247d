// The times of one step of a pipeline under given orders, and the activations that its ranks keep, for tests of policies.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/plan/checker.h"
#include "runtime/plan/joint_check.h"
#include "runtime/plan/plan.h"
#include "runtime/policy/pipeline/joint_steps.h"
#include "runtime/policy/policy.h"
#include "tests/runtime/pipeline_toy.h"

namespace weft::testing {

using RankGraphs = std::span<const std::shared_ptr<const graph::Graph>>;

/// By rank and task.
struct ReplayedStep {
  std::vector<std::vector<double>> start, finish;
  double makespan = 0;
};

/// Each stream runs its queue, a task starts as soon as all edges allow, and the tasks of a joint step together.
inline ReplayedStep replayed(RankGraphs graphs, std::span<const cost::TaskCosts> costs,
                             const std::vector<plan::Order>& orders) {
  const policy::JointSteps steps(graphs);
  ReplayedStep result;
  std::vector<std::vector<std::vector<graph::TaskId>>> added(graphs.size());  // by rank and task: before it
  std::vector<std::vector<double>> free;
  for (std::size_t k = 0; k < graphs.size(); ++k) {
    result.start.emplace_back(graphs[k]->tasks().size(), -1.0);
    result.finish.emplace_back(graphs[k]->tasks().size(), -1.0);
    added[k].resize(graphs[k]->tasks().size());
    for (const graph::Edge& edge : orders[k].added_edges) {
      if (edge.distance == 0) added[k][edge.to.index()].push_back(edge.from);
    }
    free.emplace_back(orders[k].streams.size(), 0.0);
  }
  std::vector<std::size_t> next(graphs.size(), 0);
  const auto at = [&](std::size_t k, std::size_t task) {
    return next[k] < orders[k].sequence.size() && orders[k].sequence[next[k]].task.index() == task;
  };
  const auto earliest = [&](std::size_t k) {
    const plan::Placement& placement = orders[k].sequence[next[k]];
    double start = free[k][placement.stream.index()];
    for (const graph::Edge& edge : graphs[k]->in_edges(placement.task)) {
      if (edge.distance == 0) start = std::max(start, result.finish[k][edge.from.index()]);
    }
    for (const graph::TaskId before : added[k][placement.task.index()])
      start = std::max(start, result.finish[k][before.index()]);
    return start;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t k = 0; k < graphs.size(); ++k) {
      while (next[k] < orders[k].sequence.size()) {
        const std::size_t task = orders[k].sequence[next[k]].task.index();
        std::vector<policy::ClassTask> members = {{static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(task)}};
        if (const std::uint32_t step = steps.of(k, task); step != policy::JointSteps::kNone)
          members = steps.steps()[step].members;
        if (!std::ranges::all_of(members, [&](const auto& each) { return at(each.rank, each.task); })) break;
        double start = 0, cost = 0;
        for (const auto& each : members) {
          start = std::max(start, earliest(each.rank));
          cost = std::max(cost, costs[each.rank].ns[each.task]);
        }
        for (const auto& each : members) {
          result.start[each.rank][each.task] = start;
          result.finish[each.rank][each.task] = start + cost;
          free[each.rank][orders[each.rank].sequence[next[each.rank]].stream.index()] = start + cost;
          ++next[each.rank];
        }
        result.makespan = std::max(result.makespan, start + cost);
        moved = true;
      }
    }
  }
  for (std::size_t k = 0; k < graphs.size(); ++k) EXPECT_EQ(next[k], orders[k].sequence.size()) << "rank " << k;
  return result;
}

/// The longest time from a rank's first computation to its last, without its computations.
inline double longest_bubble(RankGraphs graphs, std::span<const cost::TaskCosts> costs, const ReplayedStep& step) {
  double longest = 0;
  for (std::size_t k = 0; k < graphs.size(); ++k) {
    double first = step.makespan, last = 0, work = 0;
    for (std::size_t i = 0; i < graphs[k]->tasks().size(); ++i) {
      if (graph::is_collective(graphs[k]->tasks()[i].operation)) continue;
      first = std::min(first, step.start[k][i]);
      last = std::max(last, step.finish[k][i]);
      work += costs[k].ns[i];
    }
    longest = std::max(longest, last - first - work);
  }
  return longest;
}

/// The most pairs of a virtual stage and a micro-batch whose forward pass a rank has begun and of which a backward task
/// is to come.
inline std::size_t most_activations(const graph::Graph& graph, const plan::Order& order) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> left;
  for (const graph::Task& task : graph.tasks()) {
    const bool counts = task.stage >= 0 && task.phase == graph::Phase::backward && !graph::is_collective(task.operation);
    if (counts) ++left[{task.stage, task.micro_batch}];
  }
  std::map<std::pair<std::int32_t, std::int32_t>, bool> alive;
  std::size_t now = 0, most = 0;
  for (const plan::Placement& placement : order.sequence) {
    const graph::Task& task = graph.task(placement.task);
    if (task.stage < 0 || graph::is_collective(task.operation)) continue;
    const std::pair pass(task.stage, task.micro_batch);
    if (task.phase == graph::Phase::forward && !std::exchange(alive[pass], true)) most = std::max(most, ++now);
    if (task.phase == graph::Phase::backward && --left[pass] == 0) --now;
  }
  return most;
}

/// Makes the plans and runs both checks.
inline std::vector<plan::Plan> checked_plans(RankGraphs graphs, const std::vector<plan::Order>& orders,
                                             const std::string& policy) {
  std::vector<plan::Plan> plans;
  for (std::size_t k = 0; k < graphs.size(); ++k) {
    plans.push_back(plan::make_plan(graphs[k], orders[k], policy));
    for (const plan::Violation& violation : plan::check_plan(plans.back()))
      ADD_FAILURE() << policy << " on rank " << k << ": " << violation.message;
  }
  for (const plan::Violation& violation : plan::check_together(pointers_to(plans)))
    ADD_FAILURE() << policy << ": " << violation.message;
  return plans;
}

}  // namespace weft::testing
