// A description of the differences between two plans.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/plan/plan_file.h"

namespace weft::plan {

/// The differences from plan `a` to plan `b`, a line each: policies, rewrites, memory, tasks that only one plan has,
/// tasks on another stream, tasks whose position on their stream changed (the fewest that explain the new order), and
/// added edges. Names at most `most` tasks of each kind. "" if both plans order the same tasks in the same way.
std::string describe_difference(const PlanFile& a, const PlanFile& b, std::size_t most = 10);

}  // namespace weft::plan
