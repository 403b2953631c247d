// Finds a proof by milestones: the chain, and the prices that prove most.
#pragma once

#include <optional>

#include "runtime/simulate/certify/milestones.h"

namespace weft::simulate {

/// Takes a longest path as the chain, divides it into sections of about equal time, and gives one price to all parts of
/// a section whose milestones one queue serves. Then the best prices are the solution of a linear program. `about_ns`:
/// a bound that is known, for its scale. None if there is nothing to price.
std::optional<MilestoneProof> search_prices(const StepModel& model, const Limits& limits, double about_ns);

}  // namespace weft::simulate
