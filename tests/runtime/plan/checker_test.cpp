#include "runtime/plan/checker.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/runtime/random_graph.h"
#include "tests/runtime/toy_graph.h"

namespace weft::plan {
namespace {

using testing::ToyGraph;
using Kind = Violation::Kind;

const StreamId kCompute(std::size_t{0});
const StreamId kData(std::size_t{1});

Entry& entry(Plan& plan, const std::string& task) {
  const Position at = plan.position[plan.graph->find_task(task).index()];
  return plan.streams[at.stream.index()].entries[at.entry];
}

/// Messages of one kind; anything of another kind fails the test.
std::vector<std::string> only(Kind kind, const std::vector<Violation>& violations) {
  std::vector<std::string> messages;
  for (const Violation& violation : violations) {
    EXPECT_EQ(violation.kind, kind) << violation.message;
    messages.push_back(violation.message);
  }
  return messages;
}

bool contains(const std::vector<std::string>& messages, const std::string& words) {
  return std::ranges::any_of(messages, [&](const std::string& m) { return m.find(words) != std::string::npos; });
}

using Strings = std::vector<std::string>;

class BrokenPlan : public ::testing::Test {
 protected:
  //  compute0: a b d        a writes x and y, c and e reduce them on data, b uses y, d both
  //  data:     c e
  BrokenPlan() {
    ToyGraph toy;
    const graph::View x = toy.tensor("x", 64), y = toy.tensor("y", 64), z = toy.tensor("z", 64);
    const graph::View w = toy.tensor("w", 64, graph::Role::parameter);
    toy.compute("a", {graph::write(x), graph::write(y)});
    toy.collective("c", graph::Channel::data, {graph::read_write(x)}, 64);
    toy.compute("b", {graph::read(y), graph::write(z)});
    toy.collective("e", graph::Channel::data, {graph::read_write(y)}, 32);
    toy.compute("d", {graph::read(x), graph::read(y), graph::read(z), graph::read_write(w)});
    graph_ = toy.build();
    plan_ = testing::plan_in(graph_, "a c b e d");
  }
  std::shared_ptr<const graph::Graph> graph_;
  Plan plan_;
};

TEST_F(BrokenPlan, IsSafeBeforeItIsBroken) {
  EXPECT_EQ(only(Kind::structure, check_plan(plan_)), Strings{});
  EXPECT_EQ(testing::waits_of(plan_, "c"), Strings{"compute0:a"});
  EXPECT_EQ(testing::waits_of(plan_, "e"), Strings{"compute0:b"});
  EXPECT_EQ(testing::waits_of(plan_, "d"), Strings{"data:e"});
}

TEST_F(BrokenPlan, AMissingWaitIsNamedByTasksTensorAndStreams) {
  entry(plan_, "c").waits.clear();
  EXPECT_EQ(
      only(Kind::missing_wait, check_plan(plan_)),
      Strings{"wait missing: c (data) reads x, written by a (compute0), but neither data's order nor a wait makes "
              "a complete first"});
}

TEST_F(BrokenPlan, AMissingAntiDependencyToo) {
  entry(plan_, "e").waits = entry(plan_, "c").waits;  // a is complete, but b may still read y
  const Strings messages = only(Kind::missing_wait, check_plan(plan_));
  EXPECT_EQ(messages, Strings{"wait missing: e (data) overwrites y, read by b (compute0), but neither data's order nor "
                              "a wait makes b complete first"});
}

TEST_F(BrokenPlan, AWaitOfTheStepBeforeIsNoWaitForThisOne) {
  entry(plan_, "d").waits[0].distance = 1;
  const Strings messages = only(Kind::missing_wait, check_plan(plan_));
  EXPECT_TRUE(contains(messages, "d (compute0) reads x, written by c (data)"));
}

TEST_F(BrokenPlan, AWaitForAnEarlierEntryIsNotEnough) {
  entry(plan_, "d").waits[0].entry = 0;  // c instead of e
  plan_.streams[1].entries[0].signals = true;
  const Strings messages = only(Kind::missing_wait, check_plan(plan_));
  EXPECT_TRUE(contains(messages, "d (compute0) reads y, written by e (data)"));
}

TEST_F(BrokenPlan, NoMoreThanTheLimitIsReported) {
  for (StreamPlan& stream : plan_.streams) {
    for (Entry& entry : stream.entries) entry.waits.clear();
  }
  const std::size_t all = check_plan(plan_).size();
  EXPECT_GT(all, 3U);
  EXPECT_EQ(check_plan(plan_, 2).size(), 2U);
}

TEST_F(BrokenPlan, LiveTensorsThatOverlapAreNamed) {
  plan_.offset[graph_->find_tensor("y").index()] = plan_.offset[graph_->find_tensor("x").index()] + 64;
  plan_.offset[graph_->find_tensor("x").index()] = 0;
  plan_.offset[graph_->find_tensor("y").index()] = 64;
  plan_.offset[graph_->find_tensor("z").index()] = 512;
  EXPECT_EQ(only(Kind::memory_overlap, check_plan(plan_)),
            Strings{"memory overlap: tensors x (bytes 0 to 255) and y (bytes 64 to 319) share bytes, but a (compute0) "
                    "may still use x when a (compute0) starts to use y"});
}

TEST_F(BrokenPlan, AWaitForOneselfIsADeadlockUnlessOfTheStepBefore) {
  entry(plan_, "d").waits.push_back({kCompute, 2, 0});
  entry(plan_, "d").signals = true;
  EXPECT_EQ(only(Kind::deadlock, check_plan(plan_)), Strings{"deadlock: d (compute0) waits for d (compute0)"});
  entry(plan_, "d").waits.back().distance = 1;
  EXPECT_TRUE(check_plan(plan_).empty());
}

TEST_F(BrokenPlan, AnEntryMovedUpItsStreamIsCaught) {
  std::vector<Entry>& compute = plan_.streams[0].entries;
  std::swap(compute[0], compute[1]);  // b before a
  std::swap(plan_.position[compute[0].task.index()], plan_.position[compute[1].task.index()]);
  EXPECT_TRUE(contains(only(Kind::missing_wait, check_plan(plan_)), "b (compute0) reads y, written by a (compute0)"));
}

TEST_F(BrokenPlan, AnEntryMovedWithoutItsPositionIsCaught) {
  std::swap(plan_.streams[0].entries[0], plan_.streams[0].entries[1]);
  const Strings messages = only(Kind::structure, check_plan(plan_));
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0], "b is entry 0 of compute0, but plan.position says otherwise");
}

TEST_F(BrokenPlan, TasksLostOrTwiceAreCaught) {
  Plan lost = plan_;
  lost.streams[0].entries.pop_back();
  EXPECT_EQ(only(Kind::structure, check_plan(lost)), Strings{"d is on no stream"});
  Plan twice = plan_;
  twice.streams[0].entries.push_back(twice.streams[0].entries[0]);
  const Strings messages = only(Kind::structure, check_plan(twice));
  ASSERT_FALSE(messages.empty());
  EXPECT_EQ(messages[0], "a runs twice: on compute0 and on compute0");
}

TEST_F(BrokenPlan, ACollectiveOnAForeignStreamIsCaught) {
  plan_.streams[1].stream.channel = graph::Channel::x;
  const Strings messages = only(Kind::structure, check_plan(plan_));
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0], "c is on stream data, but belongs on the stream of channel data");
}

TEST_F(BrokenPlan, WaitsThatNameNothingAreCaught) {
  entry(plan_, "d").waits = {{StreamId(std::size_t{7}), 0, 0}};
  EXPECT_EQ(only(Kind::structure, check_plan(plan_)), Strings{"d (compute0) waits for stream 7 of 2"});
  entry(plan_, "d").waits = {{kData, 9, 0}};
  EXPECT_EQ(only(Kind::structure, check_plan(plan_)),
            Strings{"d (compute0) waits for entry 9 of data at distance 0, which has 2 entries"});
}

TEST_F(BrokenPlan, AWaitForAnEntryThatNeverSignalsIsCaught) {
  entry(plan_, "e").signals = false;
  EXPECT_EQ(only(Kind::structure, check_plan(plan_)),
            Strings{"d (compute0) waits for entry 1 of data, which doesn't signal"});
}

TEST_F(BrokenPlan, OffsetsOutsideTheArenaAreCaught) {
  plan_.offset[graph_->find_tensor("x").index()] = plan_.scratch_bytes - 128;
  plan_.offset[graph_->find_tensor("w").index()] = 0;
  EXPECT_EQ(only(Kind::structure, check_plan(plan_)).size(), 2U);
}

TEST_F(BrokenPlan, SizesAreCheckedBeforeAnythingIsIndexed) {
  plan_.offset.pop_back();
  plan_.position.clear();
  EXPECT_EQ(only(Kind::structure, check_plan(plan_)),
            (Strings{"plan.position has 0 items; expected 5", "plan.offset has 3 items; expected 4"}));
  EXPECT_EQ(only(Kind::structure, check_plan(Plan())), Strings{"the plan has no graph"});
}

TEST_F(BrokenPlan, APoliciesOwnEdgeIsHeldAgainstThePlan) {
  plan_.added_edges.push_back({graph_->find_task("c"), graph_->find_task("b"), graph::EdgeKind::completes_before,
                               graph::EdgeReason::policy, 0, graph::TensorId()});
  EXPECT_EQ(only(Kind::missing_wait, check_plan(plan_)),
            Strings{"wait missing: b (compute0) has an edge (policy) from c (data), but neither compute0's order nor a "
                    "wait makes c complete first"});
}

TEST(Checker, SharedBytesAreCheckedAcrossTheBoundaryOfSteps) {
  // x then y at one offset, on two streams tied by the policy; without the wait for the previous step, x runs too soon.
  ToyGraph toy;
  const graph::View x = toy.tensor("x", 64), y = toy.tensor("y", 64);
  toy.compute("a", {graph::write(x)});
  toy.compute("b", {graph::write(y)});
  const auto graph = toy.build();
  Order order = testing::order_in(*graph, "a b@1");
  order.added_edges.push_back({graph->find_task("a"), graph->find_task("b"), graph::EdgeKind::completes_before,
                               graph::EdgeReason::policy, 0, graph::TensorId()});
  Plan plan = make_plan(graph, order, "mine");
  ASSERT_EQ(plan.offset[0], plan.offset[1]);
  ASSERT_EQ(testing::waits_of(plan, "a"), Strings{"compute1:b'"});
  plan.added_edges.pop_back();  // the memory planner's: the checker must find it by itself
  EXPECT_TRUE(check_plan(plan).empty());
  plan.streams[0].entries[0].waits.clear();
  EXPECT_EQ(
      only(Kind::memory_overlap, check_plan(plan)),
      Strings{"memory overlap: tensors y (bytes 0 to 255) and x (bytes 0 to 255) share bytes, but b (compute1) may "
              "still use y of the step before when a (compute0) starts to use x"});
}

TEST(Checker, TensorsLaidOverEachOtherAtRandomAreCaught) {
  // The oracle for offsets is a brute force over all pairs of accesses of two steps.
  int caught = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const auto graph = testing::random_graph(seed, {.tasks = 20, .tensors = 8, .most_elements = 256});
    Plan plan = make_plan(graph, testing::RandomPolicy(seed).order(*graph, {2}), "random");
    testing::Draws draws(seed);
    std::vector<std::size_t> scratch;
    for (std::size_t i = 0; i < plan.offset.size(); ++i) {
      if (plan.offset[i] != kNoOffset) scratch.push_back(i);
    }
    if (scratch.empty()) continue;
    const std::size_t moved = scratch[draws.below(scratch.size())];
    const std::int64_t room = plan.scratch_bytes - graph->tensors()[moved].bytes();
    if (room < 0) continue;
    plan.offset[moved] = draws.between(0, room / 64) * 64;

    const auto users = [&](std::size_t tensor) {
      std::vector<graph::TaskId> tasks;
      for (std::size_t i = 0; i < graph->tasks().size(); ++i) {
        const bool uses = std::ranges::any_of(graph->tasks()[i].accesses,
                                              [&](const graph::Access& a) { return a.view.tensor.index() == tensor; });
        if (uses) tasks.push_back(graph::TaskId(i));
      }
      return tasks;
    };
    // before[step a][step b]: by transitive closure over entries of two steps.
    const std::size_t n = graph->tasks().size();
    std::vector<std::vector<bool>> before(2 * n, std::vector<bool>(2 * n));
    for (std::size_t step = 0; step < 2; ++step) {
      for (const StreamPlan& stream : plan.streams) {
        for (std::size_t e = 0; e < stream.entries.size(); ++e) {
          const std::size_t to = step * n + stream.entries[e].task.index();
          if (e > 0) before[step * n + stream.entries[e - 1].task.index()][to] = true;
          if (e == 0 && step == 1) before[stream.entries.back().task.index()][to] = true;
          for (const Wait& wait : stream.entries[e].waits) {
            if (wait.distance > step) continue;
            const graph::TaskId from = plan.streams[wait.stream.index()].entries[wait.entry].task;
            before[(step - wait.distance) * n + from.index()][to] = true;
          }
        }
      }
    }
    for (std::size_t k = 0; k < 2 * n; ++k) {
      for (std::size_t i = 0; i < 2 * n; ++i) {
        for (std::size_t j = 0; before[i][k] && j < 2 * n; ++j) before[i][j] = before[i][j] || before[k][j];
      }
    }
    const auto done = [&](std::size_t a, std::size_t b, std::size_t from_step) {
      return std::ranges::all_of(users(a), [&](graph::TaskId i) {
        return std::ranges::all_of(users(b),
                                   [&](graph::TaskId j) { return before[from_step * n + i.index()][n + j.index()]; });
      });
    };
    bool safe = true;
    for (const std::size_t a : scratch) {
      for (const std::size_t b : scratch) {
        const bool share = a < b && plan.offset[a] < plan.offset[b] + graph->tensors()[b].bytes() &&
                           plan.offset[b] < plan.offset[a] + graph->tensors()[a].bytes();
        if (!share || users(a).empty() || users(b).empty()) continue;
        safe = safe && ((done(a, b, 1) && done(b, a, 0)) || (done(b, a, 1) && done(a, b, 0)));
      }
    }
    const std::vector<Violation> violations = check_plan(plan);
    EXPECT_EQ(violations.empty(), safe) << seed;
    only(Kind::memory_overlap, violations);
    caught += safe ? 0 : 1;
  }
  EXPECT_GT(caught, 10);
}

TEST(Checker, ATotalOrderThatAStreamContradictsIsCaught) {
  ToyGraph toy;
  const graph::View x = toy.tensor("x", 64, graph::Role::parameter), y = toy.tensor("y", 64, graph::Role::parameter);
  toy.collective("c", graph::Channel::data, {graph::read_write(x)});
  toy.collective("e", graph::Channel::data, {graph::read_write(y)});
  const auto graph = toy.build();
  Plan plan = testing::plan_in(graph, "c e");
  std::swap(plan.sequence[0], plan.sequence[1]);
  std::swap(plan.collectives[0], plan.collectives[1]);
  EXPECT_EQ(
      only(Kind::collective_order, check_plan(plan)),
      Strings{"collectives out of order: data runs c before e, but plan.collectives has them the other way round"});
}

}  // namespace
}  // namespace weft::plan
