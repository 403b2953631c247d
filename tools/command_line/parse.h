// The words of a command line → the command that they name, with its options' targets filled in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/command_line/command.h"

namespace weft::tools {

/// What a command line asks for.
struct CommandCall {
  enum class Wants : std::uint8_t { run, short_help, long_help, version };
  Wants wants = Wants::run;
  std::vector<const Command*> path;  // from `weft` to the command that was named
};

/// `words` are those after the program's name. --seq_len means --seq-len; `help train` means `train --help`. Throws
/// UserError on a word that nothing takes (naming the nearest one, or the commands that take it), on a missing or wrong
/// value, and on a missing argument.
CommandCall parse_command_line(const Command& root, std::vector<std::string> words);

/// "weft trace diff".
std::string full_name(const std::vector<const Command*>& path);

}  // namespace weft::tools
