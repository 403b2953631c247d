// One report and one exit code, whatever the ranks throw.
#include "runtime/comm/launch.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "runtime/comm/mpi.h"

namespace weft::comm {
namespace {

TEST(RunRanks, ReturnsTheGreatestCode) {
  EXPECT_EQ(run_ranks(3, [](World& world) { return world.rank(); }), 2);
  EXPECT_EQ(run_ranks(2, [](World& world) { return world.size() - 2; }), 0);
}

TEST(RunRanks, ReportsAnErrorOfAllRanksOnce) {
  std::ostringstream errors;
  const auto body = [](World& world) -> int {
    world.barrier();
    throw UserError("grid 3", "a divisor of 4", "");
  };
  EXPECT_EQ(run_ranks(2, body, errors), 2);
  EXPECT_EQ(errors.str(), "weft: error: " + std::string(UserError("grid 3", "a divisor of 4", "").what()) + "\n");
}

TEST(RunRanks, NamesTheRankThatFailedFirst) {
  std::ostringstream errors;
  const auto body = [](World& world) {
    if (world.rank() == 1) throw RuntimeFault("disk full");
    world.barrier();
    return 0;
  };
  EXPECT_EQ(run_ranks(3, body, errors), 3);
  EXPECT_EQ(errors.str(), "weft: error: rank 1: disk full\n");
}

TEST(RunRanks, ExceptionsOfAnyTypeStayInside) {
  std::ostringstream errors;
  EXPECT_EQ(run_ranks(
                1, [](World&) -> int { throw 7; }, errors),
            3);
  EXPECT_EQ(run_ranks(
                1, [](World&) -> int { throw std::bad_alloc(); }, errors),
            3);
}

TEST(RunRanks, ReportsAWorldThatWasGivenUp) {
  std::ostringstream errors;
  const auto body = [](World& world) {
    if (world.rank() == 0) {
      world.abort("stuck", 3);
      return 0;
    }
    world.barrier();
    return 0;
  };
  EXPECT_EQ(run_ranks(2, body, errors), 3);
  EXPECT_EQ(errors.str(), "weft: error: stuck\n");
}

// A rank may be the only one whose transport noticed that a peer is lost.
TEST(RunRanks, ALostPeerEndsTheOthers) {
  std::ostringstream errors;
  const auto body = [](World& world) {
    if (world.rank() == 1) throw PeerLost("no answer");
    world.barrier();
    return 0;
  };
  EXPECT_EQ(run_ranks(3, body, errors), 3);
  EXPECT_EQ(errors.str(), "weft: error: rank 1 failed: no answer\n");
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
