// The order that holds for work of unknown data, and that no order which it allows breaks what was recorded.
#include "graph/unknown_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/stream_order.h"

namespace weft::graph {
namespace {

using Pairs = std::set<std::pair<std::uint32_t, std::uint32_t>>;

class RecordedClass {
 public:
  std::uint32_t add(std::int32_t stream, bool known, OpenKind kind = OpenKind::compute) {
    OpenTask& task = step.tasks.emplace_back();
    task.name = std::to_string(step.tasks.size());
    task.kind = kind;
    task.stream = stream;
    task.data_known = known;
    const auto added = static_cast<std::uint32_t>(step.tasks.size() - 1);
    for (std::uint32_t before = added; kind != OpenKind::host && before-- > 0;) {
      if (step.tasks[before].stream != stream) continue;
      edge(before, added, EdgeSource::stream);
      break;
    }
    return added;
  }
  void edge(std::uint32_t from, std::uint32_t to, EdgeSource source = EdgeSource::synchronisation) {
    step.edges.push_back({from, to, EdgeKind::completes_before, source});
  }
  Pairs order() const {
    Pairs out;
    for (const OpenEdge& edge : order_of_unknown_data(step)) out.emplace(edge.from, edge.to);
    return out;
  }

  OpenClass step;
};

TEST(UnknownData, ComesAfterAllAndBeforeAllOfItsStream) {
  RecordedClass recorded;
  const auto a = recorded.add(0, true), b = recorded.add(0, true), u = recorded.add(0, false),
             c = recorded.add(0, true), d = recorded.add(0, true);
  EXPECT_EQ(recorded.order(), (Pairs{{a, u}, {b, u}, {u, c}, {u, d}}));
}

TEST(UnknownData, ReachesOverStreamsThroughTheirWaits) {
  RecordedClass recorded;
  const auto a1 = recorded.add(0, true), a2 = recorded.add(0, true), u = recorded.add(1, false);
  recorded.edge(a2, u);
  const auto a3 = recorded.add(0, true), a4 = recorded.add(0, true), a5 = recorded.add(0, true);
  recorded.edge(u, a4);
  EXPECT_EQ(recorded.order(), (Pairs{{a1, u}, {u, a5}})) << "a3 needn't wait for u: " << a3;
}

TEST(UnknownData, OfTheHostIsAllThatItsWaitWasFor) {
  RecordedClass recorded;
  const auto a = recorded.add(0, true), b = recorded.add(0, true), wait = recorded.add(1, false, OpenKind::host),
             launch = recorded.add(1, false, OpenKind::host), c = recorded.add(0, true);
  recorded.edge(b, wait), recorded.edge(wait, launch, EdgeSource::stream), recorded.edge(launch, c, EdgeSource::launch);
  EXPECT_EQ(recorded.order(), (Pairs{{a, wait}})) << "c comes after its launch";
}

/// By task, all that comes before it.
std::vector<std::vector<bool>> all_before(std::size_t tasks,
                                          const std::vector<std::pair<std::uint32_t, std::uint32_t>>& edges) {
  std::vector<std::vector<bool>> before(tasks, std::vector<bool>(tasks, false));
  std::vector<std::vector<std::uint32_t>> into(tasks);
  for (const auto& [from, to] : edges) into[to].push_back(from);
  for (std::size_t i = 0; i < tasks; ++i) {
    for (const std::uint32_t from : into[i]) {
      before[i][from] = true;
      for (std::size_t j = 0; j < from; ++j) before[i][j] = before[i][j] || before[from][j];
    }
  }
  return before;
}

TEST(UnknownData, KeepsItsRecordedPlaceInRandomSteps) {
  std::mt19937_64 random(1);
  const auto below = [&](std::size_t n) { return static_cast<std::uint32_t>(random() % n); };
  std::size_t pairs = 0, free = 0;
  for (int trial = 0; trial < 300; ++trial) {
    RecordedClass recorded;
    const std::size_t tasks = 2 + below(30), streams = 1 + below(4), known = below(5);
    for (std::uint32_t i = 0; i < tasks; ++i) {
      recorded.add(static_cast<std::int32_t>(below(streams)), below(4) < known);
      if (i > 0 && below(3) == 0) recorded.edge(below(i), i);
    }
    std::vector<std::pair<std::uint32_t, std::uint32_t>> all, held;
    for (const OpenEdge& edge : recorded.step.edges) {
      all.emplace_back(edge.from, edge.to);
      if (!is_recorded_order(recorded.step, edge)) held.emplace_back(edge.from, edge.to);
    }
    for (const auto& edge : recorded.order()) held.push_back(edge);
    const auto was = all_before(tasks, all), is = all_before(tasks, held);
    for (std::size_t i = 0; i < tasks; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const bool unknown = !recorded.step.tasks[i].data_known || !recorded.step.tasks[j].data_known;
        EXPECT_TRUE(!unknown || was[i][j] == is[i][j]) << trial << ": " << j << " before " << i;
        pairs += unknown ? 1 : 0;
        free += was[i][j] && !is[i][j] ? 1 : 0;
      }
    }
  }
  EXPECT_GT(pairs, 1000U);
  EXPECT_GT(free, 1000U) << "the others are free";
}

}  // namespace
}  // namespace weft::graph
