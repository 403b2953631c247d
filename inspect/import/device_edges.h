// Who waited for whom among work of a device: edges from streams, from records of waits, from the order of calls, or
// from times.
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

/// A call of cudaEventRecord is about what its thread launched last; a second one after a collective, about the last
/// computation. A call of cudaStreamWaitEvent is about the stream of its thread's next launch. For which event it waits
/// is searched for all waits of the step together (find_waits()): by times, by marks, and by what the step's other
/// waits are for. A wait for an event of another step has no pair. A wait that the times deny is never told. Edges are
/// between ops of two streams.
std::vector<FoundEdge> pair_waits(const DeviceTrace& trace, const StepTimeline& timeline);

/// In tiers, from sure to doubtful:
/// 1. a stream's own order; 2. records of a stream that waits for another; without such records:
/// 3. calls of cudaEventRecord and cudaStreamWaitEvent between launches of one CPU thread; without such calls, the
/// order
///    of launches of a thread: a collective waits for what its thread launched before it;
/// 4. times: work that began just when work of another stream had ended, if nothing else explains why it began so late.
/// An edge that the times deny is never guessed.
DeviceEdges recover_device_edges(const DeviceTrace& trace, const StepTimeline& timeline);

}  // namespace weft::inspect
