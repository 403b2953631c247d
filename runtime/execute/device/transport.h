// Collectives between ranks on devices that have different executors.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/grid.h"
#include "graph/operation.h"
#include "runtime/comm/backoff.h"
#include "runtime/comm/communicator.h"
#include "runtime/execute/device/device.h"

namespace weft::execute {

/// The collectives of one plan on one channel, in their order; addresses are the device's.
struct ChannelCalls {
  graph::Channel channel;
  std::vector<comm::CollectiveCall> calls;
};

/// One rank's end of all channels. A message between two stages is a broadcast by its sender in their group of two.
/// Only the thread that uses the device calls it; a transport's own threads end with stop().
///
///   transport->join(Channel::data);                       // every rank, every channel of its plans
///   transport->prepare(device, calls);
///   transport->enqueue(device, Channel::data, stream, call);
///   while (!device.done(event)) transport->check();       // throws if a peer is lost, instead of waiting for ever
class DeviceTransport {
 public:
  virtual ~DeviceTransport() = default;

  /// "staged", "nccl".
  virtual std::string_view name() const = 0;
  /// Whether a step's collectives need this host while they run. If so, no capture may have them, and the end of a step
  /// is awaited before the next is enqueued.
  virtual bool needs_host() const = 0;

  /// Whether an exchange of rows takes memory for whole segments beside its buffers (device_memory.h).
  virtual bool sends_segments() const { return false; }

  /// Makes the channel's group, of a message channel those of both ends; a second time, nothing. Collective over the
  /// world: every rank joins the same channels in the same order, also those that only other ranks use. Throws
  /// PeerLost, RuntimeFault.
  virtual void join(graph::Channel channel) = 0;
  /// Memory of the device that a joined channel takes for itself, beside the plans' buffers, as soon as it is used: an
  /// estimate.
  virtual std::int64_t device_bytes(graph::Channel /*channel*/) const { return 0; }
  /// Memory as Device::allocate() gives it, for the state and the plans' scratch; it lives as long as the transport.
  /// Before prepare().
  virtual std::byte* allocate(Device& device, std::int64_t bytes) { return device.allocate(bytes); }
  /// Call it once, after all joins and before the first enqueue(): allocates memory and events for the plans' calls.
  /// Every later enqueue() must be one of these calls, of one plan at a time.
  virtual void prepare(Device& device, std::span<const ChannelCalls> plans) = 0;

  /// Before the collectives of a step, on all ranks. A step that `loads` launches kernels for the first time, for which
  /// CUDA may wait until nothing runs: then no stream may wait for the host, and enqueue() blocks where it has to.
  virtual void begin_step(bool loads) = 0;

  /// Enqueues one collective on the stream, after the work that is there. Doesn't wait for it, but may wait for a
  /// peer's first call. The members of a channel's group enqueue in the same order. Throws PeerLost, RuntimeFault.
  virtual void enqueue(Device& device, graph::Channel channel, DeviceStream stream,
                       const comm::CollectiveCall& call) = 0;

  /// The same for gathers of one channel of which none touches what another writes, as one operation where the
  /// transport has that.
  virtual void enqueue_gathers(Device& device, graph::Channel channel, DeviceStream stream,
                               std::span<const comm::CollectiveCall> calls) {
    for (const comm::CollectiveCall& call : calls) enqueue(device, channel, stream, call);
  }

  /// Throws the failure of a collective enqueued so far, PeerLost or RuntimeFault, and PeerLost as soon as another rank
  /// has given up, even if no collective waits for it yet.
  virtual void check() = 0;

  /// Throws the failure for which collectives that have ended were given up before, by a thread of the transport's own.
  virtual void expect_whole() {}

  /// Gives up the collectives that aren't complete: the streams continue after them, with undefined data in the
  /// buffers. Ends the transport's threads; only destruction may follow. Destruction does the same where collectives
  /// are left.
  virtual void stop() noexcept = 0;
};

/// Blocks until the event has passed, and checks the transport meanwhile: throws the errors of check(), expect_whole()
/// and Device::done().
inline void wait_for(Device& device, DeviceEvent event, DeviceTransport& transport) {
  for (comm::Backoff backoff; !device.done(event); backoff.pause()) transport.check();
  transport.expect_whole();
}

/// Collectives of a device through the host: its buffers are copied to pinned memory, the communicators of the CPU
/// executor do the collective there, and the result is copied back. The bits are those of the CPU.
///
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
///
/// `world` must outlive the transport. `grid`: the process groups; left out, every channel is the world.
std::unique_ptr<DeviceTransport> make_staged_transport(comm::World& world, std::optional<graph::Grid> grid);

}  // namespace weft::execute
