// One call of a policy that isn't part of Weft: what it is handed, and the functions of Weft that it may call
// meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/cost/costs.h"
#include "runtime/plan/order.h"
#include "runtime/plan/rewrite.h"
#include "runtime/policy/library/library_answer.h"
#include "runtime/policy/library/library_problem.h"
#include "runtime/policy/policy.h"
#include "runtime/policy/policy_abi.h"
#include "runtime/policy/scheduling/list_schedule.h"

namespace weft::policy {

/// The two functions of a policy that isn't part of Weft: of a shared library, or of a program in another language that
/// speaks through the same structs.
using ForeignRewrites = std::function<std::int32_t(const weft2_problem*, const weft2_host*)>;
using ForeignOrder = std::function<std::int32_t(const weft2_problem*, const weft2_host*, weft2_order*)>;

/// The host's functions are called through C, so no exception leaves them: they return 1, and error() has the reason.
/// Options and texts must outlive the call.
class LibraryCall {
 public:
  /// `path`: the policy's file, for messages.
  LibraryCall(const std::string& path, const std::string& parameters, graph::Classes classes,
              const PolicyOptions& options);
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;

  /// In rewrites(), the host adds rewrites; before and in order(), it simulates.
  const weft2_problem& problem() const { return problem_.problem(); }
  const weft2_host& host() const { return host_; }

  /// The answer of a function. Throw the exceptions of refuse_library(), and UserErrors of functions that aren't C.
  std::vector<plan::Rewrite> rewrites(const ForeignRewrites& function);
  std::vector<plan::Order> orders(const ForeignOrder& function);

 private:
  enum class Of : std::uint8_t { rewrites, order };

  void run(const char* name, const std::function<std::int32_t()>& function);
  std::vector<graph::Edge> edges_of(const weft2_order& order) const;
  plan::Order order_to_simulate(std::size_t of_class, const weft2_order& order) const;
  void simulate_into(std::span<const weft2_order> orders, weft2_simulation& result) const;
  void schedule_into(const double* priorities, std::span<weft2_order> orders, double* step_ns);
  std::int32_t guarded(const std::function<void()>& function) noexcept;

  static std::int32_t simulate(void* context, const weft2_order* orders, weft2_simulation* result) noexcept;
  static std::int32_t schedule(void* context, const double* priorities, weft2_order* orders, double* step_ns) noexcept;
  static std::int32_t add_rewrite(void* context, const char* text) noexcept;
  static std::uint32_t add_reason(void* context, const char* text, std::uint32_t for_memory) noexcept;
  static const char* error(void* context) noexcept;
  static void fail(void* context, const char* message) noexcept;

  Of of_ = Of::order;
  const std::string& path_;
  const PolicyOptions& options_;
  const std::vector<std::shared_ptr<const graph::Graph>> classes_;
  const std::vector<std::vector<plan::Stream>> streams_;  // this and the following by class
  const std::vector<cost::TaskCosts> costs_;
  const std::vector<std::int64_t> limits_;
  const LibraryProblem problem_;
  const weft2_host host_;
  std::optional<ListScheduler> scheduler_;  // made when it is first asked for
  std::vector<plan::Reason> reasons_ = {{.table = &kLibraryReasons}};
  std::vector<plan::Rewrite> rewrites_;
  std::string error_, failure_;
  bool too_many_ = false;
};

}  // namespace weft::policy
