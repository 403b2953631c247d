// Forked ranks: what they exchange, and how each of their ends is told.
#include "tests/runtime/comm/forked_world.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {
namespace {

using namespace std::chrono_literals;
using How = testing::RankEnd::How;

constexpr auto kLong = 60s;

TEST(ForkedWorld, ExchangesBytesOfEveryLength) {
  const auto ends = testing::run_forked(3, kLong, [](comm::World& world) {
    const auto of = [](int rank, std::size_t size) {
      return std::vector<std::byte>(size, static_cast<std::byte>(rank + 1));
    };
    for (const std::size_t size : {std::size_t{0}, std::size_t{5}, testing::SharedRank::kPiece, std::size_t{200'000}}) {
      const auto all = world.all_gather_bytes(of(world.rank(), size + static_cast<std::size_t>(world.rank())));
      for (int rank = 0; rank < 3; ++rank) {
        EXPECT_EQ(all.at(static_cast<std::size_t>(rank)), of(rank, size + static_cast<std::size_t>(rank)));
      }
      std::vector<std::byte> bytes = of(world.rank(), size);
      world.broadcast(bytes, 1);
      EXPECT_EQ(bytes, of(1, size));
    }
    EXPECT_EQ(world.all_gather(static_cast<std::uint64_t>(world.rank() * 7)), (std::vector<std::uint64_t>{0, 7, 14}));
    world.barrier();
    return std::vector<double>{static_cast<double>(world.rank()), 0.5};
  });
  ASSERT_EQ(ends.size(), 3U);
  for (int rank = 0; rank < 3; ++rank) {
    const testing::RankEnd& end = ends[static_cast<std::size_t>(rank)];
    EXPECT_EQ(end.how, How::returned) << end.why;
    EXPECT_EQ(end.values, (std::vector<double>{static_cast<double>(rank), 0.5}));
  }
}

TEST(ForkedWorld, AFailureAndADeathReachTheOthers) {
  for (const bool dies : {false, true}) {
    const auto ends = testing::run_forked(3, kLong, [dies](comm::World& world) {
      world.barrier();
      if (world.rank() == 1 && dies) ::_exit(9);
      if (world.rank() == 1) throw std::runtime_error("gone");
      world.barrier();
      return std::vector<double>();
    });
    EXPECT_EQ(ends[1].how, dies ? How::died : How::failed);
    EXPECT_EQ(ends[1].why, dies ? "exit code 9" : "gone");
    EXPECT_EQ(ends[0].how, How::lost_a_peer);
    EXPECT_EQ(ends[2].how, How::lost_a_peer);
  }
}

TEST(ForkedWorld, ARankThatHangsIsEnded) {
  const auto ends = testing::run_forked(2, 2s, [](comm::World& world) {
    while (world.rank() == 1) ::pause();
    return std::vector<double>();
  });
  EXPECT_EQ(ends[0].how, How::returned);
  EXPECT_EQ(ends[1].how, How::hung);
}

TEST(ForkedWorld, AnExpectationThatFailsInARankIsTold) {
  const auto ends = testing::run_forked(1, kLong, [](comm::World& world) {
    EXPECT_EQ(world.size(), 2) << "on purpose";
    return std::vector<double>();
  });
  EXPECT_EQ(ends[0].how, How::failed);
}

TEST(ForkedWorld, ThreadsEndAlike) {
  const auto ends = testing::run_threads(2, [](comm::World& world) {
    world.barrier();
    if (world.rank() == 1) throw std::runtime_error("gone");
    world.barrier();
    return std::vector<double>();
  });
  EXPECT_EQ(ends[0].how, How::lost_a_peer);
  EXPECT_EQ(ends[1].how, How::failed);
}

}  // namespace
}  // namespace weft
