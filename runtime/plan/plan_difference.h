// The differences between two plans: the tasks that moved, and all differences in words.
#pragma once

#include <cstddef>
#include <cstdint>
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

/// A task that plan b has on another stream, or at another place of its stream.
struct PlanMove {
  std::string task, from_stream, to_stream;
  std::string after;  // in b: the task before it on its stream that a has too; "": none, or the stream changed
};

struct StreamMoves {
  std::string stream;
  bool compute = false;
  std::vector<PlanMove> moves = {};
};

struct PlanDifference {
  std::string policy_a = {}, policy_b = {};
  std::string rewrites_a = {}, rewrites_b = {};           // of the first class: "none", or as --rewrites takes them
  std::int64_t scratch_bytes_a = 0, scratch_bytes_b = 0;  // of the class that takes most
  bool other_graph = false;                               // other sizes, or other tasks
  std::vector<std::string> only_a = {}, only_b = {};      // tasks
  std::vector<PlanMove> other_stream = {};                // in the order of b
  std::vector<StreamMoves> moved = {};                    // the fewest tasks that explain the new order, by stream of b
  std::vector<std::string> edges_only_a = {}, edges_only_b = {};  // added edges: "from → to"

  /// Do both plans order the same tasks in the same way, in the same memory?
  bool same() const;
};

/// Class by class; the names of streams of several classes begin with "stage K ".
PlanDifference difference_of(const PlanFile& a, const PlanFile& b);

/// The differences from plan `a` to plan `b`, a line each: policies, rewrites, memory, tasks that only one plan has,
/// tasks on another stream, tasks whose position on their stream changed (the fewest that explain the new order), and
/// added edges. Names at most `most` tasks of each kind. "" if both plans order the same tasks in the same way.
std::string describe(const PlanDifference& difference, std::size_t most = 10);

}  // namespace weft::plan
