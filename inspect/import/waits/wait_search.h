// What the calls of a recording leave open: for which recorded event each wait of a stream is; and the search for the
// events of a whole step's waits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace weft::inspect {

inline constexpr std::uint32_t kNoEvent = std::numeric_limits<std::uint32_t>::max();

/// Work of a device, in the order of launches.
struct WaitWork {
  std::uint32_t stream = 0, place = 0;  // on its stream
  std::int64_t begin = 0, end = 0;
  bool held_up = false;  // it began later than its own stream and its launch explain
  bool communicates = false;
  std::uint32_t kind = 0;  // equal for collectives of one kind and group, and for kernels of one name
  std::optional<graph::Phase> phase = {};
  std::int32_t layer = -1, micro_batch = -1;
};

/// The waits that a thread asked for before it launched `to`.
struct WaitGroup {
  std::uint32_t to = 0;                  // index of work
  std::uint32_t waits = 0;               // calls
  std::uint32_t events = 0;              // that had been recorded by then
  std::uint32_t just_before = kNoEvent;  // the event that was recorded right before the waits
};

struct WaitProblem {
  std::uint32_t streams = 0;  // that record or wait
  std::vector<WaitWork> work;
  std::vector<std::uint32_t> events;  // the work whose end each marks, in the order of records; rising on each stream
  std::vector<WaitGroup> groups;      // in the order of launches
  std::int64_t at_once = 1;           // work that begins this soon after other work's end may have waited for it
  std::int64_t slack = 1;             // by which a wait's end may lie behind the begin of what waited
  double chance = 0;                  // that some other work ends so shortly before a given moment

  /// Did `to` begin just when the event's work ended, though nothing else explains its begin?
  bool releases(std::uint32_t event, const WaitWork& to) const {
    const std::int64_t apart = to.begin - work[events[event]].end;
    return to.held_up && apart <= at_once && apart >= -at_once;
  }
};

/// A wait of a group is for an event, or for one that isn't in the step (kNoEvent).
struct FoundWait {
  std::uint32_t group = 0, event = kNoEvent;
  double confidence = 1;
};

/// For which event each wait is. All waits of a step are told apart together, since each one narrows the others:
/// - A stream that has waited for an event knows all that this event's stream had waited for by then, and waits for
/// none
///   of it again.
/// - An event that nobody waits for isn't recorded; the next step may wait for it.
/// - Work that began late, though nothing held it up on its own stream, waited for what ended just then.
/// - Work of one kind waits for work of one kind, which is learned from the step itself (WaitModel).
/// Hypotheses are carried along the calls, the most plausible ones at each. The search is repeated with what was
/// learned, from several starts, and the waits that agree best with each other are returned.
std::vector<FoundWait> find_waits(const WaitProblem& problem);

}  // namespace weft::inspect
