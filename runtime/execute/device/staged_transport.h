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
/// enqueues never waits, and while one channel's stream waits the other streams compute.
///
/// At most one collective of a channel is under way, as a communicator allows. The thread uses MPI only while a
/// collective is under way, and a step ends after all of them, so between steps only the caller uses MPI.
///
/// A stream that waits blocks the streams that share its hardware queue. CUDA has at most 32 queues, so the ranks of
/// one process may have 32 streams together: about six each, and about ten with pipeline stages, whose messages have up
/// to four streams.
class StagedTransport final : public DeviceTransport {
 public:
  /// `world` must outlive the transport. `grid`: the process groups; left out, every channel is the world.
  StagedTransport(comm::World& world, std::optional<graph::Grid> grid);
  ~StagedTransport() override;
  StagedTransport(const StagedTransport&) = delete;
  StagedTransport& operator=(const StagedTransport&) = delete;

  std::string_view name() const override { return "staged"; }
  /// The numbers that streams wait for rise with every collective, but a graph would wait for the same numbers again.
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
