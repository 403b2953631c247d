// The command `weft`: parses the command line, runs a subcommand, and turns errors into messages and exit codes
// (0: done, 2: input to fix, 3: a fault at run time).
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/status_line.h"
#include "kernels/cpu/isa/kernel_choice.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/help.h"
#include "tools/command_line/parse.h"
#include "tools/input/launch.h"
#include "tools/version.h"

namespace weft::tools {
namespace {

constexpr int kBadInput = 2, kFault = 3;

std::size_t columns() {
  return static_cast<std::size_t>(terminal_of(stdout).columns);
}

/// Takes --isa out of the words, before or after the command: it concerns the whole process, and decides before the
/// commands are made, since some of their defaults ask the kernels. "" without it.
std::string take_isa(std::vector<std::string>& words) {
  const auto flag = std::find_if(words.begin(), words.end(),
                                 [](const std::string& word) { return word == "--isa" || word.starts_with("--isa="); });
  if (flag == words.end()) return "";
  const bool joined = *flag != "--isa";
  const bool given = joined ? flag->size() > std::string_view("--isa=").size() : flag + 1 != words.end();
  if (!given) throw UserError("--isa without a level", "one of " + join(cpu::built_levels()), "");
  std::string level = joined ? flag->substr(flag->find('=') + 1) : *(flag + 1);
  words.erase(flag, flag + (joined ? 1 : 2));
  return level;
}

int run(int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  cpu::choose_kernels(take_isa(words));
  const Command root = describe_weft(argc > 0 ? argv[0] : "weft");
  const CommandCall call = parse_command_line(root, words);
  switch (call.wants) {
    case CommandCall::Wants::version:
      say("{}\n", version_text());
      return 0;
    case CommandCall::Wants::short_help:
      say("{}", short_help(call.path, columns()));
      return 0;
    case CommandCall::Wants::long_help:
      say("{}", long_help(call.path, columns()));
      return 0;
    case CommandCall::Wants::run:
      break;
  }
  if (call.path.size() > 1) return call.path.back()->run();
  tell(short_help(call.path, columns()));
  return kBadInput;
}

/// Says an error. Under a launcher all ranks mostly refuse the same input. The first rank says so at once and ends, and
/// the launcher ends the others while they wait here. An error that only a later rank finds is said after the wait.
void report(const std::exception& error) {
  if (launched_as_later_rank()) std::this_thread::sleep_for(std::chrono::seconds(3));
  Log(LogTopic::run).error("{}", error.what());
}

int run_and_report(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const UserError& error) {
    report(error);
    return kBadInput;
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return 0;  // results that couldn't be written: exit_code() says so
    report(error);
    return kFault;
  }
}

/// A command whose results were lost on their way out has failed. (A pipe that its reader has closed ends the process
/// by SIGPIPE, as it ends any program; only where that signal is ignored does a closed pipe come here.)
int exit_code(int of_command) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (of_command != 0 || (flushed && std::ferror(stdout) == 0)) return of_command;
  report(RuntimeFault(fmt::format("standard output can't be written{}{}", errno != 0 ? ": " : "",
                                  errno != 0 ? std::strerror(errno) : "")));
  return kFault;
}

}  // namespace
}  // namespace weft::tools

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond `ulimit -f` fails then, and its error names the file
  return weft::tools::exit_code(weft::tools::run_and_report(argc, argv));
}
