// Policy `deepcompile`: weights are gathered as early as predicted memory allows, as DeepSpeed's compiler does.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/policy/policy.h"
#include "runtime/policy/policy_parameters.h"

namespace weft::policy {

/// Proactive prefetching of DeepCompile (Tanaka et al., 2025, section 4.2): the program is walked from its end to its
/// begin, and gathers of weights are carried along. Before they are carried past a task, the oldest are put behind it
/// for as long as
/// - the bytes alive at that task and the carried bytes together exceed the memory limit less its part `margin`, or
/// - the carried bytes exceed `max-buffered` (in GB, powers of 1024), or
/// - the task makes what the gather reads.
/// A gather waits for the task behind which it stands. All else is as in `program`. DeepCompile also fuses gathers that
/// meet, which no rewrite of Weft does.
class DeepCompilePolicy final : public OneClassPolicy {
 public:
  static constexpr plan::ReasonText kTexts[] = {{"prefetched as far as memory allows: {} of {} bytes in flight"}};
  static constexpr plan::ReasonTable kReasons{"deepcompile", kTexts};

  DeepCompilePolicy() = default;
  explicit DeepCompilePolicy(PolicyParameters& parameters);
  std::string name() const override { return "deepcompile"; }
  plan::Order order(const graph::Graph& graph, const PolicyOptions& options) const override;

 private:
  static constexpr double kMargin = 0.1, kMaxBuffered = 4, kGiB = std::int64_t{1} << 30;
  double margin_ = kMargin;
  std::int64_t max_buffered_ = static_cast<std::int64_t>(kMaxBuffered * kGiB);
};

}  // namespace weft::policy
