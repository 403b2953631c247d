// The host's part of a step: launches and waits of each CPU thread as tasks, the time between them as their length, and
// who waited for whom. A step that is bound by launches is seen as one.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "inspect/import/device_edges.h"

namespace weft::inspect {

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
