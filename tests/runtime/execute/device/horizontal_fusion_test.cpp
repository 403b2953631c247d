// Consecutive tasks that may be fused: of one kind, without order and shared bytes.
#include "runtime/execute/device/horizontal_fusion.h"

#include <gtest/gtest.h>

namespace weft::execute {
namespace {

const std::byte kMemory[1000] = {};

FusionCandidate entry(std::size_t kind, std::int64_t reads, std::int64_t writes) {
  return {kind, false, false, {{{kMemory + reads, 1, 10, 10}, false}, {{kMemory + writes, 1, 10, 10}, true}}};
}

std::vector<std::pair<std::size_t, std::size_t>> runs(const std::vector<FusionCandidate>& entries) {
  std::vector<std::pair<std::size_t, std::size_t>> result;
  for (const FusibleRun& run : fusible_runs(entries)) result.emplace_back(run.begin, run.end);
  return result;
}

using Runs = std::vector<std::pair<std::size_t, std::size_t>>;

TEST(HorizontalFusion, OfOneKindAreRuns) {
  EXPECT_EQ(runs({entry(1, 0, 10), entry(1, 0, 20), entry(2, 0, 30), entry(1, 0, 40), entry(1, 0, 50)}),
            (Runs{{0, 2}, {3, 5}}));
  EXPECT_EQ(runs({entry(1, 0, 10)}), Runs{});
  EXPECT_EQ(runs({}), Runs{});
}

TEST(HorizontalFusion, OnlyTheFirstWaits) {
  std::vector<FusionCandidate> entries = {entry(1, 0, 10), entry(1, 0, 20), entry(1, 0, 30)};
  entries[0].waits = true;
  EXPECT_EQ(runs(entries), (Runs{{0, 3}}));
  entries[1].waits = true;
  EXPECT_EQ(runs(entries), (Runs{{1, 3}}));
}

TEST(HorizontalFusion, OnlyTheLastSignals) {
  std::vector<FusionCandidate> entries = {entry(1, 0, 10), entry(1, 0, 20), entry(1, 0, 30)};
  entries[2].signals = true;
  EXPECT_EQ(runs(entries), (Runs{{0, 3}}));
  entries[1].signals = true;
  EXPECT_EQ(runs(entries), (Runs{{0, 2}}));
}

// A task reads the tensor whose bytes the other task's tensor reuses, for which the graph has no edge.
TEST(HorizontalFusion, SharedBytesKeepTheirOrder) {
  EXPECT_EQ(runs({entry(1, 0, 10), entry(1, 100, 5)}), Runs{});
  EXPECT_EQ(runs({entry(1, 0, 10), entry(1, 15, 30)}), Runs{});
  EXPECT_EQ(runs({entry(1, 0, 10), entry(1, 30, 15)}), Runs{});
  EXPECT_EQ(runs({entry(1, 0, 100), entry(1, 5, 200)}), (Runs{{0, 2}}));
}

}  // namespace
}  // namespace weft::execute
