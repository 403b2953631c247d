// Collectives of a device through the host: its buffers are copied to pinned memory, the communicators of the CPU
// executor do the collective there, and the result is copied back. The bits are those of the CPU.
#pragma once

#include <memory>
#include <optional>

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
///
/// `world` must outlive the transport. `grid`: the process groups; left out, every channel is the world.
std::unique_ptr<DeviceTransport> make_staged_transport(comm::World& world, std::optional<graph::Grid> grid);

}  // namespace weft::execute
