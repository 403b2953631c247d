// The command `weft`: parses the command line, runs a subcommand, and turns errors into messages and exit codes
// (0: done, 2: input to fix, 3: a fault at run time).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "runtime/comm/mpi.h"
#include "tools/commands.h"
#include "tools/version.h"

namespace weft {
namespace {

constexpr int kBadInput = 2, kFault = 3;

/// --seq_len means --seq-len; what stands behind "=" stays as it is. Last argument first, as CLI11 parses vectors.
std::vector<std::string> arguments(int argc, char** argv) {
  std::vector<std::string> list;
  for (int i = argc - 1; i > 0; --i) {
    std::string argument = argv[i];
    if (argument.starts_with("--")) {
      const std::size_t end = std::min(argument.find('='), argument.size());
      std::replace(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
    }
    list.push_back(std::move(argument));
  }
  return list;
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

/// Refuses what `command` didn't take: a flag or a word.
void refuse_extras(const CLI::App& command) {
  for (const CLI::App* sub : command.get_subcommands()) refuse_extras(*sub);
  const std::vector<std::string> extras = command.remaining();
  if (extras.empty()) return;
  const bool root = command.get_parent() == nullptr;
  const std::string called = full_name(command);
  // A flag first: the words behind an unknown flag are its values.
  auto extra =
      std::find_if(extras.begin(), extras.end(), [](const std::string& e) { return e.size() > 1 && e[0] == '-'; });
  if (extra == extras.end() || (root && extras.front()[0] != '-')) extra = extras.begin();
  const bool is_flag = extra->starts_with('-');
  std::vector<std::string> known;
  if (is_flag) {
    known = flag_names(command);
  } else {
    for (const CLI::App* sub : command.get_subcommands([](const CLI::App*) { return true; })) {
      known.push_back(sub->get_name());
    }
  }
  const std::string nearest = nearest_name(extra->substr(0, extra->find('=')), known);
  std::string found = fmt::format("{}: unexpected argument \"{}\"", called, *extra);
  if (is_flag) found = fmt::format("{}: unknown flag {}", called, *extra);
  if (!is_flag && root) found = fmt::format("unknown command \"{}\"", *extra);
  throw UserError(found, !is_flag && root ? "one of " + join(known) : "",
                  nearest.empty() ? fmt::format("`{} --help` lists what it takes", called)
                                  : fmt::format("did you mean {}?", nearest));
}

int run(int argc, char** argv) {
  // Named as it was called, so that the commands that it tells can be typed where it isn't on PATH.
  CLI::App root("Trains transformers by compiling a whole step into a dependency graph of tasks.",
                argc > 0 ? argv[0] : "weft");
  root.set_version_flag("--version", version_text());
  root.get_formatter()->column_width(44);
  root.allow_extras();
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
  try {
    root.parse(arguments(argc, argv));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return root.exit(error);  // --help and --version
    throw UserError(error.what(), "", "`weft --help` and `weft COMMAND --help` show what is accepted");
  }
  for (const auto& [sub, command] : commands) {
    if (!sub->parsed()) continue;
    refuse_extras(*sub);
    return command();
  }
  refuse_extras(root);
  say(stderr, "{}", root.help());
  return kBadInput;
}

/// What all of a launcher's ranks refuse alike, the first one says: it ends before the others have waited, and the
/// launcher ends them. What only another rank finds is said all the same.
void report(const std::exception& error) {
  if (launched_as_later_rank()) std::this_thread::sleep_for(std::chrono::seconds(3));
  say(stderr, "weft: error: {}\n", error.what());
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  try {
    return weft::run(argc, argv);
  } catch (const weft::UserError& error) {
    weft::report(error);
    return weft::kBadInput;
  } catch (const std::exception& error) {
    weft::report(error);
    return weft::kFault;
  }
}
