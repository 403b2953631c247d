// The rules of policy `lhs`: their names, and lists of them on the command line and in files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "runtime/plan/reason.h"

namespace weft::policy {

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
/// Why a task was chosen.
plan::ReasonKind reason_of(LhsRule rule);

/// "a+b+c". Throws UserError on an unknown or repeated rule. `program` is added if it isn't there.
std::vector<LhsRule> parse_lhs_rules(std::string_view text);
/// The list `rules` of a TOML file, which has nothing else; examples/lhs_rules.toml is one. Throws UserError naming the
/// file and the line.
std::vector<LhsRule> read_lhs_rules(const std::filesystem::path& path);
/// read_lhs_rules() where the text ends in .toml, else parse_lhs_rules().
std::vector<LhsRule> lhs_rules(std::string_view text);

}  // namespace weft::policy
