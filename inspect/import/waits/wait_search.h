// The search for the events of a whole step's waits.
#pragma once

#include <vector>

#include "inspect/import/waits/wait_problem.h"

namespace weft::inspect {

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
