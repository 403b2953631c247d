// A device without a GPU: streams, events, copies and CPU kernels in host memory, run in a seeded order that only
// respects streams and events. It finds errors that a real device would show rarely.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/execute/device/device.h"

namespace weft::testing {

/// Errors that the fake finds; the first is thrown from synchronize() as std::logic_error:
///  - a wait for an event that was never recorded: on a GPU it orders nothing;
///  - bytes that two pieces of work touch, one of them writing, with no order between them;
///  - a stream that can never continue, or waits for a value longer than `patience`;
///  - a capture whose streams aren't joined to its origin;
///  - a task launched before settle().
/// A question about an event that a capture recorded throws at once; end_capture() then throws as well.
///
///   auto device = make_fake_device({.seed = 7});
///   device->copy(a, x, y, n);
///   device->copy(b, z, x, n);       // an unordered read
///   device->synchronize(b);         // throws: "'copy' on stream b reads what 'copy' on stream a writes …"
struct FakeDeviceOptions {
  std::uint64_t seed = 1;  // chooses among the streams that can go on
  std::int64_t memory_bytes = std::int64_t{1} << 40;
  std::int64_t scratch_bytes = 64;    // of every task
  std::chrono::seconds patience{20};  // until a wait for a value that the host doesn't store is a deadlock
  std::function<void()> look = {};    // called when all of a capture is recorded, before it ends
};

/// Counts of the calls of a device.
struct FakeDeviceCounts {
  std::int64_t synchronizations = 0, allocations = 0, events = 0, launches = 0, graphs_launched = 0;
  std::int64_t drains = 0;  // synchronizations after which nothing is enqueued, so that a device would be idle
};

class FakeDevice : public execute::Device {
 public:
  virtual FakeDeviceCounts counts() const = 0;
  /// The order in which the work of all streams ran so far, as a hash: different seeds, different orders.
  virtual std::uint64_t order_hash() const = 0;
};

std::unique_ptr<FakeDevice> make_fake_device(const FakeDeviceOptions& options = {});

}  // namespace weft::testing
