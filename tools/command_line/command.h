// The description of a command: its options, examples and subcommands. The parser, the help, the completion and the man
// page are all made from it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace weft::tools {

/// What an option's value is stored in. A `bool` makes the option a switch, which needs no value. A vector takes
/// several values. A function gets each value as it was written, "true" for a switch alone.
using OptionTarget =
    std::variant<bool*, int*, std::int64_t*, std::uint64_t*, double*, std::string*, std::vector<std::string>*,
                 std::vector<int>*, std::function<void(const std::string&)>>;

/// The number of values that an option takes.
enum class Arity : std::uint8_t {
  none,  // a switch: it is true; "=false" and "--no-" before its name make it false
  one,   // the last one counts
  each,  // one each time that it is given, and all count: --set a=1 --set b=2
  many   // all the words up to the next flag: --policies serial program
};

/// The files that a value names, for completion.
enum class Paths : std::uint8_t { none, files, folders };

struct CommandOption {
  std::string names;  // "-o,--output"; without a dash it is an argument, which is given by its place
  OptionTarget target;
  std::string value = {};         // the word for its value in help texts: "FILE"
  std::string help = {};          // what it does, without a full stop
  std::string default_text = {};  // "": the target's value, when the option is added
  std::string group = {};         // the heading that it has in the long help; "": it is one of the command's own
  std::vector<std::string> choices = {};      // the only values that it may have
  std::vector<std::string> suggestions = {};  // other values that completion offers
  Paths paths = Paths::none;
  double least = -9e18, most = 9e18;  // of a number
  Arity arity = Arity::one;           // add() sets it by the target's type; of a vector, unless it is `each`
  bool required = false;
  bool common = false;  // shown in the short help too, which has all of a command's own options

  bool is_argument() const { return !names.starts_with('-'); }
  bool is_switch() const { return arity == Arity::none; }
  /// "-o" and "--output".
  std::vector<std::string> flags() const;
  /// The name in messages: "--output", or an argument's name.
  std::string name() const;
};

struct Example {
  std::string line;          // can be pasted into a shell
  std::string comment = {};  // what it does, if that isn't plain
};

struct Command {
  std::string name;              // "train"
  std::string summary;           // one line without a full stop
  std::string heading = {};      // of the commands that it is listed with
  std::string description = {};  // more lines, for the long help
  std::vector<Example> examples = {};
  std::vector<CommandOption> options = {};
  std::vector<Command> subcommands = {};
  /// Runs the parsed command; returns the exit code. UserError means exit code 2, any other exception 3.
  std::function<int()> run = {};

  void add(CommandOption option);
};

/// The command of a name, nullptr if there is none.
const Command* find_command(const std::vector<Command>& commands, std::string_view name);

/// The option with a flag, nullptr if the command has none.
const CommandOption* find_option(const Command& command, std::string_view flag);

/// The first clause of a help text, for places with little room.
std::string first_clause(std::string_view help);

}  // namespace weft::tools
