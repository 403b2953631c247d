// Policy `lhs`: a latency-hiding list schedule by an ordered list of rules.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/policies/list_schedule.h"
#include "runtime/policy.h"
#include "runtime/policy_parameters.h"

namespace weft {

/// What tells ready tasks apart. A rule gives each a number, the largest wins; where several share it, the next rule
/// decides.
enum class LhsRule : std::uint8_t {
  memory,         // above half of the memory limit: what leaves the fewest bytes alive
  release,        // what completes the inputs of the longest collectives
  near,           // the shortest way of computations to the next collective
  communication,  // the longest communication on a path behind it
  hide,           // while collectives run: the computation closest in length to what is left of them
  critical,       // the longest path to the end of the step
  unlock,         // what makes the most tasks ready
  consumer,       // the collective whose first reader comes first in the program
  less_memory,    // what leaves the fewest bytes alive, always
  program,        // program order
};

/// As people write them: "memory", "release", …, "less-memory", "program".
std::string_view to_string(LhsRule rule);
/// "a+b+c". Throws UserError on an unknown or repeated rule. `program` is added if it isn't there.
std::vector<LhsRule> parse_lhs_rules(std::string_view text);

/// The first rule by which the winner differs from the last task that was as good until then is its recorded reason.
class RuleChooser final : public ListChooser {
 public:
  RuleChooser(const Graph& graph, const TaskCosts& costs, std::vector<LhsRule> rules);
  std::vector<std::string> reasons() const override;
  Choice choose(std::span<const std::uint32_t> ready, const ListScheduler& state) override;

 private:
  double value(LhsRule rule, std::uint32_t task, const ListScheduler& state) const;

  std::vector<LhsRule> rules_;
  std::vector<double> rank_, near_, communication_;  // by task
  std::vector<std::uint32_t> consumer_;              // by task: the first that an edge leads to
  std::vector<char> collective_;
  std::vector<std::uint32_t> best_, next_;  // of a choice: indices into `ready`
};

/// `rules`: their list, in order. Whatever it says, the memory limit is kept as in list_schedule.h.
class LhsPolicy final : public Policy {
 public:
  LhsPolicy();
  explicit LhsPolicy(std::string_view rules) : rules_(parse_lhs_rules(rules)) {}
  explicit LhsPolicy(PolicyParameters& parameters);
  std::string name() const override { return "lhs"; }
  Order order(const Graph& graph, const PolicyOptions& options) const override;

 private:
  std::vector<LhsRule> rules_;
};

}  // namespace weft
