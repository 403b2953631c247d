// The differences between two plans: the tasks that moved, and all differences in words.
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

/// A task that moved from plan a to plan b; its positions are indices into the two orders.
struct MovedTask {
  std::size_t in_a = 0, in_b = 0;
  bool other_stream = false;
  std::optional<std::size_t> follows = {};  // in b: the task before it on its stream that a has too, if there is one
};

/// The tasks that both plans have and that moved, in the order of b: tasks on another stream, and per stream the fewest
/// tasks whose moves explain the new order.
std::vector<MovedTask> moved_tasks(std::span<const PlacedName> a, std::span<const PlacedName> b);

/// The differences from plan `a` to plan `b`, a line each: policies, rewrites, memory, tasks that only one plan has,
/// tasks on another stream, tasks whose position on their stream changed (the fewest that explain the new order), and
/// added edges. Names at most `most` tasks of each kind. "" if both plans order the same tasks in the same way.
std::string describe_difference(const PlanFile& a, const PlanFile& b, std::size_t most = 10);

}  // namespace weft::plan
