// Completion scripts for shells, made from the description of `weft`.
#pragma once

#include <string>

#include "tools/command_line/command.h"

namespace weft::tools {

/// For bash: `source <(weft completion bash)`.
std::string bash_completion(const Command& root);

/// For zsh: a file `_weft` in a folder of $fpath.
std::string zsh_completion(const Command& root);

}  // namespace weft::tools
