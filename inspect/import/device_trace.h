// What a profiler recorded of one rank: work of a device, calls by which a host launched it, records of waits, marks;
// and what the names of calls and marks tell. Readers of several formats fill it; all times are nanoseconds on the
// rank's own clock.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/name_table.h"
#include "graph/graph.h"
#include "inspect/import/execution_trace.h"

namespace weft::inspect {

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
  std::uint32_t asked_by = std::numeric_limits<std::uint32_t>::max();  // of a collective: index into operators
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

/// An operator of a framework on a CPU thread, such as "aten::mm". Operators nest.
struct HostOperator {
  std::int64_t begin = 0, end = 0;
  std::int64_t thread = 0;
  std::int64_t record_function = -1;  // by which PyTorch's execution trace names it
  std::uint32_t name = 0;
  std::uint32_t collective = kNoCollective;  // what it says about one that it asks for
  /// Of operators that exchange: elements of the largest and the smallest input.
  double most_elements = 0, least_elements = 0, element_bytes = 4;
};

/// Whether an operator of this name went through PyTorch's dispatcher, as nodes of the backward pass don't.
bool is_dispatched(std::string_view name);

/// Begins the names of gloo's own records of collectives.
inline constexpr std::string_view kGloo = "gloo:";

/// What a collective's arguments say.
struct CollectiveNote {
  std::string kind;         // as collective_kind() has it; "" if unknown
  std::string group;        // the process group's name; "" if unknown
  std::string description;  // of the group
  std::vector<std::int64_t> ranks;
  std::int64_t group_size = 0, sequence = -1, peer = -1;
  double bytes = 0;  // the larger of input and output
};

/// From a forward operator to its node in the backward pass: a place is the thread and the begin of an operator there.
struct BackwardArrow {
  using Place = std::pair<std::int64_t, std::int64_t>;
  Place from, to;
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
  std::vector<HostOperator> operators;  // by begin; of equal begins the longer one first
  std::vector<BackwardArrow> arrows = {};
  /// Operators that asked for a part of what a kernel does that an earlier one asked for: they and that one.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> coalesced = {};
  std::vector<std::string> notes = {};  // what is wrong with the records, one sentence each
  /// Nothing ran on a device: ops are operators of CPU threads, and a stream's number is its thread's.
  bool cpu_only = false;
  std::optional<ExecutionTrace> data = {};  // what its operators access, where somebody recorded it
  bool made_up_host = false;                // the times of calls say nothing
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
