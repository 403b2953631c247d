// Ranks that disagree about a collective are named with the call: kind, size, absence.
#include "inspect/import/rank_differences.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/base/messages.h"

namespace weft::inspect {
namespace {

using Calls = std::vector<std::pair<std::string, double>>;  // operation and bytes

graph::OpenGraph ranks_with(const std::vector<Calls>& ranks, bool numbered = false) {
  graph::OpenGraph graph;
  graph.world = std::ssize(ranks);
  graph.channels.push_back({"tp", std::ssize(ranks)});
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    graph.channels[0].groups.resize(1);
    graph.channels[0].groups[0].push_back(static_cast<std::int64_t>(r));
    graph::OpenClass& step = graph.classes.emplace_back();
    step.ranks = {static_cast<std::int64_t>(r)};
    for (const auto& [operation, bytes] : ranks[r]) {
      graph::OpenTask task;
      task.name = operation + "#" + std::to_string(step.tasks.size());
      task.operation = operation;
      task.kind = graph::OpenKind::collective;
      task.channel = 0;
      task.network_bytes = bytes;
      if (numbered) task.sequence = 10 + std::ssize(step.tasks) + (r > 0 && !step.tasks.empty() ? 1 : 0);
      step.tasks.push_back(task);
    }
  }
  return graph;
}

TEST(RankDifferences, AreNoneWhereRanksAgree) {
  const Calls calls = {{"all_reduce", 4096}, {"all_gather", 0}, {"all_to_all", 100}};
  EXPECT_TRUE(rank_differences(ranks_with({calls, calls, calls})).empty());
  EXPECT_TRUE(rank_differences(ranks_with({{{"all_to_all", 100}}, {{"all_to_all", 300}}})).empty())
      << "each rank sends as much as it has";
  EXPECT_TRUE(rank_differences(ranks_with({calls})).empty());
}

TEST(RankDifferences, NameCallAndRank) {
  const auto only = [](const graph::OpenGraph& graph) {
    const std::vector<std::string> told = rank_differences(graph);
    EXPECT_EQ(told.size(), 1U);
    return told.empty() ? std::string() : told[0];
  };
  const Calls calls = {{"all_reduce", 4096}, {"all_gather", 2048}, {"all_reduce", 4096}};
  EXPECT_TRUE(has_parts(only(ranks_with({calls, {{"all_reduce", 4096}, {"all_reduce", 4096}, {"all_reduce", 4096}}})),
                        {"Call 1 of group 'tp'", "'all_gather#1'", "2.00 KiB", "rank 0", "'all_reduce#1'", "rank 1."}));
  EXPECT_TRUE(has_parts(only(ranks_with({calls, {{"all_reduce", 8192}, {"all_gather", 2048}, {"all_reduce", 1024}}})),
                        {"Call 0", "4.00 KiB", "8.00 KiB", "1 more calls"}));
  EXPECT_TRUE(has_parts(only(ranks_with({calls, calls, {{"all_reduce", 4096}, {"all_gather", 2048}}})),
                        {"Call 2", "'all_reduce#2'", "absent on rank 2"}));
}

TEST(RankDifferences, GoByTheNumbersOfAProfiler) {
  const Calls calls = {{"all_reduce", 4096}, {"all_gather", 2048}, {"all_reduce", 4096}};
  const std::vector<std::string> told =
      rank_differences(ranks_with({calls, {{"all_reduce", 4096}, {"all_reduce", 4096}}}, true));
  ASSERT_EQ(told.size(), 1U);
  EXPECT_TRUE(has_parts(told[0], {"Call 11 of group 'tp'", "'all_gather#1'", "absent on rank 1."}));
}

}  // namespace
}  // namespace weft::inspect
