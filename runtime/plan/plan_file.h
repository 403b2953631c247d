// Plans as files: what a policy decided, by names, so that it can be read, compared, edited and replayed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan/order.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/rewrite.h"

namespace weft::plan {

/// An order in names. docs/plan-file.md documents the file's members.
struct PlanFile {
  struct PlacedTask {
    std::string task;
    std::uint32_t stream = 0;  // index into streams
    std::uint32_t reason = 0;  // index into reasons
    friend bool operator==(const PlacedTask&, const PlacedTask&) = default;
  };
  struct AddedEdge {
    std::string from, to;
    graph::EdgeKind kind = graph::EdgeKind::completes_before;
    std::uint8_t distance = 0;
    friend bool operator==(const AddedEdge&, const AddedEdge&) = default;
  };

  std::string policy;
  std::vector<Rewrite> rewrites;  // all that the graph went through
  std::uint64_t graph_fingerprint = 0;
  std::uint64_t plan_fingerprint = 0;
  std::int64_t scratch_bytes = 0;
  std::vector<Stream> streams;
  std::vector<std::string> reasons;  // as to_string(Reason) makes them, or as somebody wrote them
  std::vector<PlacedTask> sequence;
  std::vector<AddedEdge> added_edges;  // the policy's; the memory planner finds its own again
  friend bool operator==(const PlanFile&, const PlanFile&) = default;
};

/// `rewrites` are those that were applied before the plan was made.
PlanFile plan_file_of(const Plan& plan, std::vector<Rewrite> rewrites);

/// JSON with a task a line.
std::string to_json(const PlanFile& file);

/// Reads what to_json() writes; `name` stands for the file in messages. Throws UserError on anything else: a part that
/// is missing or of another type, another version, a name twice, a stream that isn't declared, values nested deeper
/// than such a file's.
PlanFile parse_plan_file(std::string_view json_text, const std::string& name);

/// Throws UserError also when the file can't be read or has more than 256 MB.
PlanFile read_plan_file(const std::filesystem::path& path);

/// The file's order, of a graph with exactly its tasks. Throws UserError naming the first difference: a task of the
/// file that the graph doesn't have, one of the graph that the file leaves out, a task on a stream that can't run it,
/// or an order against an edge of the graph.
Order order_of(const PlanFile& file, const graph::Graph& graph, const std::string& name);

}  // namespace weft::plan
