// Which part of a recording is one step: by the marks of the profiler, by its number, or all of it; and that step of
// one rank, sorted for the search of its edges: work of each stream in order, the call that launched it, and where the
// step begins and ends.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "inspect/import/device_trace.h"
#include "inspect/import/kernel_names.h"

namespace weft::inspect {

/// Told now and then what is done: the file, and how many of its events have been read.
using TellImport = std::function<void(const std::string& file, std::int64_t events)>;

/// Or a range of time that a person named.
struct MarkedStep {
  std::int64_t number = 0;
  bool is_marked = true;  // else a range, without number and thread
  TimeWindow window;
  std::int64_t thread = 0;  // whose mark it is
  /// Work of the device that begins later belongs to other steps: a host runs ahead by a few steps at most, and nothing
  /// comes after the last mark.
  std::int64_t latest_work = std::numeric_limits<std::int64_t>::max();
};

/// By begin, and sets up to when work may belong to each.
void sort_steps(std::vector<MarkedStep>& steps);

/// What a quick look at a file finds: all that has to be known before its events are read.
struct TraceOutline {
  std::string file = {};
  std::int64_t rank = -1, world = 0;
  std::vector<ProcessGroup> groups = {};
  std::vector<MarkedStep> steps = {};  // by begin
  std::int64_t events = 0;
  std::int64_t begin = 0;                             // ranges are counted from here
  bool made_up_host = false;                          // the times of the host's calls say nothing
  std::vector<CommunicationRule> communication = {};  // what a person says about kernels' names
  bool has_device = true;                             // else operators of CPU threads are all the work
  std::vector<std::string> notes = {};                // what is wrong with the file, one sentence each
  std::map<std::int64_t, std::int64_t> kernels_of_device = {};
  std::optional<std::int32_t> device = {};  // of several in the file: the one that is this rank's
  std::string execution_trace = {};         // PyTorch's, of the same rank; "": none
};

struct StepChoice {
  std::optional<std::int64_t> number = {};  // of the step
  bool whole = false;                       // all that the file holds, as one step
  std::optional<TimeWindow> range = {};     // of launches, after the outline's begin
  std::vector<CommunicationRule> communication = {};
  std::vector<std::string> execution_traces = {};  // PyTorch's, of each file; or none
};

/// Without a choice: the last step that another one follows, since work of the last one may be cut off; the only step
/// if there is one; everything if no step is marked. Throws UserError if the step isn't there.
std::optional<MarkedStep> choose_step(const TraceOutline& outline, const StepChoice& choice);

/// Work of the device that was launched in a window, and when work of earlier steps was done.
struct StepOps {
  using Stream = std::pair<std::int32_t, std::int32_t>;  // a device and its stream
  std::vector<DeviceOp> ops;                             // by begin
  std::map<Stream, std::int64_t> earlier_ends = {};
  std::int64_t without_launch = 0;  // taken by their own time
};
StepOps ops_of_step(const DeviceTrace& trace, const TimeWindow& window);

inline constexpr std::uint32_t kNone = 0xFFFFFFFF;

/// Times of older profilers are whole microseconds: work that ends up to this much after another begins may precede it.
inline constexpr std::int64_t kRounding = 1000;
/// Clocks of a device jitter: work that is known to have waited may seem to have begun this much early.
inline constexpr std::int64_t kMostJitter = 5000;

struct TimelineStream {
  std::int32_t device = 0, stream = 0;
  std::vector<std::uint32_t> ops;      // by begin
  std::vector<std::int64_t> launched;  // when each was launched at the latest; never falls
};

struct StepTimeline {
  /// By begin. On a stream none overlap by more than kRounding, and all are in the span of the step's length: work of a
  /// stream that runs ahead of the others stands where the next step's work of its kind ran.
  std::vector<DeviceOp> ops;
  std::vector<DeviceOp> recorded;                    // the same as recorded, if that differs; else empty
  std::vector<std::uint32_t> call_of;                // by op: index into DeviceTrace::calls, or kNone
  std::vector<std::uint32_t> place;                  // by op: its place on its stream
  std::vector<std::uint32_t> stream_of;              // by op: index into streams
  std::vector<std::vector<std::uint32_t>> launches;  // by call: the ops that it launched
  std::vector<TimelineStream> streams;               // by device and stream
  /// The first call with a correlation, as an index into DeviceTrace::calls.
  std::unordered_map<std::int64_t, std::uint32_t> calls;
  std::int64_t origin = 0, end = 0;  // of the step
  std::int64_t behind = 0;           // how long the device worked on earlier steps after this one's calls had begun
  std::int64_t main_thread = 0;      // whose calls the step begins and ends with
  std::int64_t without_launch = 0;
  std::optional<std::int64_t> marked = {};  // the length of the profiler's mark
  /// How long a launch takes to reach an idle device that nothing else holds up, by DeviceWork; 0: unknown.
  std::array<std::int64_t, 3> launch_delay = {};

  std::int64_t length() const { return end - origin; }
  /// The call with this correlation, or kNone.
  std::uint32_t find_call(std::int64_t correlation) const {
    const auto found = calls.find(correlation);
    return found == calls.end() ? kNone : found->second;
  }
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
  /// Could it, if it is known for other reasons to have done so?
  bool allows_known(std::uint32_t from, std::uint32_t to) const {
    return ops[from].end <= ops[to].begin + kMostJitter && from != to;
  }
};

/// A step lasts from its mark's begin to its end or the end of its work, if that comes later. If the stream that
/// computes most was behind the host, the step is counted from the end of the last one's work there to the end of its
/// own: a period of the device. A stream that lags behind that one from step to step doesn't make it longer. Throws
/// UserError if the step has no work of a device.
StepTimeline make_timeline(const DeviceTrace& trace, const std::optional<MarkedStep>& step);

}  // namespace weft::inspect
