#include "runtime/execute/cpu/communicator_set.h"

#include <utility>

#include "base/log.h"
#include "runtime/execute/channel_groups.h"

namespace weft::execute {

CommunicatorSet::CommunicatorSet(comm::World& world, std::span<const graph::Channel> channels,
                                 const std::optional<graph::Grid>& grid) {
  communicators_.resize(graph::kAxisChannels);
  const Log log(LogTopic::comm, world.rank());
  for (const graph::Channel channel : channels) {
    if (on(channel) != nullptr) continue;
    for (const GroupSplit& split : splits_of(grid, channel, world.rank())) {
      auto group = world.split(split.color);
      if (!split.channel) continue;
      log.debug("channel {}: rank {} of {}", graph::to_string(*split.channel), group->rank(), group->size());
      communicators_[static_cast<std::size_t>(*split.channel)] = std::move(group);
    }
  }
}

}  // namespace weft::execute
