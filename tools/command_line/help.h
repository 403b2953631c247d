// Help texts for a terminal of a given width, and the manual page, made from the descriptions of commands.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/command_line/command.h"

namespace weft::tools {

/// The usage, the command's own options, the most used keys, the names of the other groups, and a few examples. `path`:
/// from `weft` to the command.
std::string short_help(const std::vector<const Command*>& path, std::size_t columns);

/// All that the command takes, group by group, and all examples at the end.
std::string long_help(const std::vector<const Command*>& path, std::size_t columns);

/// "weft train [CONFIG] [options]".
std::string usage_of(const std::vector<const Command*>& path);

/// "-o, --output FILE".
std::string option_text(const CommandOption& option);

/// The headings of a command's options in the order of the help, without "" for its own.
std::vector<std::string> option_groups(const Command& command);

/// The manual page of `weft` in roff, for `man -l`. `version`: "weft 0.1.0".
std::string man_page(const Command& root, const std::string& version);

}  // namespace weft::tools
