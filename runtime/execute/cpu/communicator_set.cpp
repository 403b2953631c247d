#include "runtime/execute/cpu/communicator_set.h"

#include "base/log.h"

namespace weft {

CommunicatorSet::CommunicatorSet(World& world, std::span<const Channel> channels, const Grid& grid)
    : CommunicatorSet(world, channels, [&](Channel channel) { return group_color(grid, channel, world.rank()); }) {}

CommunicatorSet::CommunicatorSet(World& world, std::span<const Channel> channels)
    : CommunicatorSet(world, channels, [](Channel) { return 0; }) {}

CommunicatorSet::CommunicatorSet(World& world, std::span<const Channel> channels,
                                 const std::function<std::int64_t(Channel)>& color) {
  communicators_.resize(static_cast<std::size_t>(Channel::world) + 1);
  for (Channel channel : channels) {
    auto& communicator = communicators_[static_cast<std::size_t>(channel)];
    if (communicator != nullptr) continue;
    communicator = world.split(static_cast<int>(color(channel)));
    Log(LogTopic::comm, world.rank())
        .debug("channel {}: rank {} of {}", to_string(channel), communicator->rank(), communicator->size());
  }
}

}  // namespace weft
