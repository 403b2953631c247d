// The ranks that a channel's communicator joins.
#include "runtime/execute/cpu/communicator_set.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/runtime/comm/ranks.h"

namespace weft::execute {
namespace {

TEST(CommunicatorSet, AChannelJoinsItsGroup) {
  const std::vector<graph::Channel> channels = {graph::Channel::x, graph::Channel::data, graph::Channel::world};
  testing::on_ranks(4, [&](comm::World& world) {
    graph::Grid grid;
    grid.x = grid.data = 2;
    const CommunicatorSet set(world, channels, grid);
    EXPECT_EQ(set.on(graph::Channel::x)->size(), 2);
    EXPECT_EQ(set.on(graph::Channel::x)->rank(), world.rank() % 2);
    EXPECT_EQ(set.on(graph::Channel::data)->rank(), world.rank() / 2);
    EXPECT_EQ(set.on(graph::Channel::world)->size(), 4);
    EXPECT_EQ(set.on(graph::Channel::y), nullptr);
  });
}

TEST(CommunicatorSet, WithoutAGridEveryChannelIsTheWorld) {
  const std::vector<graph::Channel> channels = {graph::Channel::x, graph::Channel::x};
  testing::on_ranks(2, [&](comm::World& world) {
    const CommunicatorSet set(world, channels);
    EXPECT_EQ(set.on(graph::Channel::x)->size(), 2);
    EXPECT_EQ(set.on(graph::Channel::data), nullptr);
  });
}

}  // namespace
}  // namespace weft::execute
