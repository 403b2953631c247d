// Who waited for whom in a step: edges between work of a device, from records of waits, from the order of calls, or
// from times; and the host's part, launches and waits of each CPU thread as tasks, the time between them as their
// length. A step that is bound by launches is seen as one.
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

enum class HostTaskKind : std::uint8_t { lead, launch, wait };

struct HostTask {
  HostTaskKind kind = HostTaskKind::launch;
  std::int64_t begin = 0, end = 0;  // when it could go on; until the thread's next task
  std::int64_t thread = 0;
  std::uint32_t call = kNone;  // index into DeviceTrace::calls
};

struct HostWork {
  std::vector<HostTask> tasks;      // by thread, then in order
  std::vector<FoundEdge> between;   // host → host: a thread's order, and guesses of who woke whom
  std::vector<FoundEdge> launches;  // host → op
  std::vector<FoundEdge> waits;     // op → host
  std::int64_t guessed_wakes = 0;
};

HostWork recover_host_work(const DeviceTrace& trace, const StepTimeline& timeline);

}  // namespace weft::inspect
