#include "runtime/execute/cpu/communicator_set.h"

#include <stdexcept>
#include <utility>

#include "base/log.h"

namespace weft::execute {
namespace {

using graph::Channel;

/// A message between two stages needs a group of its two ranks. A rank has two neighbours, so groups are made in rounds
/// in which no rank is in two of them: round 0 joins stages 0 and 1, 2 and 3, …; round 1 joins 1 and 2, …; with an odd
/// number of stages the last and the first one meet in a third round.
std::int64_t round_of_sender(std::int64_t stage, std::int64_t stages) {
  return stages % 2 == 1 && stage == stages - 1 ? 2 : stage % 2;
}

}  // namespace

CommunicatorSet::CommunicatorSet(comm::World& world, std::span<const Channel> channels, const graph::Grid& grid) {
  communicators_.resize(graph::kAxisChannels);
  for (const Channel channel : channels) {
    if (on(channel) != nullptr) continue;
    if (graph::is_message(channel)) {
      const bool next = channel == Channel::send_next || channel == Channel::receive_previous;
      join_neighbours(world, grid, next ? Channel::send_next : Channel::send_previous);
    } else {
      add(world, channel, world.split(static_cast<int>(graph::group_color(grid, channel, world.rank()))));
    }
  }
}

CommunicatorSet::CommunicatorSet(comm::World& world, std::span<const Channel> channels) {
  communicators_.resize(graph::kAxisChannels);
  for (const Channel channel : channels) {
    if (on(channel) != nullptr) continue;
    if (graph::is_message(channel)) throw std::logic_error("messages between stages need a grid");
    add(world, channel, world.split(0));
  }
}

void CommunicatorSet::join_neighbours(comm::World& world, const graph::Grid& grid, Channel send) {
  const Channel receive = graph::other_end(send);
  const std::int64_t rank = world.rank(), stages = grid.pipe;
  const std::int64_t sender = graph::peer_rank(grid, receive, rank);  // to this rank
  const auto round_of = [&](std::int64_t from) {
    // The ring runs either way; counting stages from its other end, so does the arrangement in rounds.
    const std::int64_t stage = graph::coordinates_of(grid, from).pipe;
    return round_of_sender(send == Channel::send_next ? stage : stages - 1 - stage, stages);
  };
  for (std::int64_t round = 0; round < (stages % 2 == 0 ? 2 : 3); ++round) {
    const bool sends = round_of(rank) == round, receives = round_of(sender) == round;
    const std::int64_t color = sends ? rank : receives ? sender : grid.ranks() + rank;
    auto group = world.split(static_cast<int>(color));
    if (sends || receives) add(world, sends ? send : receive, std::move(group));
  }
}

void CommunicatorSet::add(comm::World& world, Channel channel, std::unique_ptr<comm::Communicator> communicator) {
  Log(LogTopic::comm, world.rank())
      .debug("channel {}: rank {} of {}", graph::to_string(channel), communicator->rank(), communicator->size());
  communicators_[static_cast<std::size_t>(channel)] = std::move(communicator);
}

}  // namespace weft::execute
