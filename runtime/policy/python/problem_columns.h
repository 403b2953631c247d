// A policy's problem as columns: plain arrays of one type, as Python reads them without copying.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/policy/library/joined_problem.h"

namespace weft::policy {

/// One value of each row of a table: the costs of all tasks, say.
struct Column {
  using Values = std::variant<std::vector<std::int32_t>, std::vector<std::uint32_t>, std::vector<std::int64_t>,
                              std::vector<std::uint8_t>, std::vector<double>, std::vector<std::string>>;
  std::string_view table, name;  // "tasks", "cost_ns"
  Values values;
};

/// The tables tasks, accesses, tensors, edges and streams of all classes, and the problem's channels, links and
/// slowdowns; tasks and streams tell their class (of_class). Other columns have the names of the fields in
/// policy_abi.h, but for an edge's source and target, since `from` is a word of Python.
std::vector<Column> columns_of(const JoinedProblem& joined);

}  // namespace weft::policy
