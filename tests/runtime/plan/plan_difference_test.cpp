// The tasks that moved from one order to another.
#include "runtime/plan/plan_difference.h"

#include <gtest/gtest.h>

#include <tuple>

namespace weft::plan {
namespace {

using Moved = std::vector<std::tuple<std::string_view, bool, std::string_view>>;

/// Names, whether they changed streams, and the tasks that they follow now.
Moved moved(const std::vector<PlacedName>& a, const std::vector<PlacedName>& b) {
  Moved out;
  for (const MovedTask& task : moved_tasks(a, b)) {
    EXPECT_EQ(a[task.in_a].task, b[task.in_b].task);
    out.emplace_back(b[task.in_b].task, task.other_stream, task.follows ? b[*task.follows].task : "");
  }
  return out;
}

TEST(MovedTasks, AreTheFewestThatExplainTheNewOrder) {
  const std::vector<PlacedName> order = {{"a", "c0"}, {"r", "data"}, {"b", "c0"}, {"s", "data"}, {"c", "c0"}};
  EXPECT_EQ(moved(order, order), Moved());
  // Places count among the tasks of one stream only.
  EXPECT_EQ(moved(order, {{"a", "c0"}, {"b", "c0"}, {"c", "c0"}, {"r", "data"}, {"s", "data"}}), Moved());
  EXPECT_EQ(moved(order, {{"c", "c0"}, {"a", "c0"}, {"r", "data"}, {"b", "c0"}, {"s", "data"}}),
            (Moved{{"c", false, ""}}));
  EXPECT_EQ(moved(order, {{"s", "data"}, {"b", "c0"}, {"r", "data"}, {"a", "c0"}, {"c", "c1"}}).size(), 3U);
}

TEST(MovedTasks, OtherStreamsAndTasksOfOneOrderOnly) {
  const std::vector<PlacedName> a = {{"a", "c0"}, {"gone", "c0"}, {"b", "c0"}};
  EXPECT_EQ(moved(a, {{"new", "c0"}, {"b", "c1"}, {"a", "c0"}}), (Moved{{"b", true, ""}}));
  EXPECT_EQ(moved(a, {{"b", "c0"}, {"a", "c0"}}).size(), 1U);
  EXPECT_EQ(moved({}, a), Moved());
}

FiledPlan two_streams() {
  FiledPlan file;
  file.policy = "mine";
  file.scratch_bytes = 64;
  file.streams = {{"c0", true}, {"data", false}};
  file.sequence = {{"a", 0, 0}, {"r", 1, 0}, {"b", 0, 0}, {"c", 0, 0}};
  return file;
}

TEST(PlanDifference, HasEachChangeOnce) {
  const FiledPlan a = two_streams();
  EXPECT_TRUE(difference_of({a}, {a}).same());
  FiledPlan b = a;
  b.policy = "yours";
  EXPECT_TRUE(difference_of({a}, {b}).same());  // another name for the same order
  b.scratch_bytes = 128;
  b.sequence = {{"c", 0, 0}, {"a", 0, 0}, {"r", 0, 0}, {"d", 0, 0}};
  b.added_edges = {{"a", "d", graph::EdgeKind::completes_before, 0}};
  const PlanDifference difference = difference_of({a}, {b});
  EXPECT_FALSE(difference.same());
  EXPECT_EQ(difference.scratch_bytes_b, 128);
  EXPECT_EQ(difference.only_a, std::vector<std::string>{"b"});
  EXPECT_EQ(difference.only_b, std::vector<std::string>{"d"});
  ASSERT_EQ(difference.other_stream.size(), 1U);
  EXPECT_EQ(difference.other_stream[0].task, "r");
  EXPECT_EQ(difference.other_stream[0].from_stream, "data");
  EXPECT_EQ(difference.other_stream[0].to_stream, "c0");
  ASSERT_EQ(difference.moved.size(), 1U);
  ASSERT_EQ(difference.moved[0].moves.size(), 1U);
  EXPECT_EQ(difference.moved[0].stream, "c0");
  EXPECT_TRUE(difference.edges_only_a.empty());
  EXPECT_EQ(difference.edges_only_b, std::vector<std::string>{"a → d"});
}

}  // namespace
}  // namespace weft::plan
