// Collectives of a device through the host: its buffers are copied to pinned memory, the communicators of the CPU
// executor do the collective there, and the result is copied back. The bits are those of the CPU.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "graph/grid.h"
#include "runtime/execute/device/transport.h"

namespace weft::execute {

/// A collective on a stream is: copy to pinned memory, record an event, wait until a number in pinned memory has risen,
/// copy back. A thread sees that the event has passed, runs the collective and raises the number. So the host that
/// enqueues never waits, and while one channel's stream stands still the other streams compute.
///
/// At most one collective of a channel is under way, as a communicator allows. The thread talks to MPI only while one
/// is, and a step's end lies behind all of them: between steps MPI is the caller's.
///
/// A stream that waits holds up those that share its hardware queue, of which CUDA has 32 at most: ranks of one process
/// may have so many streams together (some six each).
class StagedTransport final : public DeviceTransport {
 public:
  /// `world` must outlive the transport. `grid`: the process groups; left out, every channel is the world.
  StagedTransport(comm::World& world, std::optional<graph::Grid> grid);
  ~StagedTransport() override;
  StagedTransport(const StagedTransport&) = delete;
  StagedTransport& operator=(const StagedTransport&) = delete;

  std::string_view name() const override { return "staged"; }
  /// The numbers that streams wait for rise with every collective, while a graph would wait for the same ones again.
  bool can_be_captured() const override { return false; }
  /// Between steps MPI is the caller's.
  bool can_run_ahead() const override { return false; }
  void join(graph::Channel channel) override;
  void prepare(Device& device, std::span<const ChannelCalls> plans) override;
  void begin_step(bool loads) override;
  void enqueue(Device& device, graph::Channel channel, DeviceStream stream, const comm::CollectiveCall& call) override;
  void check() override;
  void stop() noexcept override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::execute
