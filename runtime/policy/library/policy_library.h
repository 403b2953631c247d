// Policies that speak through the C interface of runtime/policy/policy_abi.h: how a shared library is loaded, and one
// call of such a policy, with the host's functions that it may call and the rules to which its answers are held.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "runtime/cost/costs.h"
#include "runtime/plan/order.h"
#include "runtime/plan/rewrite.h"
#include "runtime/policy/library/library_problem.h"
#include "runtime/policy/policy.h"
#include "runtime/policy/policy_abi.h"
#include "runtime/policy/scheduling/list_schedule.h"

namespace weft::policy {

/// Loads the library at `path`; passes `parameters` to it unchanged. Throws UserError when it can't be loaded, has no
/// entry, or was compiled for another version. The policy's order() throws UserError, with a message for the
/// library's author, when the library fails, throws, or returns an invalid order.
std::unique_ptr<Policy> load_policy_library(const std::string& path, std::string parameters);

/// Entries that a library hasn't filled.
inline constexpr std::uint32_t kUnsetEntry = UINT32_MAX;

/// Of tasks of which a library says nothing.
inline constexpr plan::ReasonText kLibraryTexts[] = {{"the library gives no reason"}};
inline constexpr plan::ReasonTable kLibraryReasons{"library", kLibraryTexts};

/// Throws a UserError about the library at `path`, for its author.
[[noreturn]] void refuse_library(const std::string& path, const std::string& why, std::string_view fix);

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
  plan::Order order_of(std::size_t of_class, const weft2_order& order, const std::vector<plan::Reason>& reasons) const;
  void simulate_into(std::span<const weft2_order> orders, weft2_simulation& result) const;
  void schedule_into(const double* priorities, std::span<weft2_order> orders, double* step_ns);
  std::uint32_t add_reason(const char* text, bool for_memory);
  std::int32_t guarded(const std::function<void()>& function) noexcept;

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
