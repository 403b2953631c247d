// Runs the built `weft` as a user does and keeps what it prints and its exit code.
#pragma once

#include <string>
#include <vector>

namespace weft {

struct CommandResult {
  int exit_code = -1;  // -1: ended by a signal
  std::string output;  // standard output
  std::string errors;  // standard error
};

/// Runs `weft` with `arguments` in `folder`; standard input is empty.
CommandResult run_weft(const std::vector<std::string>& arguments, const std::string& folder = ".");

}  // namespace weft
