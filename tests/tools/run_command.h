// Runs the built `weft` as a user does and keeps its output and its exit code.
#pragma once

#include <string>
#include <vector>

#include "tests/faults/child_process.h"

namespace weft::testing {

struct CommandResult {
  int exit_code = -1;  // -1: ended by a signal, or not within ten minutes
  std::string output;  // standard output
  std::string errors;  // standard error
};

/// Waits for the end.
CommandResult result_of(ChildProcess& child);
/// The result itself, where a test can't go on unless the command succeeds: else throws what the command printed.
CommandResult succeeded(CommandResult result);

/// words[0] is the program's path.
CommandResult run(const std::vector<std::string>& words, const std::string& folder = ".");

/// Runs `weft` with `arguments` in `folder`.
CommandResult run_weft(const std::vector<std::string>& arguments, const std::string& folder = ".");

/// The words of a line without quotes.
std::vector<std::string> words_in(const std::string& line);

/// The words that start `weft` with `arguments` as `ranks` MPI processes of this machine.
std::vector<std::string> mpi_words(int ranks, const std::vector<std::string>& arguments);

}  // namespace weft::testing
