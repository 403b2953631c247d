// The classes of a step as one list of tasks, for policies in Python, whose users would rather write one order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/policy/policy_abi.h"

namespace weft::policy {

/// One value of each row of a table: the costs of all tasks, say. Python reads it without copying.
struct Column {
  using Values = std::variant<std::vector<std::int32_t>, std::vector<std::uint32_t>, std::vector<std::int64_t>,
                              std::vector<std::uint8_t>, std::vector<double>, std::vector<std::string>>;
  std::string_view table, name;  // "tasks", "cost_ns"
  Values values;
};

/// An order of the tasks of all classes. All fields but the edges have an entry for each position of the sequence.
struct JoinedOrder {
  std::span<const std::uint32_t> sequence, streams;
  std::span<const std::uint32_t> reasons = {};  // empty: none
  std::span<const weft2_added_edge> edges = {};
};

/// The tasks, tensors, edges and streams of all classes in turn. Of several memory limits it has the least, and a
/// simulation tells the scratch of the class that takes most. Problem and host must outlive it.
class JoinedProblem {
 public:
  /// `path`: the policy's file, for messages.
  JoinedProblem(const std::string& path, const weft2_problem& problem, const weft2_host& host);

  const weft2_problem& problem() const { return problem_; }
  const weft2_host& host() const { return host_; }
  std::size_t tasks() const { return first_task_.back(); }
  std::int64_t memory_limit() const;

  /// The tables tasks, accesses, tensors, edges and streams of all classes, and the problem's channels, links and
  /// slowdowns; tasks and streams tell their class (of_class). Other columns have the names of the fields in
  /// policy_abi.h, but for an edge's source and target, since `from` is a word of Python.
  std::vector<Column> columns() const;

  /// Divides an order among the classes' orders, whose edges it owns. Throws the exceptions of refuse_library() on a
  /// sequence that can't be divided.
  void divide(const JoinedOrder& all, weft2_order* orders);
  /// The host's functions with one order of all tasks; null: not wanted. Throw std::runtime_error with its reason.
  double simulate(const JoinedOrder& all, double* begin_ns, double* end_ns, std::int64_t* scratch_bytes) const;
  void schedule(const double* priorities, std::span<std::uint32_t> sequence, std::span<std::uint32_t> streams) const;

 private:
  /// One class's part of an order.
  struct Part {
    std::vector<std::uint32_t> sequence, streams, reasons;
    std::vector<weft2_added_edge> edges;
  };

  std::span<const weft2_class> classes() const { return {problem_.classes, problem_.class_count}; }
  /// The class of a task; if there is no such task, the number of classes.
  std::size_t class_of(std::uint32_t task) const;
  std::vector<Part> parts_of(const JoinedOrder& all) const;
  void expect(std::int32_t failed) const;

  const std::string& path_;
  const weft2_problem& problem_;
  const weft2_host& host_;
  std::vector<std::uint32_t> first_task_, first_tensor_, first_access_, first_stream_;  // by class, and the sum
  std::vector<Part> divided_;
};

}  // namespace weft::policy
