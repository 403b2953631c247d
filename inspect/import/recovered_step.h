// A recorded step of one rank as tasks and edges of an open graph; and the process groups over which a trace's
// collectives go: as its arguments name them, or one for each stream of collectives where nothing is said.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/intervals.h"
#include "graph/open_graph.h"
#include "inspect/import/device_trace.h"
#include "inspect/import/step_timeline.h"

namespace weft::inspect {

/// Channels of all ranks of an import. Groups that have the same description, or the same name where there is none, and
/// the same size are one channel.
class TraceChannels {
 public:
  /// `ranks`: of the run, or as many as there are files, if nobody says how many: the size of inferred groups.
  explicit TraceChannels(std::int64_t ranks) : ranks_(ranks) {}

  /// The channel of a collective of a trace, by the number that channels() has for it. `stream`: its name.
  std::int32_t channel_of(const DeviceTrace& trace, const CollectiveNote& note, const std::string& stream);
  /// Groups' members in rising order.
  std::vector<graph::OpenChannel> channels() &&;
  std::int64_t inferred() const { return inferred_; }

 private:
  std::int64_t ranks_;
  std::vector<graph::OpenChannel> channels_;
  std::map<std::pair<std::string, std::int64_t>, std::int32_t> by_name_;
  std::int64_t inferred_ = 0;  // channels of which nothing is said
};

/// Bytes that each rank sends in a collective by a ring, of the larger of its input and output.
double ring_bytes(std::string_view kind, double bytes, std::int64_t group_size);

/// How much of a device's communication runs beside computation, as Holistic Trace Analysis defines it: nanoseconds of
/// merged intervals, over all streams of a rank.
struct DeviceOverlap {
  std::int64_t computing = 0, communicating = 0, both = 0;
  std::int64_t exposed() const { return communicating - both; }
  /// |communication ∩ computation| / |communication|, in percent; 0 without communication.
  double percent() const {
    return communicating == 0 ? 0 : 100 * static_cast<double>(both) / static_cast<double>(communicating);
  }
};

DeviceOverlap overlap_of(Intervals compute, Intervals communication);
DeviceOverlap device_overlap(std::span<const DeviceOp> ops, const NameTable& names);

inline constexpr std::size_t kEdgeSources = static_cast<std::size_t>(graph::EdgeSource::times) + 1;

struct RecoveredStep {
  graph::OpenClass graph;
  DeviceOverlap overlap;
  std::optional<std::int64_t> marked_ns = {};         // the length of the profiler's own mark
  std::array<std::int64_t, kEdgeSources> edges = {};  // by graph::EdgeSource
  std::vector<std::string> notes;                     // what was guessed or left out, one sentence each
};

/// Recovers the step that `trace` was read for. Tasks stand in an order that all edges allow; an edge that goes against
/// the recorded order is left out, and a note says so.
RecoveredStep recover_step(const DeviceTrace& trace, const std::optional<MarkedStep>& step, TraceChannels& channels);

}  // namespace weft::inspect
