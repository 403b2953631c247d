// What a profiler recorded of one rank: work of a device, calls by which a host launched it, records of waits, marks;
// and what their names tell. Readers of several formats fill it; all times are nanoseconds on the rank's own clock.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/name_table.h"
#include "graph/graph.h"

namespace weft::inspect {

/// What work of a device is for, told by its name alone, with the rules of Holistic Trace Analysis
/// (hta/common/types.py). other: neither computes nor communicates nor moves memory, such as a wait.
enum class DeviceClass : std::uint8_t { compute, communication, memory, other };

DeviceClass device_class(std::string_view name);

/// "all_reduce" of ncclDevKernel_AllReduce_Sum_f32_RING_LL or of "_allgather_base": how Weft calls collectives. "" if
/// the name is of none. A kernel that sends and receives is called "send_receive".
std::string_view collective_kind(std::string_view name);

/// The function's name without return type, namespaces, template arguments and parameters: "DeviceScanKernel". Texts
/// without them, such as "Memcpy DtoD (Device -> Device)", become one word: "memcpy_dtod".
std::string short_kernel_name(std::string_view name);

enum class DeviceWork : std::uint8_t { kernel, copy, set };

inline constexpr std::int64_t kNoCorrelation = -1;
inline constexpr std::uint32_t kNoCollective = std::numeric_limits<std::uint32_t>::max();

struct DeviceOp {
  std::int64_t begin = 0, end = 0;
  std::int64_t correlation = kNoCorrelation;  // of the call that launched it; several of a graph share one
  std::uint32_t name = 0;
  std::int32_t device = 0, stream = 0;
  std::uint32_t collective = kNoCollective;  // index into DeviceTrace::collectives
  double bytes = 0;                          // of a copy
  DeviceWork work = DeviceWork::kernel;
};

enum class HostCallKind : std::uint8_t { launch, record, wait, event_sync, stream_sync, device_sync, other };

/// By the name of a function of CUDA's runtime or driver.
HostCallKind host_call_kind(std::string_view name);

struct HostCall {
  std::int64_t begin = 0, end = 0;
  std::int64_t correlation = kNoCorrelation;
  std::int64_t thread = 0;
  std::uint32_t name = 0;
  HostCallKind kind = HostCallKind::other;
};

/// A profiler's own record of who waited for whom. Streams: -1 where unknown.
struct SyncRecord {
  HostCallKind kind = HostCallKind::wait;  // wait: a stream; the others: the host
  std::int64_t begin = 0, end = 0;
  std::int64_t correlation = kNoCorrelation;         // of the call that asked for it
  std::int64_t record_correlation = kNoCorrelation;  // of the cudaEventRecord that it waits for
  std::int32_t device = 0, stream = -1, wait_on_stream = -1;
};

/// What a collective's arguments say.
struct CollectiveNote {
  std::string kind;         // as collective_kind() has it; "" if unknown
  std::string group;        // the process group's name; "" if unknown
  std::string description;  // of the group
  std::vector<std::int64_t> ranks;
  std::int64_t group_size = 0, sequence = -1, peer = -1;
  double bytes = 0;  // the larger of input and output
};

/// A span that a person or a framework marked on a thread.
struct HostMark {
  std::int64_t begin = 0, end = 0;
  std::int64_t thread = 0;
  std::uint32_t name = 0;
};

struct ProcessGroup {
  std::string name, description;
  std::int64_t size = 0;
  std::vector<std::int64_t> ranks;
};

/// [begin, end) on the rank's clock.
struct TimeWindow {
  std::int64_t begin = std::numeric_limits<std::int64_t>::min(), end = std::numeric_limits<std::int64_t>::max();
  bool holds(std::int64_t time) const { return time >= begin && time < end; }
};

struct DeviceTrace {
  std::string file;
  std::int64_t rank = -1;  // unknown
  std::vector<ProcessGroup> groups;
  NameTable names;
  std::vector<DeviceOp> ops;      // by begin
  std::vector<HostCall> calls;    // by begin
  std::vector<SyncRecord> syncs;  // by begin
  std::vector<HostMark> marks;    // by begin; of equal begins the longer one first
  std::vector<CollectiveNote> collectives;
};

struct MarkedPlace {
  std::optional<graph::Phase> phase = {};
  std::int32_t layer = -1, micro_batch = -1;
};

/// "DistributedDataParallel.forward" → forward; "## backward ##", "autograd::engine::evaluate_function: …" → backward;
/// "Optimizer.step#SGD.step" → update; "layer 3", "layers.3", "block_3" → layer 3; "microbatch 1", "mb1" →
/// micro-batch 1.
MarkedPlace place_in_name(std::string_view name);

/// For each call, by index: what the marks around it on its thread tell; of two, the inner one counts.
std::vector<MarkedPlace> places_of_calls(const DeviceTrace& trace);

}  // namespace weft::inspect
