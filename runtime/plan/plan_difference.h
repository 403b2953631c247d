// Two plans side by side: what moved, and the same in words.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan/plan_file.h"

namespace weft::plan {

/// A task in a plan's order, and the stream that it runs on.
struct PlacedName {
  std::string_view task, stream;
};

/// Indices into the two orders.
struct MovedTask {
  std::size_t in_a = 0, in_b = 0;
  bool other_stream = false;
  std::optional<std::size_t> follows = {};  // in b, on its stream and in a too; none: it is the first of them
};

/// Of the tasks that both have, in the order of b: those on another stream, and of each stream those that changed
/// places among the others, the fewest that explain the new order.
std::vector<MovedTask> moved_tasks(std::span<const PlacedName> a, std::span<const PlacedName> b);

/// What moved from plan `a` to plan `b`, a line each: policies, rewrites, memory, tasks that only one has, tasks on
/// another stream, tasks of each stream whose place among the others changed (the fewest that explain the new order),
/// and added edges. Of each kind at most `most` tasks are named. "" if the two order the same tasks in the same way.
std::string describe_difference(const PlanFile& a, const PlanFile& b, std::size_t most = 10);

}  // namespace weft::plan
