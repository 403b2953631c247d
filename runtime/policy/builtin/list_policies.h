// Policies `critical-path` and `lhs`: list schedules by the longest path to the end of the step, and by an ordered list
// of rules that hide latency.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/policy/policy.h"
#include "runtime/policy/policy_parameters.h"
#include "runtime/policy/scheduling/list_schedule.h"

namespace weft::policy {

/// Whenever a stream is idle, its ready task with the largest cost + longest path after it starts (the upward rank of
/// Topcuoglu, Hariri and Wu, "Performance-effective and low-complexity task scheduling", 2002), ties in program order,
/// under the memory limit (list_schedule.h). Of a pipeline the path goes through all stages. `chunks` and `placement`:
/// of a pipeline's layers (policy_parameters.h).
class CriticalPathPolicy final : public Policy {
 public:
  CriticalPathPolicy() = default;
  explicit CriticalPathPolicy(graph::PipelineChunks chunks) { chunks_ = chunks; }
  explicit CriticalPathPolicy(PolicyParameters& parameters) : CriticalPathPolicy(chunks_parameter(parameters)) {}
  std::string name() const override { return "critical-path"; }
  std::vector<plan::Order> orders(graph::Classes classes, const PolicyOptions& options) const override;
};

/// A criterion for choosing among ready tasks. A rule gives each task a number, and the largest wins; the next rule
/// breaks ties.
enum class LhsRule : std::uint8_t {
  memory,         // above half of the memory limit: the task that leaves the fewest bytes alive
  release,        // the task that completes the inputs of the longest collectives
  near,           // the shortest path of computations to the next collective
  communication,  // the longest communication on a path from the task
  hide,           // while collectives run: the computation closest in time to their remaining time
  critical,       // the longest path to the end of the step
  unlock,         // the task that makes the most tasks ready
  consumer,       // the collective whose first reader is earliest in the program
  less_memory,    // the task that leaves the fewest bytes alive, at any memory use
  program,        // program order
};

/// The reasons of tasks that a rule chose, by rule. A text begins with the rule's name.
inline constexpr plan::ReasonText kLhsTexts[] = {
    {.pattern = "memory: above half of the limit, it leaves the fewest bytes alive", .for_memory = true},
    {"release: it completes the inputs of the longest collectives"},
    {"near: the shortest path to the next collective starts with it"},
    {"communication: a path from it has the most communication"},
    {"hide: its time is closest to the remaining time of the running collectives"},
    {"critical: the longest path to the end of the step leads through it"},
    {"unlock: it makes the most tasks ready"},
    {"consumer: its result is read earliest in program order"},
    {.pattern = "less-memory: it leaves the fewest bytes alive", .for_memory = true},
    {"program: all other rules tie, and it comes first in program order"},
};
inline constexpr plan::ReasonTable kLhsReasons{"lhs", kLhsTexts};

/// The name of a rule: "memory", "release", …, "less-memory", "program".
std::string_view to_string(LhsRule rule);

/// "a+b+c". Throws UserError on an unknown or repeated rule. Appends `program` if it is missing.
std::vector<LhsRule> parse_lhs_rules(std::string_view text);
/// The list `rules` of a TOML file, which has nothing else; examples/lhs_rules.toml is one. Throws UserError naming the
/// file and the line.
std::vector<LhsRule> read_lhs_rules(const std::filesystem::path& path);
/// read_lhs_rules() where the text ends in .toml, else parse_lhs_rules().
std::vector<LhsRule> lhs_rules(std::string_view text);

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

/// `rules`: the ordered list of rules, or a file with it (read_lhs_rules()). Any list keeps the memory limit as in
/// list_schedule.h. `chunks` and `placement`: of a pipeline's layers (policy_parameters.h).
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

 private:
  std::vector<LhsRule> rules_;
};

}  // namespace weft::policy
