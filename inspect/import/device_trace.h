// What a profiler recorded of one rank: work of a device, calls by which a host launched it, records of waits, marks.
// Readers of several formats fill it; all times are nanoseconds on the rank's own clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "inspect/import/device_class.h"

namespace weft::inspect {

/// Texts by number: each is kept once.
class NameTable {
 public:
  NameTable() = default;
  NameTable(NameTable&&) = default;
  NameTable& operator=(NameTable&&) = default;

  std::uint32_t number(std::string_view text) {
    const auto found = numbers_.find(text);
    if (found != numbers_.end()) return found->second;
    const auto number = static_cast<std::uint32_t>(texts_.size());
    texts_.emplace_back(text);
    numbers_.emplace(texts_.back(), number);
    return number;
  }
  const std::string& text(std::uint32_t number) const { return texts_[number]; }
  std::size_t size() const { return texts_.size(); }

 private:
  std::deque<std::string> texts_;  // doesn't move them
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

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
inline HostCallKind host_call_kind(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (has("StreamWaitEvent")) return HostCallKind::wait;
  if (has("EventRecord")) return HostCallKind::record;
  if (has("EventSynchronize")) return HostCallKind::event_sync;
  if (has("StreamSynchronize")) return HostCallKind::stream_sync;
  if (has("DeviceSynchronize") || has("CtxSynchronize")) return HostCallKind::device_sync;
  if (has("Launch") || has("Memcpy") || has("Memset")) return HostCallKind::launch;
  return HostCallKind::other;
}

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
  std::int64_t rank = -1, world = 0;  // -1, 0: unknown
  std::vector<ProcessGroup> groups;
  NameTable names;
  std::vector<DeviceOp> ops;      // by begin
  std::vector<HostCall> calls;    // by begin
  std::vector<SyncRecord> syncs;  // by begin
  std::vector<HostMark> marks;    // by begin; of equal begins the longer one first
  std::vector<CollectiveNote> collectives;
};

}  // namespace weft::inspect
