#include "runtime/execute/cpu/communicator_set.h"

#include "base/log.h"

namespace weft::execute {

CommunicatorSet::CommunicatorSet(comm::World& world, std::span<const graph::Channel> channels, const graph::Grid& grid)
    : CommunicatorSet(world, channels,
                      [&](graph::Channel channel) { return graph::group_color(grid, channel, world.rank()); }) {}

CommunicatorSet::CommunicatorSet(comm::World& world, std::span<const graph::Channel> channels)
    : CommunicatorSet(world, channels, [](graph::Channel) { return 0; }) {}

CommunicatorSet::CommunicatorSet(comm::World& world, std::span<const graph::Channel> channels,
                                 const std::function<std::int64_t(graph::Channel)>& color) {
  communicators_.resize(static_cast<std::size_t>(graph::Channel::world) + 1);
  for (graph::Channel channel : channels) {
    auto& communicator = communicators_[static_cast<std::size_t>(channel)];
    if (communicator != nullptr) continue;
    communicator = world.split(static_cast<int>(color(channel)));
    Log(LogTopic::comm, world.rank())
        .debug("channel {}: rank {} of {}", graph::to_string(channel), communicator->rank(), communicator->size());
  }
}

}  // namespace weft::execute
