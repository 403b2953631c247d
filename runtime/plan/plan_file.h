// Plan files: a policy's decisions in terms of names, to be read, compared, edited and replayed.
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

/// The plan of one rank class in a plan file. docs/formats.md documents its members.
struct FiledPlan {
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

  std::string policy = {};
  std::vector<Rewrite> rewrites = {};     // all rewrites that were applied to the graph
  std::vector<std::int64_t> stages = {};  // virtual stages of a pipeline that the class holds; version 1 has none
  std::uint64_t graph_fingerprint = 0;
  std::uint64_t plan_fingerprint = 0;
  std::int64_t scratch_bytes = 0;
  std::vector<Stream> streams = {};
  std::vector<std::string> reasons = {};  // texts of to_string(Reason), or texts that a person wrote
  std::vector<PlacedTask> sequence = {};
  std::vector<AddedEdge> added_edges = {};  // the policy's; the memory planner computes its edges again
  friend bool operator==(const FiledPlan&, const FiledPlan&) = default;
};

/// What a plan file holds: the plans of all rank classes under one policy, in the order of the classes.
using PlanFile = std::vector<FiledPlan>;

/// `rewrites`: all that were applied to the graph before it was planned.
FiledPlan filed(const Plan& plan, std::vector<Rewrite> rewrites);

/// JSON with one task per line: version 1 of the format for one class, version 2 for several.
std::string to_json(const PlanFile& file);

/// Reads what to_json() writes; `name` stands for the file in messages. Throws UserError on any other text: a member
/// that is missing or of another type, another version, a repeated name, an undeclared stream, or values nested deeper
/// than in a plan file.
PlanFile parse_plan_file(std::string_view json_text, const std::string& name);

/// Throws UserError like parse_plan_file(), and if the file can't be read or has more than 256 MB.
PlanFile read_plan_file(const std::filesystem::path& path);

/// A class's order for a graph with exactly its tasks. Throws UserError naming the first violation: a task that
/// only the file or only the graph has, a task on a stream that can't run it, or an order that contradicts an edge of
/// the graph. Texts that `tables` make are read as their reasons.
Order order_of(const FiledPlan& file, const graph::Graph& graph, const std::string& name, ReasonTables tables);

}  // namespace weft::plan
