// A recorded step of one rank as tasks and edges of an open graph.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/open_graph.h"
#include "inspect/import/device_trace.h"
#include "inspect/import/trace_channels.h"
#include "inspect/import/trace_steps.h"

namespace weft::inspect {

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

DeviceOverlap device_overlap(std::span<const DeviceOp> ops, const NameTable& names);

inline constexpr std::size_t kEdgeSources = 6;

struct RecoveredStep {
  graph::OpenClass graph;
  DeviceOverlap overlap;
  std::array<std::int64_t, kEdgeSources> edges = {};  // by graph::EdgeSource
  std::vector<std::string> notes;                     // what was guessed or left out, one sentence each
};

/// Recovers the step that `trace` was read for. Tasks stand in an order that all edges allow; an edge that goes against
/// the recorded order is left out, and a note says so.
RecoveredStep recover_step(const DeviceTrace& trace, const std::optional<MarkedStep>& step, TraceChannels& channels);

}  // namespace weft::inspect
