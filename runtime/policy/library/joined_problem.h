// The classes of a step as one list of tasks, for policies in languages whose users would rather write one order.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/policy/policy_abi.h"

namespace weft::policy {

/// A problem of one class, with the tasks, tensors, edges and streams of all classes in turn, and a host that judges
/// orders of it. With one class it is that class. A task's peer is the other end of its message. Of several memory
/// limits it has the least, and a simulation tells the scratch of the class that takes most. Not movable, since its
/// arrays are pointed to; problem and host must outlive it.
class JoinedProblem {
 public:
  /// `path`: the policy's file, for messages.
  JoinedProblem(const std::string& path, const weft2_problem& problem, const weft2_host& host);
  JoinedProblem(const JoinedProblem&) = delete;
  JoinedProblem& operator=(const JoinedProblem&) = delete;

  const weft2_problem& problem() const { return joined_; }
  const weft2_host& host() const { return host_; }
  /// By task, and by stream.
  std::span<const std::uint32_t> class_of_task() const { return class_of_task_; }
  std::span<const std::uint32_t> class_of_stream() const { return class_of_stream_; }

  /// Lets `function` fill an order of all tasks, and divides it among the classes' orders, whose edges it owns. Throws
  /// the exceptions of refuse_library() on a sequence that can't be divided.
  void order(const std::function<void(weft2_order&)>& function, weft2_order* orders);

 private:
  /// One class's part of an order of all tasks.
  struct Part {
    std::vector<std::uint32_t> sequence, streams, reasons;
    std::vector<weft2_added_edge> edges;
    weft2_order described();
  };

  std::vector<Part> divided(const weft2_order& order) const;
  std::uint32_t class_of(std::uint32_t task) const;
  static std::int32_t simulate(void* context, const weft2_order* order, weft2_simulation* result) noexcept;
  static std::int32_t schedule(void* context, const double* priorities, weft2_order* order, double* step_ns) noexcept;
  std::int32_t guarded(const std::function<std::int32_t()>& function) noexcept;

  const std::string& path_;
  const weft2_host& of_classes_;
  std::vector<std::uint32_t> first_task_, first_stream_;  // by class, and the sum
  std::vector<std::uint32_t> class_of_task_, class_of_stream_;
  std::vector<weft2_tensor> tensors_;
  std::vector<weft2_access> accesses_;
  std::vector<weft2_task> tasks_;
  std::vector<weft2_edge> edges_;
  std::vector<weft2_stream> streams_;
  std::vector<std::uint32_t> meetings_;
  weft2_class class_ = {};
  weft2_problem joined_ = {};
  weft2_host host_ = {};
  std::vector<Part> answer_;
  std::string error_;
};

}  // namespace weft::policy
