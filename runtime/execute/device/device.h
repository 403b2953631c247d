// A thin layer over an accelerator: streams, events, memory, prepared tasks and whole-step graphs. The executor talks
// to this interface alone, so that its logic runs on the fake device too, where there is no GPU.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/id.h"
#include "graph/graph.h"
#include "kernels/cpu/gemm/matrix.h"

namespace weft::execute {

using DeviceStream = Id<struct DeviceStreamTag>;
using DeviceEvent = Id<struct DeviceEventTag>;
using DeviceGraph = Id<struct DeviceGraphTag>;

/// What a device's allocations are aligned to, and what is packed within one should be.
inline constexpr std::int64_t kDeviceAlignment = 256;
constexpr std::int64_t device_aligned(std::int64_t bytes) {
  return (bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
}

/// Bytes of a device's memory, as it reports them.
struct DeviceMemory {
  std::int64_t free = 0;  // what others than this program have left over, too
  std::int64_t total = 0;
};

enum class StreamPriority : std::uint8_t { normal, high };

/// A computation made ready: its operation with resolved device addresses and the library's plans.
class DeviceTask {
 public:
  virtual ~DeviceTask() = default;
  /// Device memory that it needs while it runs, to be given to bind().
  virtual std::int64_t scratch_bytes() const = 0;
  /// Once, before the first launch. Tasks of one stream may share their scratch.
  virtual void bind(std::byte* scratch) = 0;
};

/// Work is enqueued on in-order streams and runs when the device gets to it; nothing here blocks but synchronize().
/// Not thread-safe, passed() excepted: whoever shares a device takes turns.
///
///   const DeviceStream a = device.add_stream("compute0", StreamPriority::normal), b = …;
///   device.launch(a, *task);
///   device.record(event, a);
///   device.wait(b, event);          // b goes on when a has come past the record
///   device.synchronize(b);
class Device {
 public:
  virtual ~Device() = default;

  /// "NVIDIA H100 80GB HBM3", "fake": for people.
  virtual std::string name() const = 0;
  /// Tells devices of all nodes apart, whatever number a process knows one by.
  virtual std::uint64_t identity() const = 0;
  virtual DeviceMemory memory() const = 0;

  /// Device memory, aligned, not initialised, which lives as long as the device. Throws RuntimeFault naming
  /// the size and what is free.
  virtual std::byte* allocate(std::int64_t bytes) = 0;
  /// Host memory that copies to and from the device run from without a stop.
  virtual std::byte* allocate_pinned(std::int64_t bytes) = 0;

  virtual DeviceStream add_stream(std::string name, StreamPriority priority) = 0;
  /// `timed` events know when they passed: see elapsed_ns().
  virtual DeviceEvent add_event(bool timed) = 0;

  /// The event stands for all that was enqueued on the stream so far; recording again moves it.
  virtual void record(DeviceEvent event, DeviceStream stream) = 0;
  /// What is enqueued on the stream from now on begins when the event's last record has passed.
  virtual void wait(DeviceStream stream, DeviceEvent event) = 0;
  /// The same once the host has stored `value`, or one that it is behind, in `flag`: how a stream waits for the host.
  /// `flag` lies in pinned memory; its values only rise, and may wrap. Not within a capture.
  virtual void wait_value(DeviceStream stream, const std::atomic<std::uint32_t>* flag, std::uint32_t value) = 0;

  /// Either side may be device or pinned host memory.
  virtual void copy(DeviceStream stream, void* to, const void* from, std::int64_t bytes) = 0;
  /// out = Σ sources, added in fp32 in their order and rounded once; integers wrap. `out` may be one of them.
  virtual void sum(DeviceStream stream, std::span<const void* const> sources, void* out, std::int64_t count,
                   DType dtype) = 0;

  /// `arguments` are the task's accesses in device memory.
  virtual std::unique_ptr<DeviceTask> prepare(const graph::Graph& graph, const graph::Task& task,
                                              std::vector<cpu::Matrix> arguments) = 0;
  virtual void launch(DeviceStream stream, const DeviceTask& task) = 0;
  /// One task that does what these do, with the same bits, where that takes less time; null: there is none. They are
  /// bound, outlive the result, and none touches what another writes.
  virtual std::unique_ptr<DeviceTask> fuse(std::span<const DeviceTask* const> tasks) = 0;
  /// Blocks until the tables that prepare() and fuse() send to the device have arrived there. Before the first launch
  /// of what they made: no stream waits for them by itself.
  virtual void settle() = 0;

  /// Blocks until the stream has done all that was enqueued on it. Throws RuntimeFault when the device failed, or when
  /// a kernel met an input that it can't work with (a token outside of the vocabulary).
  virtual void synchronize(DeviceStream stream) = 0;
  /// The same until the device has come past the event's last record: what was enqueued later may go on.
  virtual void synchronize(DeviceEvent event) = 0;
  /// Whether the device has come past the event's last record: for those who have something else to look at while they
  /// wait. Throws RuntimeFault when the device failed. Before results are used, synchronize().
  virtual bool done(DeviceEvent event) = 0;
  /// The same. Any thread may ask, beside anything but add_event(); the device does nothing because somebody asks. An
  /// event that was last recorded in a capture must not be asked about: that spoils the capture.
  virtual bool passed(DeviceEvent event) = 0;
  /// Between two timed events that have passed.
  virtual std::int64_t elapsed_ns(DeviceEvent from, DeviceEvent to) = 0;

  /// From now on, what is enqueued on `origin`, and on streams that wait for what it recorded, becomes part of a graph
  /// instead of running. All of these streams must be joined to the origin again before the end.
  virtual void begin_capture(DeviceStream origin) = 0;
  virtual DeviceGraph end_capture(DeviceStream origin) = 0;
  /// Runs the graph's work with its own edges, behind what is on the stream.
  virtual void launch(DeviceStream stream, DeviceGraph graph) = 0;
  /// Frees the graph, once it has run if it is running. It isn't launched again.
  virtual void destroy(DeviceGraph graph) = 0;

  /// The name of what is enqueued next, for profilers.
  virtual void push_range(const std::string& name) = 0;
  virtual void pop_range() = 0;

  /// Bytes allocated on the device so far.
  virtual std::int64_t allocated_bytes() const = 0;
};

}  // namespace weft::execute
