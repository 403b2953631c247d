// Two plans side by side, in words.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/plan/plan_file.h"

namespace weft::plan {

/// What moved from plan `a` to plan `b`, a line each: policies, rewrites, memory, tasks that only one has, tasks on
/// another stream, tasks of each stream whose place among the others changed (the fewest that explain the new order),
/// and added edges. Of each kind at most `most` tasks are named. "" if the two order the same tasks in the same way.
std::string describe_difference(const PlanFile& a, const PlanFile& b, std::size_t most = 10);

}  // namespace weft::plan
