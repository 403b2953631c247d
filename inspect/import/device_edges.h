// Which work of a device waited for which, from records of waits, from the order of calls, or from times.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/open_graph.h"
#include "inspect/import/step_timeline.h"

namespace weft::inspect {

/// Between ops of a timeline and tasks of the host, by index.
struct FoundEdge {
  std::uint32_t from = 0, to = 0;
  graph::EdgeSource source = graph::EdgeSource::stream;
  double confidence = 1;
  /// Of launches, and of ops that overlap on one stream: `to` can begin this long after `from` began. Absent: when
  /// `from` is done.
  std::optional<std::int64_t> after_begin = {};
};

struct DeviceEdges {
  std::vector<FoundEdge> edges;
  std::int64_t contradicted = 0;  // records of waits that the times deny: left out
  bool recorded_waits = false;    // the trace has records of waits between streams, so nothing was guessed
};

/// In tiers, from sure to doubtful:
/// 1. a stream's own order; 2. records of a stream that waits for another; without such records:
/// 3. calls of cudaEventRecord and cudaStreamWaitEvent between launches of one CPU thread; without such calls, the
/// order
///    of launches of a thread: a collective waits for what its thread launched before it;
/// 4. times: work that began just when work of another stream had ended, if nothing else explains why it began so late.
/// An edge that the times deny is never guessed.
DeviceEdges recover_device_edges(const DeviceTrace& trace, const StepTimeline& timeline);

}  // namespace weft::inspect
