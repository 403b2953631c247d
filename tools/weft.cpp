// The command `weft`: parses the command line, runs a subcommand, and turns errors into messages and exit codes
// (0: done, 2: input to fix, 3: a fault at run time).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "kernels/cpu/isa/kernel_choice.h"
#include "runtime/comm/mpi.h"
#include "tools/commands.h"
#include "tools/version.h"
#include "train/config/config.h"

namespace weft::tools {
namespace {

constexpr int kBadInput = 2, kFault = 3;

/// The words of the command line. --seq_len means --seq-len; the part after "=" stays as it is. `weft help train` means
/// `weft train --help`.
std::vector<std::string> arguments(int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  for (std::string& word : words) {
    if (!word.starts_with("--")) continue;
    const std::size_t end = std::min(word.find('='), word.size());
    std::replace(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  }
  return words;
}

std::vector<std::string> flag_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// "weft trace diff": with the commands that it belongs to.
std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? "weft" : full_name(*parent) + " " + command.get_name();
}

std::vector<std::string> command_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* sub : command.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  return names;
}

/// The first word is a command, before anything is made of the words after it.
void refuse_unknown_command(const CLI::App& root, const std::vector<std::string>& words) {
  if (words.empty() || words.front().starts_with('-')) return;
  const std::vector<std::string> known = command_names(root);
  if (std::find(known.begin(), known.end(), words.front()) != known.end()) return;
  const std::string nearest = nearest_name(words.front(), known);
  throw UserError(fmt::format("unknown command \"{}\"", words.front()), "one of " + join(known),
                  nearest.empty() ? "`weft --help` shows them" : fmt::format("did you mean {}?", nearest));
}

/// Refuses a flag or a word that `command` and its subcommands didn't take.
void refuse_extras(const CLI::App& command) {
  const std::vector<std::string> extras = command.remaining();
  if (extras.empty()) {
    for (const CLI::App* sub : command.get_subcommands()) refuse_extras(*sub);
    return;
  }
  const std::string called = full_name(command);
  // A flag first: the words after an unknown flag are its values.
  auto extra =
      std::find_if(extras.begin(), extras.end(), [](const std::string& e) { return e.size() > 1 && e[0] == '-'; });
  if (extra == extras.end()) extra = extras.begin();
  const bool is_flag = extra->starts_with('-');
  const std::vector<std::string> known = is_flag ? flag_names(command) : command_names(command);
  const std::string flag = extra->substr(0, extra->find('='));
  const std::string successor =
      is_flag ? "--" + train::key_in_place_of(flag.substr(std::min<std::size_t>(2, flag.size()))) : "";
  const bool renamed = std::find(known.begin(), known.end(), successor) != known.end();
  const std::string nearest = renamed ? successor : nearest_name(flag, known);
  throw UserError(is_flag ? fmt::format("{}: unknown flag {}", called, *extra)
                          : fmt::format("{}: unexpected argument \"{}\"", called, *extra),
                  "",
                  nearest.empty() ? fmt::format("`{} --help` lists what it takes", called)
                                  : fmt::format("did you mean {}?", nearest));
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
  std::vector<std::string> words = arguments(argc, argv);
  cpu::choose_kernels(take_isa(words));
  // Named as it was called, so that the commands that it tells can be typed where it isn't on PATH.
  CLI::App root("Trains transformers by compiling a whole step into a dependency graph of tasks.",
                argc > 0 ? argv[0] : "weft");
  root.set_version_flag("--version", version_text());
  std::string isa;  // taken above; the parser only tells of it
  root.add_option("--isa", isa,
                  "level of the CPU's instructions that kernels use, before or after the command: " +
                      join(cpu::built_levels()) + "; default: the highest that this CPU has")
      ->type_name("LEVEL");
  root.get_formatter()->column_width(44);
  root.allow_extras();
  root.require_subcommand(0, 1);  // the words after a command are its own, whatever they are
  root.footer(
      "Examples:\n"
      "  weft train --model tiny --ranks 2            train a small model on two ranks of this machine\n"
      "  weft train --model tiny --dump-config        print a configuration file to start from\n"
      "  weft doctor                                  see what this machine offers\n"
      "`weft COMMAND --help` shows a command's flags and examples.");
  std::vector<std::pair<CLI::App*, Command>> commands;
  for (const auto add :
       {add_train, add_eval, add_generate, add_export, add_graph, add_timeline, add_plan, add_diff, add_memory,
        add_simulate, add_compare, add_explain, add_report, add_trace, add_profile, add_tune, add_doctor}) {
    Command command = add(root);
    CLI::App* sub = root.get_subcommands([](const CLI::App*) { return true; }).back();
    sub->allow_extras();
    commands.emplace_back(sub, std::move(command));
  }
  refuse_unknown_command(root, words);
  std::reverse(words.begin(), words.end());  // CLI11 takes the last one first
  try {
    root.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return root.exit(error);  // --help and --version
    throw UserError(error.what(), "", "`weft --help` and `weft COMMAND --help` show what is accepted");
  }
  refuse_extras(root);
  for (const auto& [sub, command] : commands) {
    if (sub->parsed()) return command();
  }
  tell(root.help());
  return kBadInput;
}

/// Says an error. Under a launcher all ranks mostly refuse the same input. The first rank says so at once and ends, and
/// the launcher ends the others while they wait here. An error that only a later rank finds is said after the wait.
void report(const std::exception& error) {
  if (comm::launched_as_later_rank()) std::this_thread::sleep_for(std::chrono::seconds(3));
  Log(LogTopic::run).error("{}", error.what());
}

int run_and_report(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const UserError& error) {
    report(error);
    return kBadInput;
  } catch (const std::exception& error) {
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
  return weft::tools::exit_code(weft::tools::run_and_report(argc, argv));
}
