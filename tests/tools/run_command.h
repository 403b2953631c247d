// Runs the built `weft` as a user does and keeps what it prints and its exit code.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace weft {

struct CommandResult {
  int exit_code = -1;  // -1: ended by a signal
  std::string output;  // standard output
  std::string errors;  // standard error
};

/// A process of its own, from its start until it is waited for; standard input is empty. One that nobody waited for is
/// killed.
///
///   Command command({WEFT_EXECUTABLE, "train"}, folder);
///   kill(command.pid(), SIGTERM);
///   const CommandResult result = command.wait();
class Command {
 public:
  /// words[0] is the program's path.
  Command(std::vector<std::string> words, const std::string& folder);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  pid_t pid() const { return pid_; }
  /// False from its end on; then wait() returns at once.
  bool running();
  CommandResult wait();

 private:
  using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

  // Files instead of pipes: nothing has to be read while the command runs.
  File output_, errors_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
};

/// Runs `weft` with `arguments` in `folder`.
CommandResult run_weft(const std::vector<std::string>& arguments, const std::string& folder = ".");

/// The words that start `weft` with `arguments` as `ranks` MPI processes of this machine.
std::vector<std::string> mpi_words(int ranks, const std::vector<std::string>& arguments);

}  // namespace weft
