// One report and one exit code, whatever the ranks throw.
#include "runtime/comm/launch.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <string>

#include "base/error.h"
#include "runtime/comm/mpi.h"
#include "tests/runtime/comm/ranks.h"

namespace weft::comm {
namespace {

TEST(RunRanks, ReturnsTheGreatestCode) {
  EXPECT_EQ(run_ranks(3, [](World& world) { return world.rank(); }), 2);
  EXPECT_EQ(run_ranks(2, [](World& world) { return world.size() - 2; }), 0);
}

// Of ranks that do this, with this report.
template <class Body>
void expect_end(int ranks, int code, const std::string& errors, const Body& body) {
  const testing::RanksEnd end = testing::end_of_ranks(ranks, body);
  EXPECT_EQ(end.code, code);
  EXPECT_EQ(end.errors, "weft: error: " + errors + "\n");
}

TEST(RunRanks, ReportsAnErrorOfAllRanksOnce) {
  const UserError error("grid 3", "a divisor of 4", "");
  expect_end(2, 2, error.what(), [&](World& world) {
    world.barrier();
    throw error;
  });
}

TEST(RunRanks, NamesTheRankThatFailedFirst) {
  expect_end(3, 3, "rank 1: disk full", [](World& world) {
    if (world.rank() == 1) throw RuntimeFault("disk full");
    world.barrier();
  });
}

TEST(RunRanks, ExceptionsOfAnyTypeStayInside) {
  expect_end(1, 3, "an exception of unknown type", [](World&) { throw 7; });
  expect_end(1, 3, std::bad_alloc().what(), [](World&) { throw std::bad_alloc(); });
}

TEST(RunRanks, ReportsAWorldThatWasGivenUp) {
  expect_end(2, 3, "stuck", [](World& world) {
    if (world.rank() == 0) return world.abort("stuck", 3);
    world.barrier();
  });
}

// A rank may be the only one whose transport noticed that a peer is lost.
TEST(RunRanks, ALostPeerEndsTheOthers) {
  expect_end(3, 3, "rank 1 failed: no answer", [](World& world) {
    if (world.rank() == 1) throw PeerLost("no answer");
    world.barrier();
  });
}

TEST(LaunchedByMpi, LooksForALauncher) {
  if (launched_by_mpi()) GTEST_SKIP() << "the test itself runs under a launcher";
  ASSERT_EQ(setenv("PMIX_RANK", "0", 1), 0);
  EXPECT_TRUE(launched_by_mpi());
  unsetenv("PMIX_RANK");
  EXPECT_FALSE(launched_by_mpi());
}

}  // namespace
}  // namespace weft::comm
