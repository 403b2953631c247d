// The host's part of a step: launches and waits of each CPU thread as tasks, the time between them as their length. A
// step that is bound by launches is seen as one.
#pragma once

#include <cstdint>
#include <vector>

#include "inspect/import/device_edges.h"
#include "inspect/import/step_timeline.h"

namespace weft::inspect {

/// pause: between operators of a thread that computes.
enum class HostTaskKind : std::uint8_t { lead, launch, wait, pause };

struct HostTask {
  HostTaskKind kind = HostTaskKind::launch;
  std::int64_t begin = 0, end = 0;  // when it could go on; until the thread's next task, or until it slept
  std::int64_t thread = 0;
  std::uint32_t call = kNone;  // index into DeviceTrace::calls; of a wait without a call: none
  std::int64_t called = 0;     // when the thread came to it; a wait begins once it is over
  std::uint32_t part = 0;      // a task is cut where something else can go on before it is done
};

/// Every edge goes from an end to a begin. Times may lie before the step's origin.
struct HostWork {
  std::vector<HostTask> tasks;      // by thread, then in order
  std::vector<FoundEdge> between;   // host → host: a thread's order, and guesses of who woke whom
  std::vector<FoundEdge> launches;  // host → op
  std::vector<FoundEdge> waits;     // op → host
  std::int64_t guessed_wakes = 0;   // by other threads
  std::int64_t guessed_waits = 0;   // for the device, or of a step without one for a collective
};

HostWork recover_host_work(const DeviceTrace& trace, const StepTimeline& timeline);

/// Cuts tasks where an edge leaves them before their end (FoundEdge::after_begin), so that none does any more. The time
/// of an edge may lie in a later task of its thread, but never after the thread's next wait is over.
void cut_at_wakes(HostWork& host);

}  // namespace weft::inspect
