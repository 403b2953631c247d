// Which tasks moved from one order to another.
#include "runtime/plan/plan_difference.h"

#include <gtest/gtest.h>

#include <tuple>

namespace weft::plan {
namespace {

using Moved = std::vector<std::tuple<std::string_view, bool, std::string_view>>;

/// Names, whether they changed streams, and what they follow now.
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
  // Only places among the tasks of one stream count.
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

}  // namespace
}  // namespace weft::plan
