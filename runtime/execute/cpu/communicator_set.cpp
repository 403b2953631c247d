#include "runtime/execute/cpu/communicator_set.h"

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
    if (communicator == nullptr) communicator = world.split(static_cast<int>(color(channel)));
  }
}

}  // namespace weft
