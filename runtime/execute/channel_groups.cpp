#include "runtime/execute/channel_groups.h"

#include <set>
#include <stdexcept>
#include <utility>

#include "base/log.h"

namespace weft::execute {
namespace {

using graph::Channel;

/// Round 0 joins stages 0 and 1, 2 and 3, …; round 1 joins 1 and 2, …; with an odd number of stages the last and the
/// first one meet in a third round.
std::int64_t round_of_sender(std::int64_t stage, std::int64_t stages) {
  return stages % 2 == 1 && stage == stages - 1 ? 2 : stage % 2;
}

std::vector<GroupSplit> splits_of_neighbours(const graph::Grid& grid, Channel send, std::int64_t rank) {
  const Channel receive = graph::other_end(send);
  const std::int64_t stages = grid.pipe;
  const std::int64_t sender = graph::peer_rank(grid, receive, rank);  // to this rank
  const auto round_of = [&](std::int64_t from) {
    // The ring runs either way; counting stages from its other end, so does the arrangement in rounds.
    const std::int64_t stage = graph::coordinates_of(grid, from).pipe;
    return round_of_sender(send == Channel::send_next ? stage : stages - 1 - stage, stages);
  };
  std::vector<GroupSplit> splits;
  for (std::int64_t round = 0; round < (stages % 2 == 0 ? 2 : 3); ++round) {
    const bool sends = round_of(rank) == round, receives = round_of(sender) == round;
    if (sends || receives) {
      splits.push_back({static_cast<int>(sends ? rank : sender), sends ? send : receive});
    } else {
      splits.push_back({static_cast<int>(grid.ranks() + rank), std::nullopt});
    }
  }
  return splits;
}

}  // namespace

std::vector<GroupSplit> splits_of(const std::optional<graph::Grid>& grid, Channel channel, std::int64_t rank) {
  if (graph::is_message(channel)) {
    if (!grid) throw std::logic_error("messages between stages need a grid");
    return splits_of_neighbours(*grid, is_send(channel) ? channel : graph::other_end(channel), rank);
  }
  return {{grid ? static_cast<int>(graph::group_color(*grid, channel, rank)) : 0, channel}};
}

int place_in_pair(const graph::Grid& grid, Channel channel, std::int64_t rank) {
  return graph::peer_rank(grid, channel, rank) < rank ? 1 : 0;
}

std::vector<Channel> channels_of(const plan::Plan& plan) {
  std::vector<Channel> channels;
  for (const plan::StreamPlan& stream : plan.streams) {
    if (!stream.stream.compute) channels.push_back(stream.stream.channel);
  }
  return channels;
}

std::vector<Channel> channels_of_all(comm::World& world, const std::vector<Channel>& own) {
  std::set<Channel> all;
  for (const std::vector<Channel>& of_rank : comm::of_ranks(world, own)) all.insert(of_rank.begin(), of_rank.end());
  return {all.begin(), all.end()};
}

CommunicatorSet::CommunicatorSet(comm::World& world, std::span<const Channel> channels,
                                 const std::optional<graph::Grid>& grid) {
  for (const Channel channel : channels) join(world, grid, channel);
}

void CommunicatorSet::join(comm::World& world, const std::optional<graph::Grid>& grid, Channel channel) {
  if (on(channel) != nullptr) return;
  for (const GroupSplit& split : splits_of(grid, channel, world.rank())) {
    auto group = world.split(split.color);
    if (!split.channel) continue;
    Log(LogTopic::comm, world.rank())
        .debug("channel {}: rank {} of {}", graph::to_string(*split.channel), group->rank(), group->size());
    communicators_[static_cast<std::size_t>(*split.channel)] = std::move(group);
  }
}

}  // namespace weft::execute
