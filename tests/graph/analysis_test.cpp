// Orders, the critical path, lower bounds, lifetimes and implied edges, against hand-computed and brute-force answers.
#include "graph/analysis.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>

namespace weft::graph {
namespace {

// Four tasks and five tensors of 16, 32, 64, 16 bytes:  a → b → d, a → c → d;  a writes x, b reads x and writes y, …
class Diamond : public ::testing::Test {
 protected:
  Diamond() {
    GraphBuilder builder(Arguments::of_any_form);
    const TensorId in = builder.add_tensor({"in", DType::f32, {4}, Role::input});
    const TensorId x = builder.add_tensor({"x", DType::f32, {4}, Role::activation});
    const TensorId y = builder.add_tensor({"y", DType::f32, {8}, Role::activation});
    const TensorId z = builder.add_tensor({"z", DType::f32, {16}, Role::workspace});
    const TensorId out = builder.add_tensor({"out", DType::f32, {4}, Role::gradient});
    builder.add_tensor({"unused", DType::f32, {100}, Role::activation});
    const auto add = [&](std::string name, std::vector<Access> accesses) {
      return builder.add_task({std::move(name), Add{4}, std::move(accesses)});
    };
    a_ = add("a", {read(whole(builder, in)), write(whole(builder, x))});
    b_ = add("b", {read(whole(builder, x)), write(whole(builder, y))});
    c_ = add("c", {read(whole(builder, x)), write(whole(builder, z))});
    d_ = add("d", {read(whole(builder, y)), read(whole(builder, z)), write(whole(builder, out))});
    graph_ = std::move(builder).build();
  }

  Graph graph_;
  TaskId a_, b_, c_, d_;
};

using Tasks = std::vector<TaskId>;

TEST_F(Diamond, ProgramOrderIsTheOrderWithoutPriorities) {
  EXPECT_EQ(topological_order(graph_), (Tasks{a_, b_, c_, d_}));
  EXPECT_EQ(why_not_topological(graph_, topological_order(graph_)), "");
}

TEST_F(Diamond, PriorityChoosesAmongReadyTasksOnly) {
  const std::vector<double> priority = {0, 1, 2, 100};
  const Tasks order = topological_order(graph_, priority);
  EXPECT_EQ(order, (Tasks{a_, c_, b_, d_}));
  EXPECT_EQ(why_not_topological(graph_, order), "");
  EXPECT_THROW(topological_order(graph_, std::vector<double>{1}), std::logic_error);
}

TEST_F(Diamond, WrongOrdersAreNamed) {
  EXPECT_EQ(why_not_topological(graph_, Tasks{b_, a_, c_, d_}),
            "'b' comes before 'a', but must come after it (read after write of 'x')");
  EXPECT_EQ(why_not_topological(graph_, Tasks{a_, b_, d_}), "'c' is missing");
  EXPECT_EQ(why_not_topological(graph_, Tasks{a_, b_, b_, d_}), "'b' occurs twice");
  EXPECT_EQ(why_not_topological(graph_, Tasks{a_, TaskId(9), c_, d_}), "position 1 has a task that isn't in the graph");
}

TEST_F(Diamond, CriticalPathTakesTheLongerBranch) {
  const std::vector<double> cost = {1, 2, 5, 3};
  const CriticalPath path = critical_path(graph_, cost);
  EXPECT_EQ(path.length, 9);
  EXPECT_EQ(path.tasks, (Tasks{a_, c_, d_}));
  EXPECT_EQ(path.head, (std::vector<double>{0, 1, 1, 6}));
  EXPECT_EQ(path.tail, (std::vector<double>{8, 3, 3, 0}));
  EXPECT_EQ(path.slack(b_, cost), 3);
  EXPECT_EQ(path.slack(c_, cost), 0);
  EXPECT_THROW(critical_path(graph_, std::vector<double>{1, 2}), std::logic_error);
}

TEST_F(Diamond, OneMachineBoundOfEverythingIsTheWorkWhereThatIsMore) {
  const std::vector<double> cost = {1, 2, 5, 3};
  const CriticalPath path = critical_path(graph_, cost);
  EXPECT_EQ(one_machine_bound(Tasks{a_, b_, c_, d_}, cost, path), 11);  // one stream: no overlap
  EXPECT_EQ(one_machine_bound(Tasks{b_}, cost, path), 6);               // 1 + 2 + 3
  EXPECT_EQ(one_machine_bound(Tasks{b_, c_}, cost, path), 11);
  EXPECT_EQ(one_machine_bound({}, cost, path), 0);
}

// Carlier: the preemptive optimum equals the maximum of min head + sum of costs + min tail over all subsets.
TEST(OneMachineBound, EqualsBruteForceOverSubsets) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const std::size_t count = 1 + random() % 9;
    CriticalPath path;
    std::vector<double> cost;
    std::vector<TaskId> tasks;
    for (std::size_t i = 0; i < count; ++i) {
      path.head.push_back(static_cast<double>(random() % 20));
      path.tail.push_back(static_cast<double>(random() % 20));
      cost.push_back(static_cast<double>(1 + random() % 10));
      tasks.emplace_back(i);
    }
    double best = 0;
    for (std::size_t subset = 1; subset < std::size_t{1} << count; ++subset) {
      double head = 1e9, tail = 1e9, sum = 0;
      for (std::size_t i = 0; i < count; ++i) {
        if ((subset >> i & 1U) == 0) continue;
        head = std::min(head, path.head[i]);
        tail = std::min(tail, path.tail[i]);
        sum += cost[i];
      }
      best = std::max(best, head + sum + tail);
    }
    EXPECT_EQ(one_machine_bound(tasks, cost, path), best) << "round " << round;
  }
}

TEST_F(Diamond, LivenessCountsScratchFromFirstToLastAccess) {
  const Liveness live = liveness(graph_, topological_order(graph_));
  EXPECT_EQ(live.live_bytes, (std::vector<std::int64_t>{16, 16 + 32, 16 + 32 + 64, 32 + 64 + 16}));
  EXPECT_EQ(live.peak_bytes, 112);
  EXPECT_EQ(live.peak_position, 2U);  // the first of two equal peaks
  EXPECT_EQ(live.state_bytes, 16);
  const Lifetime x = live.lifetimes[graph_.find_tensor("x").index()];
  EXPECT_EQ(x.first, 0);
  EXPECT_EQ(x.last, 2);
  EXPECT_EQ(live.lifetimes[graph_.find_tensor("unused").index()].first, -1);
}

TEST_F(Diamond, NoOrderTakesLessThanWhatIsInUseAtSomeTask) {
  EXPECT_EQ(bytes_kept_at(graph_, a_), 16);
  EXPECT_EQ(bytes_kept_at(graph_, b_), 16 + 32);  // z not: c may run before b or after it
  EXPECT_EQ(bytes_kept_at(graph_, d_), 32 + 64 + 16);
  EXPECT_EQ(least_scratch_bytes(graph_), 112);
}

TEST_F(Diamond, WorkTakesTheSizeOfTheElementsFromTheTensors) {
  EXPECT_EQ(work_of(graph_, graph_.task(a_)).bytes, 3 * 4 * 4);
}

TEST(EmptyGraph, HasEmptyAnswers) {
  const Graph graph = GraphBuilder().build();
  EXPECT_TRUE(topological_order(graph).empty());
  EXPECT_EQ(why_not_topological(graph, {}), "");
  EXPECT_EQ(critical_path(graph, {}).length, 0);
  EXPECT_TRUE(critical_path(graph, {}).tasks.empty());
  EXPECT_EQ(liveness(graph, {}).peak_bytes, 0);
  EXPECT_EQ(least_scratch_bytes(graph), 0);
  EXPECT_TRUE(implied_edges(0, {}).empty());
}

Edge edge(std::size_t from, std::size_t to, EdgeReason reason = EdgeReason::read_after_write,
          EdgeKind kind = EdgeKind::completes_before, std::uint8_t distance = 0) {
  return {TaskId(from), TaskId(to), kind, reason, distance, TensorId()};
}

using Marks = std::vector<bool>;

TEST(ImpliedEdges, DataIsImpliedByDataOnly) {
  const auto anti = EdgeReason::write_after_read;
  EXPECT_EQ(implied_edges(3, std::vector{edge(0, 1), edge(1, 2), edge(0, 2)}), (Marks{false, false, true}));
  EXPECT_EQ(implied_edges(3, std::vector{edge(0, 1), edge(1, 2, anti), edge(0, 2)}), (Marks{false, false, false}));
  EXPECT_EQ(implied_edges(3, std::vector{edge(0, 1), edge(1, 2, anti), edge(0, 2, anti)}), (Marks{false, false, true}));
}

TEST(ImpliedEdges, OrderIsImpliedByAnythingAndImpliesOnlyOrder) {
  const auto issued = [](std::size_t from, std::size_t to) {
    return edge(from, to, EdgeReason::policy, EdgeKind::issued_before);
  };
  EXPECT_EQ(implied_edges(3, std::vector{edge(0, 1), edge(1, 2), issued(0, 2)}), (Marks{false, false, true}));
  EXPECT_EQ(implied_edges(3, std::vector{issued(0, 1), edge(1, 2), edge(0, 2)}), (Marks{false, false, false}));
}

TEST(ImpliedEdges, OfParallelEdgesTheStrongestStays) {
  const std::vector edges = {edge(0, 1, EdgeReason::memory), edge(0, 1), edge(0, 1, EdgeReason::policy)};
  EXPECT_EQ(implied_edges(2, edges), (Marks{true, false, true}));
}

TEST(ImpliedEdges, NextStepsEdgesStayAndCyclesOfOneStepAreRefused) {
  const std::vector edges = {edge(0, 1), edge(1, 0, EdgeReason::write_after_read, EdgeKind::completes_before, 1)};
  EXPECT_EQ(implied_edges(2, edges), (Marks{false, false}));
  EXPECT_TRUE(acyclic(2, edges));
  const std::vector cycle = {edge(0, 1), edge(1, 0)};
  EXPECT_FALSE(acyclic(2, cycle));
  EXPECT_THROW(implied_edges(2, cycle), std::logic_error);
}

// Random graphs, numbered out of topological order and wider than one window of sources, against depth-first search.
TEST(ImpliedEdges, EqualsSearchOnRandomGraphs) {
  std::mt19937 random(11);
  for (const std::size_t tasks : {10U, 40U, 9000U}) {
    std::vector<std::size_t> number(tasks);
    for (std::size_t i = 0; i < tasks; ++i) number[i] = i;
    std::shuffle(number.begin(), number.end(), random);
    std::vector<Edge> edges;
    std::vector<std::vector<std::size_t>> out(tasks);
    std::vector<std::pair<std::size_t, std::size_t>> ends;
    for (std::size_t to = 1; to < tasks; ++to) {
      std::vector<std::size_t> sources;
      for (int i = 0; i < 3; ++i) sources.push_back(to - 1 - random() % std::min<std::size_t>(to, 8));
      if (to % 100 == 0) sources.push_back(random() % to);
      std::sort(sources.begin(), sources.end());
      sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
      for (const std::size_t from : sources) {
        edges.push_back(edge(number[from], number[to]));
        ends.emplace_back(from, to);
        out[from].push_back(to);
      }
    }
    const std::vector<bool> implied = implied_edges(tasks, edges);
    // Searching from every edge is slow: in the large graph, test only some.
    for (std::size_t i = 0; i<edges.size(); i += tasks> 1000 ? 37 : 1) {
      const auto [from, to] = ends[i];
      std::vector<bool> seen(tasks, false);
      std::vector<std::size_t> stack;
      for (const std::size_t next : out[from]) {
        if (next != to) stack.push_back(next);
      }
      while (!stack.empty()) {
        const std::size_t at = stack.back();
        stack.pop_back();
        if (at > to || seen[at]) continue;
        seen[at] = true;
        stack.insert(stack.end(), out[at].begin(), out[at].end());
      }
      ASSERT_EQ(implied[i], seen[to]) << from << " to " << to << " of " << tasks;
    }
  }
}

}  // namespace
}  // namespace weft::graph
