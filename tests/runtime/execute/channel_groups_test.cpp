// The splits of the world that make each channel's groups, and the communicators of a rank.
#include "runtime/execute/channel_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <vector>

#include "graph/grid.h"
#include "tests/runtime/comm/ranks.h"

namespace weft::execute {
namespace {

using graph::Channel;

std::vector<std::int64_t> sorted_group(const graph::Grid& grid, Channel channel, std::int64_t rank) {
  std::vector<std::int64_t> ranks = graph::group_ranks(grid, channel, rank);
  std::ranges::sort(ranks);
  return ranks;
}

// The groups that one split makes, by color.
using GroupsByColor = std::map<int, std::vector<std::int64_t>>;

// The splits of all ranks, which must be as many on each.
std::vector<GroupsByColor> groups_of_splits(const graph::Grid& grid, Channel channel) {
  std::vector<GroupsByColor> groups(splits_of(grid, channel, 0).size());
  for (std::int64_t rank = 0; rank < grid.ranks(); ++rank) {
    const std::vector<GroupSplit> splits = splits_of(grid, channel, rank);
    EXPECT_EQ(splits.size(), groups.size());
    for (std::size_t i = 0; i < groups.size(); ++i) groups[i][splits[i].color].push_back(rank);
  }
  return groups;
}

class SplitsOfGrids : public ::testing::TestWithParam<graph::Grid> {};

TEST_P(SplitsOfGrids, JoinTheRanksOfEachChannel) {
  const graph::Grid& grid = GetParam();
  for (std::size_t i = 0; i < graph::kAxisChannels; ++i) {
    const auto channel = static_cast<Channel>(i);
    SCOPED_TRACE(graph::to_string(channel));
    const std::vector<GroupsByColor> groups = groups_of_splits(grid, channel);
    for (std::int64_t rank = 0; rank < grid.ranks(); ++rank) {
      const std::vector<GroupSplit> splits = splits_of(grid, channel, rank);
      std::multiset<Channel> made;
      for (std::size_t at = 0; at < splits.size(); ++at) {
        const std::vector<std::int64_t>& group = groups[at].at(splits[at].color);
        if (!splits[at].channel) {
          EXPECT_EQ(group, std::vector{rank});
          continue;
        }
        made.insert(*splits[at].channel);
        EXPECT_EQ(group, sorted_group(grid, *splits[at].channel, rank));
      }
      const std::multiset<Channel> expected = graph::is_message(channel)
                                                  ? std::multiset<Channel>{channel, graph::other_end(channel)}
                                                  : std::multiset<Channel>{channel};
      EXPECT_EQ(made, expected);
    }
  }
}

TEST_P(SplitsOfGrids, EndsOfAMessageHaveTwoPlaces) {
  const graph::Grid& grid = GetParam();
  for (const Channel channel :
       {Channel::send_next, Channel::receive_previous, Channel::send_previous, Channel::receive_next}) {
    for (std::int64_t rank = 0; rank < grid.ranks(); ++rank) {
      const std::vector<std::int64_t> group = sorted_group(grid, channel, rank);
      EXPECT_EQ(group[static_cast<std::size_t>(place_in_pair(grid, channel, rank))], rank);
      EXPECT_EQ(place_in_pair(grid, channel, rank) +
                    place_in_pair(grid, graph::other_end(channel), graph::peer_rank(grid, channel, rank)),
                1);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Grids, SplitsOfGrids,
                         ::testing::Values(graph::Grid{.pipe = 2}, graph::Grid{.pipe = 3}, graph::Grid{.pipe = 4},
                                           graph::Grid{.pipe = 5}, graph::Grid{.x = 2, .z = 2, .pipe = 3},
                                           graph::Grid{.y = 2, .data = 2, .pipe = 2},
                                           graph::Grid{.z = 3, .data = 2, .pipe = 4}));

TEST(SplitsWithoutAGrid, AreTheWorld) {
  EXPECT_EQ(splits_of(std::nullopt, Channel::data, 3), (std::vector<GroupSplit>{{0, Channel::data}}));
  EXPECT_THROW(splits_of(std::nullopt, Channel::send_next, 3), std::logic_error);
}

TEST(ChannelsOfAll, AreThoseOfAnyRankInOneOrder) {
  const std::vector<std::vector<Channel>> own = {
      {Channel::receive_next, Channel::world}, {}, {Channel::send_next, Channel::world}};
  testing::on_ranks(3, [&](comm::World& world) {
    EXPECT_EQ(channels_of_all(world, own[static_cast<std::size_t>(world.rank())]),
              (std::vector{Channel::world, Channel::send_next, Channel::receive_next}));
  });
}

TEST(CommunicatorSet, AChannelJoinsItsGroup) {
  const std::vector<Channel> channels = {Channel::x, Channel::x, Channel::data, Channel::world};
  testing::on_ranks(4, [&](comm::World& world) {
    const CommunicatorSet set(world, channels, graph::Grid{.x = 2, .data = 2}), all(world, channels);
    EXPECT_EQ(set.on(Channel::x)->size(), 2);
    EXPECT_EQ(set.on(Channel::x)->rank(), world.rank() % 2);
    EXPECT_EQ(set.on(Channel::data)->rank(), world.rank() / 2);
    EXPECT_EQ(set.on(Channel::world)->size(), 4);
    EXPECT_EQ(set.on(Channel::y), nullptr);
    EXPECT_EQ(all.on(Channel::x)->size(), 4) << "without a grid every channel is the world";
    EXPECT_EQ(all.on(Channel::y), nullptr);
  });
}

}  // namespace
}  // namespace weft::execute
