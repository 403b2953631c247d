// Policy `lhs`: a latency-hiding list schedule by an ordered list of rules.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/policy/policy.h"
#include "runtime/policy/policy_parameters.h"
#include "runtime/policy/scheduling/lhs_rules.h"
#include "runtime/policy/scheduling/list_schedule.h"

namespace weft::policy {

/// Records as the reason the rule that separated the winner from its last rival.
class RuleChooser final : public ListChooser {
 public:
  RuleChooser(const ClassTasks& tasks, std::vector<LhsRule> rules);
  std::vector<plan::Reason> reasons() const override;
  Choice choose(std::span<const std::uint32_t> ready, const ListScheduler& state) override;

 private:
  double value(LhsRule rule, std::uint32_t task, const ListScheduler& state) const;

  std::vector<LhsRule> rules_;
  std::vector<double> rank_, near_, communication_;  // by task
  std::vector<std::uint32_t> consumer_;              // by task: the first target of its edges
  std::vector<char> collective_;
  std::vector<std::uint32_t> best_, next_;  // of a choice: indices into `ready`
};

/// `rules`: the ordered list of rules, or a file with it (lhs_rules.h). Any list keeps the memory limit as in
/// list_schedule.h. `chunks` and `placement`: of a pipeline's layers (pipeline/chunks_parameter.h).
class LhsPolicy final : public Policy {
 public:
  LhsPolicy();
  explicit LhsPolicy(std::string_view rules) : rules_(parse_lhs_rules(rules)) {}
  explicit LhsPolicy(graph::PipelineChunks chunks) : LhsPolicy() { chunks_ = chunks; }
  explicit LhsPolicy(PolicyParameters& parameters);
  std::string name() const override { return "lhs"; }
  /// A list schedule by these rules.
  std::vector<plan::Order> schedules(ListScheduler& scheduler) const;
  std::vector<plan::Order> orders(graph::Classes classes, const PolicyOptions& options) const override;
  graph::PipelineChunks chunks() const override { return chunks_; }

 private:
  std::vector<LhsRule> rules_;
  graph::PipelineChunks chunks_;
};

}  // namespace weft::policy
