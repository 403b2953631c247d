#include "graph/grid.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace weft::graph {
namespace {

using Groups = std::vector<std::vector<std::int64_t>>;

constexpr Channel kChannels[] = {Channel::x,         Channel::y,    Channel::z_gather,
                                 Channel::z_scatter, Channel::data, Channel::world};

TEST(Groups, NeighboursOnXComeFirst) {
  const Grid grid{2, 3, 1, 2};
  EXPECT_EQ(groups_of(grid, Channel::x), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}}));
  EXPECT_EQ(groups_of(grid, Channel::y), (Groups{{0, 2, 4}, {1, 3, 5}, {6, 8, 10}, {7, 9, 11}}));
  EXPECT_EQ(groups_of(grid, Channel::data), (Groups{{0, 6}, {1, 7}, {2, 8}, {3, 9}, {4, 10}, {5, 11}}));
  EXPECT_EQ(groups_of(grid, Channel::z_gather).size(), 12U);
  EXPECT_EQ(groups_of(grid, Channel::world).size(), 1U);
}

// For any order of axes: a group's ranks have one colour and are ordered by coordinate, and every rank is in one group.
TEST(Groups, AgreeWithTheColoursThatMakeCommunicators) {
  Grid grid{2, 3, 2, 2};
  std::sort(grid.order.begin(), grid.order.end());
  do {
    for (const Channel channel : kChannels) {
      std::vector<std::int64_t> all;
      for (const auto& group : groups_of(grid, channel)) {
        EXPECT_EQ(std::ssize(group), group_size(grid, channel));
        for (std::size_t i = 0; i < group.size(); ++i) {
          EXPECT_EQ(group_color(grid, channel, group[i]), group_color(grid, channel, group[0]));
          EXPECT_EQ(group_ranks(grid, channel, group[i]), group);
          if (channel == Channel::world) continue;
          EXPECT_EQ(coordinates_of(grid, group[i]).on(axis_of(channel)), static_cast<std::int64_t>(i));
        }
        all.insert(all.end(), group.begin(), group.end());
      }
      std::sort(all.begin(), all.end());
      ASSERT_EQ(std::ssize(all), grid.ranks());
      EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
    }
  } while (std::next_permutation(grid.order.begin(), grid.order.end()));
}

TEST(Groups, PipelineStagesStandWithinData) {
  const Grid grid{.x = 2, .data = 2, .pipe = 3};
  EXPECT_EQ(grid.ranks(), 12);
  EXPECT_EQ(grid.model_ranks(), 6);
  EXPECT_EQ(to_string(grid), "x=2,y=1,z=1,data=2,pipe=3");
  EXPECT_EQ(groups_of(grid, Channel::x), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}}));
  EXPECT_EQ(groups_of(grid, Channel::pipe), (Groups{{0, 2, 4}, {1, 3, 5}, {6, 8, 10}, {7, 9, 11}}));
  EXPECT_EQ(groups_of(grid, Channel::data), (Groups{{0, 6}, {1, 7}, {2, 8}, {3, 9}, {4, 10}, {5, 11}}));
  EXPECT_EQ(groups_of(grid, Channel::stage), (Groups{{0, 1, 6, 7}, {2, 3, 8, 9}, {4, 5, 10, 11}}));
  EXPECT_EQ(groups_of(grid, Channel::embedding), (Groups{{0, 4}, {1, 5}, {2}, {3}, {6, 10}, {7, 11}, {8}, {9}}));
  EXPECT_EQ(group_ranks(grid, Channel::send_next, 5), (std::vector<std::int64_t>{5, 1}));
  EXPECT_EQ(group_ranks(grid, Channel::receive_previous, 1), (std::vector<std::int64_t>{5, 1}));
  EXPECT_EQ(group_ranks(grid, Channel::send_previous, 6), (std::vector<std::int64_t>{6, 10}));
  for (std::int64_t rank = 0; rank < grid.ranks(); ++rank) {
    EXPECT_EQ(rank_of(grid, coordinates_of(grid, rank)), rank);
    for (const Channel channel : {Channel::send_next, Channel::send_previous}) {
      EXPECT_EQ(peer_rank(grid, other_end(channel), peer_rank(grid, channel, rank)), rank);
    }
  }
}

TEST(Groups, OfAContextAreNeighboursOnZ) {
  const Grid grid{.y = 2, .z = 4, .data = 2, .context = 2};
  EXPECT_EQ(to_string(grid), "x=1,y=2,z=4,data=2,context=2");
  EXPECT_EQ(grid.batch_ranks(), 4);
  EXPECT_EQ(groups_of(grid, Channel::context),
            (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  std::vector<std::int64_t> readers(4);
  for (std::int64_t rank = 0; rank < grid.ranks(); ++rank) {
    const Coordinates at = coordinates_of(grid, rank);
    ++readers.at(static_cast<std::size_t>(batch_rank(grid, at)));
    EXPECT_EQ(group_ranks(grid, Channel::context, rank).at(static_cast<std::size_t>(context_rank(grid, at))), rank);
    EXPECT_EQ(batch_rank(grid, at), batch_rank(grid, coordinates_of(grid, group_color(grid, Channel::context, rank))));
  }
  EXPECT_EQ(readers, (std::vector<std::int64_t>{4, 4, 4, 4}));
}

TEST(Groups, OfExpertsAreNeighboursOnZAndCopiesStandApart) {
  const Grid grid{.y = 2, .z = 4, .data = 2, .expert = 2};
  EXPECT_EQ(to_string(grid), "x=1,y=2,z=4,data=2,expert=2");
  EXPECT_EQ(grid.batch_ranks(), 8);
  EXPECT_EQ(groups_of(grid, Channel::expert),
            (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(groups_of(grid, Channel::expert_copies),
            (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {8, 12}, {9, 13}, {10, 14}, {11, 15}}));
  for (std::int64_t rank = 0; rank < grid.ranks(); ++rank) {
    const auto place = static_cast<std::size_t>(expert_rank(grid, coordinates_of(grid, rank)));
    EXPECT_EQ(group_ranks(grid, Channel::expert, rank).at(place), rank);
    for (const std::int64_t copy : group_ranks(grid, Channel::expert_copies, rank))
      EXPECT_EQ(static_cast<std::size_t>(expert_rank(grid, coordinates_of(grid, copy))), place);
  }
  EXPECT_EQ(group_size({.z = 4, .expert = 4}, Channel::expert_copies), 1);
}

// Files hold fingerprints of graphs with queues of their own.
TEST(Channels, OwnOnesKeepTheirNumbersInFingerprints) {
  EXPECT_EQ(fingerprint_number(Channel::receive_next), 12);
  EXPECT_EQ(fingerprint_number(*find_channel("own 0")), 13);
  EXPECT_EQ(fingerprint_number(*find_channel("own 7")), 20);
}

TEST(Groups, ClassesOfAChannelHaveMembersInOneGroup) {
  using Classes = std::vector<std::size_t>;
  for (const Channel channel : {Channel::world, Channel::pipe})
    EXPECT_EQ(classes_of_channel(channel, 3), (Classes{0, 1, 2}));
  EXPECT_EQ(classes_of_channel(Channel::embedding, 3), (Classes{0, 2}));
  EXPECT_EQ(classes_of_channel(Channel::embedding, 1), Classes{0});
  for (const Channel channel : {Channel::data, Channel::stage, Channel::send_next})
    EXPECT_EQ(classes_of_channel(channel, 3), Classes{});
}

TEST(Groups, TextIsShortenedInTheMiddle) {
  EXPECT_EQ(ranks_text({3}, 4), "rank 3");
  EXPECT_EQ(ranks_text({0, 2}, 4), "ranks 0, 2");
  EXPECT_EQ(ranks_text({0, 2, 4, 6}, 4), "ranks 0, 2, 4, 6");
  EXPECT_EQ(ranks_text({0, 2, 4, 6, 8}, 4), "ranks 0, 2, 4, …, 8");
}

}  // namespace
}  // namespace weft::graph
