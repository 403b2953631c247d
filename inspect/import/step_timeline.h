// One step of one rank, sorted for the search of its edges: work of each stream in order, the call that launched it,
// and where the step begins and ends.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "inspect/import/device_trace.h"
#include "inspect/import/trace_steps.h"

namespace weft::inspect {

inline constexpr std::uint32_t kNone = 0xFFFFFFFF;

/// Times of older profilers are whole microseconds: work that ends up to this much after another begins may precede it.
inline constexpr std::int64_t kRounding = 1000;

struct TimelineStream {
  std::int32_t device = 0, stream = 0;
  std::vector<std::uint32_t> ops;      // by begin
  std::vector<std::int64_t> launched;  // when each was launched at the latest; never falls
};

struct StepTimeline {
  std::vector<DeviceOp> ops;                         // by begin
  std::vector<std::uint32_t> call_of;                // by op: index into DeviceTrace::calls, or kNone
  std::vector<std::uint32_t> place;                  // by op: its place on its stream
  std::vector<std::uint32_t> stream_of;              // by op: index into streams
  std::vector<std::vector<std::uint32_t>> launches;  // by call: the ops that it launched
  std::vector<TimelineStream> streams;               // by device and stream
  std::int64_t origin = 0, end = 0;                  // of the step
  std::int64_t behind = 0;       // how long the device worked on earlier steps after this one's calls had begun
  std::int64_t main_thread = 0;  // whose calls the step begins and ends with
  std::int64_t without_launch = 0;
  /// How long a launch takes to reach an idle device, by DeviceWork; 0: unknown.
  std::array<std::int64_t, 3> launch_delay = {};

  std::int64_t length() const { return end - origin; }
  /// The stream's number, or kNone.
  std::uint32_t find_stream(std::int32_t device, std::int32_t stream) const;
  /// The last op of a stream that was launched before a time, or kNone.
  std::uint32_t last_launched(std::uint32_t stream, std::int64_t before) const;
  /// The first op of a stream that was launched at a time or later, or kNone.
  std::uint32_t first_launched(std::uint32_t stream, std::int64_t from) const;
  /// Could `to` have waited for `from`?
  bool allows(std::uint32_t from, std::uint32_t to) const {
    return ops[from].end <= ops[to].begin + kRounding && from != to;
  }
};

/// Throws UserError if the step has no work of a device.
StepTimeline make_timeline(const DeviceTrace& trace, const std::optional<MarkedStep>& step);

}  // namespace weft::inspect
