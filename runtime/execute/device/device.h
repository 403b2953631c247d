// A thin layer over an accelerator: streams, events, memory, prepared tasks and whole-step graphs. The executor only
// uses this interface, so that its logic also runs on the fake device, without a GPU.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/id.h"
#include "graph/graph.h"
#include "kernels/cpu/matrix.h"
#include "kernels/row_moves.h"

namespace weft::execute {

using DeviceStream = Id<struct DeviceStreamTag>;
using DeviceEvent = Id<struct DeviceEventTag>;
using DeviceGraph = Id<struct DeviceGraphTag>;

/// The alignment of a device's allocations, and of data packed within one allocation.
inline constexpr std::int64_t kDeviceAlignment = 256;
constexpr std::int64_t device_aligned(std::int64_t bytes) {
  return (bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
}

/// Bytes of a device's memory, as it reports them.
struct DeviceMemory {
  std::int64_t free = 0;  // not in use by any program
  std::int64_t total = 0;
};

enum class StreamPriority : std::uint8_t { normal, high };

/// A prepared computation: its operation with resolved device addresses and the library's plans.
class DeviceTask {
 public:
  virtual ~DeviceTask() = default;
};

/// Work is enqueued on in-order streams and runs asynchronously; only synchronize() and settle() block. Only passed()
/// is thread-safe; one thread at a time may make other calls.
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
  /// A number that is unique over the devices of all nodes, unlike the process's ordinal.
  virtual std::uint64_t identity() const = 0;
  virtual DeviceMemory memory() const = 0;

  /// Device memory, aligned, not initialised, which lives as long as the device. Throws RuntimeFault naming the size
  /// and the free bytes.
  virtual std::byte* allocate(std::int64_t bytes) = 0;
  /// Pinned host memory, for asynchronous copies to and from the device.
  virtual std::byte* allocate_pinned(std::int64_t bytes) = 0;

  virtual DeviceStream add_stream(std::string name, StreamPriority priority) = 0;
  /// `timed` events know when they passed: see elapsed_ns().
  virtual DeviceEvent add_event(bool timed) = 0;

  /// The event passes once all work enqueued on the stream so far is done; recording again replaces the record. Within
  /// a capture, a timed event becomes part of the graph, each run of which records it; nothing in the capture may wait
  /// for it.
  virtual void record(DeviceEvent event, DeviceStream stream) = 0;
  /// Work enqueued on the stream from now on begins after the event's last record has passed.
  virtual void wait(DeviceStream stream, DeviceEvent event) = 0;
  /// Makes the stream wait until the host has stored `value` or a later value in `flag`. `flag` lies in pinned memory;
  /// its values only rise, and may wrap. Not within a capture.
  virtual void wait_value(DeviceStream stream, const std::atomic<std::uint32_t>* flag, std::uint32_t value) = 0;

  /// Either side may be device or pinned host memory.
  virtual void copy(DeviceStream stream, void* to, const void* from, std::int64_t bytes) = 0;
  /// out = Σ sources, added in fp32 in their order and rounded once; integers wrap. `out` may be one of them.
  virtual void sum(DeviceStream stream, std::span<const void* const> sources, void* out, std::int64_t count,
                   DType dtype) = 0;
  /// Moves rows between a rank's buffer and `others`, the buffer of each rank. Where they go, the table tells when the
  /// stream comes to it. synchronize() throws if rows don't fit.
  virtual void move_rows(DeviceStream stream, const kernels::RowMove& move, std::span<void* const> others) = 0;

  /// Bytes of scratch that the task prepared from this computation asks for, known before it has addresses.
  virtual std::int64_t scratch_bytes(const graph::Graph& graph, const graph::Task& task) = 0;
  /// `arguments` are the task's accesses in device memory, `scratch` is that of its stream, whose tasks may share it.
  virtual std::unique_ptr<DeviceTask> prepare(const graph::Task& task, std::vector<cpu::Matrix> arguments,
                                              std::byte* scratch) = 0;
  /// A task that looks for NaN and infinity in a matrix of floats: it lowers *first to the index of the first one,
  /// counted row-major within the window. `rows`, if not null: only as many rows count. All in device memory.
  virtual std::unique_ptr<DeviceTask> prepare_finite_check(const cpu::Matrix& matrix, const std::int32_t* rows,
                                                           std::uint64_t* first) = 0;
  virtual void launch(DeviceStream stream, const DeviceTask& task) = 0;
  /// One task that does the work of these tasks with the same bits in less time; null if there is none. The tasks must
  /// outlive the result, and must not touch bytes that another of them writes.
  virtual std::unique_ptr<DeviceTask> fuse(std::span<const DeviceTask* const> tasks) = 0;
  /// Blocks until the tables that prepare() and fuse() send have arrived on the device. Call it before the first launch
  /// of their tasks, as no stream waits for the tables.
  virtual void settle() = 0;

  /// Blocks until all work enqueued on the stream is done. Throws RuntimeFault when the device failed, or when a kernel
  /// met an input that it can't work with (a token outside of the vocabulary).
  virtual void synchronize(DeviceStream stream) = 0;
  /// Blocks until the event's last record has passed; work enqueued later may still run.
  virtual void synchronize(DeviceEvent event) = 0;
  /// Whether the event's last record has passed, for callers with other work to do while they wait. Throws RuntimeFault
  /// when the device failed. Call synchronize() before using results.
  virtual bool done(DeviceEvent event) = 0;
  /// The same as done(), but any thread may call it, concurrently with all calls but add_event(), without an effect on
  /// the device. Don't call it for an event last recorded in a capture, as that invalidates the capture.
  virtual bool passed(DeviceEvent event) = 0;
  /// Between two timed events that have passed.
  virtual std::int64_t elapsed_ns(DeviceEvent from, DeviceEvent to) = 0;

  /// From now on, work enqueued on `origin`, and on streams that wait for its events, becomes part of a graph instead
  /// of running. All of these streams must be joined to the origin again before the end.
  virtual void begin_capture(DeviceStream origin) = 0;
  virtual DeviceGraph end_capture(DeviceStream origin) = 0;
  /// Ends a capture that failed half-way, whatever its state, and drops its work: the streams run again.
  virtual void abandon_capture(DeviceStream origin) noexcept = 0;
  /// Runs the graph after the work that is on the stream.
  virtual void launch(DeviceStream stream, DeviceGraph graph) = 0;
  /// Frees the graph, after it has ended if it runs. It must not be launched again.
  virtual void destroy(DeviceGraph graph) = 0;

  /// Names the work that is enqueued next, for profilers.
  virtual void push_range(const std::string& name) = 0;
  virtual void pop_range() = 0;

  /// Bytes allocated on the device so far.
  virtual std::int64_t allocated_bytes() const = 0;
};

}  // namespace weft::execute
