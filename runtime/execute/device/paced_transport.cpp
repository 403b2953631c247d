#include "runtime/execute/device/paced_transport.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace weft::execute {

PacedTransport::PacedTransport(comm::World& world, std::optional<graph::Grid> grid,
                               std::unique_ptr<DeviceTransport> inner)
    : world_(world), grid_(grid), inner_(std::move(inner)) {}

void PacedTransport::join(graph::Channel channel) {
  inner_->join(channel);
  hosts_.join(world_, grid_, channel);
}

void PacedTransport::prepare(Device& device, std::span<const ChannelCalls> plans) {
  inner_->prepare(device, plans);
  world_.barrier();
}

void PacedTransport::begin_step(bool loads) {
  world_.barrier();
  inner_->begin_step(loads);
}

void PacedTransport::enqueue(Device& device, graph::Channel channel, DeviceStream stream,
                             const comm::CollectiveCall& call) {
  inner_->enqueue(device, channel, stream, call);
  comm::Communicator& hosts = *hosts_.on(channel);
  const std::int32_t here = 1;
  std::vector<std::int32_t> all(static_cast<std::size_t>(hosts.size()));
  comm::run_blocking(hosts, {comm::CollectiveKind::all_gather, DType::i32, 1, 0, &here, all.data(), nullptr});
}

}  // namespace weft::execute
