// The groups of ranks on each channel of a grid: the splits of the world that make them, and a rank's communicators.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "graph/grid.h"
#include "runtime/comm/communicator.h"
#include "runtime/plan/plan.h"

namespace weft::execute {

/// Whether the message channel is its sender's end.
constexpr bool is_send(graph::Channel channel) {
  return channel == graph::Channel::send_next || channel == graph::Channel::send_previous;
}

/// One split of the world, in which all ranks take part: ranks of one color become a group.
struct GroupSplit {
  int color = 0;
  std::optional<graph::Channel> channel;  // whose group this rank gets; empty: it only takes part
  friend bool operator==(const GroupSplit&, const GroupSplit&) = default;
};

/// The splits that make a channel's groups, in their order; on every rank the same number. One by group_color();
/// without a grid, one of all ranks. A message needs a group of its two ranks, and a rank has two neighbours, so its
/// groups are made in two or three rounds, in which no rank is in two of them. They give a rank both its group as
/// sender and its group as receiver, whichever of the two ends is asked for. Throws std::logic_error for messages
/// without a grid.
std::vector<GroupSplit> splits_of(const std::optional<graph::Grid>& grid, graph::Channel channel, std::int64_t rank);

/// The place of `rank` in its group of two on a message channel, whose members are ordered by their ranks.
int place_in_pair(const graph::Grid& grid, graph::Channel channel, std::int64_t rank);

/// The channels of a plan's communication streams.
std::vector<graph::Channel> channels_of(const plan::Plan& plan);

/// The channels that any rank uses, in one order. Ranks of different stages use different channels, and all take part
/// in the splits for each. Collective over the world.
std::vector<graph::Channel> channels_of_all(comm::World& world, const std::vector<graph::Channel>& own);

/// The communicators of one rank, by channel; null where it has none.
class CommunicatorSet {
 public:
  CommunicatorSet() = default;
  /// Joins the channels: every rank the same ones in the same order.
  CommunicatorSet(comm::World& world, std::span<const graph::Channel> channels,
                  const std::optional<graph::Grid>& grid = std::nullopt);
  /// Makes the channel's group of a grid; without one, every group is the world. Of a message channel both ends are
  /// made. A second time, nothing. Collective over the world.
  void join(comm::World& world, const std::optional<graph::Grid>& grid, graph::Channel channel);
  comm::Communicator* on(graph::Channel channel) const {
    return communicators_[static_cast<std::size_t>(channel)].get();
  }

 private:
  std::array<std::unique_ptr<comm::Communicator>, graph::kAxisChannels> communicators_;
};

}  // namespace weft::execute
