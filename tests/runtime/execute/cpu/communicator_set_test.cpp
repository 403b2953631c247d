// Which ranks a channel's communicator joins.
#include "runtime/execute/cpu/communicator_set.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/comm/launch.h"

namespace weft {
namespace {

TEST(CommunicatorSet, AChannelJoinsItsGroup) {
  const std::vector<Channel> channels = {Channel::x, Channel::data, Channel::world};
  EXPECT_EQ(run_ranks(4,
                      [&](World& world) {
                        Grid grid;
                        grid.x = grid.data = 2;
                        const CommunicatorSet set(world, channels, grid);
                        EXPECT_EQ(set.on(Channel::x)->size(), 2);
                        EXPECT_EQ(set.on(Channel::x)->rank(), world.rank() % 2);
                        EXPECT_EQ(set.on(Channel::data)->rank(), world.rank() / 2);
                        EXPECT_EQ(set.on(Channel::world)->size(), 4);
                        EXPECT_EQ(set.on(Channel::y), nullptr);
                        return 0;
                      }),
            0);
}

TEST(CommunicatorSet, WithoutAGridEveryChannelIsTheWorld) {
  const std::vector<Channel> channels = {Channel::x, Channel::x};
  EXPECT_EQ(run_ranks(2,
                      [&](World& world) {
                        const CommunicatorSet set(world, channels);
                        EXPECT_EQ(set.on(Channel::x)->size(), 2);
                        EXPECT_EQ(set.on(Channel::data), nullptr);
                        return 0;
                      }),
            0);
}

}  // namespace
}  // namespace weft
