// The manual page, made from the description of `weft`.
#pragma once

#include <string>

#include "tools/command_line/command.h"

namespace weft::tools {

/// In roff, for `man -l`. `version`: "weft 0.1.0".
std::string man_page(const Command& root, const std::string& version);

}  // namespace weft::tools
