// Keeps ranks in step that are threads of one process and have a device each.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "graph/grid.h"
#include "runtime/execute/channel_groups.h"
#include "runtime/execute/device/transport.h"

namespace weft::execute {

/// A call of CUDA on one device may wait for another device of the same process: for room in a queue of launches, or,
/// where devices read each other's memory, until their kernels have ended. So a rank whose device waits in a collective
/// could keep the thread of its peer from enqueueing the other end of it, for ever. Therefore enqueue() returns when
/// all members of the group have enqueued the collective, and prepare() when all ranks have allocated their memory:
/// what runs on a device then never waits for a host. A captured step is enqueued at once, so all ranks begin it
/// together. Ranks that are processes need none of that.
class PacedTransport final : public DeviceTransport {
 public:
  /// `world`, whose ranks are threads, must outlive the transport. `grid`: as the inner transport's.
  PacedTransport(comm::World& world, std::optional<graph::Grid> grid, std::unique_ptr<DeviceTransport> inner);

  std::string_view name() const override { return inner_->name(); }
  bool needs_host() const override { return inner_->needs_host(); }
  void join(graph::Channel channel) override;
  std::int64_t device_bytes(graph::Channel channel) const override { return inner_->device_bytes(channel); }
  void prepare(Device& device, std::span<const ChannelCalls> plans) override;
  void begin_step(bool loads) override;
  void enqueue(Device& device, graph::Channel channel, DeviceStream stream, const comm::CollectiveCall& call) override;
  void check() override { inner_->check(); }
  void stop() noexcept override { inner_->stop(); }

 private:
  comm::World& world_;
  std::optional<graph::Grid> grid_;
  std::unique_ptr<DeviceTransport> inner_;
  CommunicatorSet hosts_;  // of each channel's group
};

}  // namespace weft::execute
