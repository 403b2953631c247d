// The rules of policy `lhs`: their names, and lists of them on the command line and in files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "runtime/plan/reason.h"

namespace weft::policy {

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

}  // namespace weft::policy
