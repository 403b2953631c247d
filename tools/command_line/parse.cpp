// The only file that includes CLI11, which takes seconds to compile. CLI11 sorts the words into options; the values are
// read and checked here.
#include "tools/command_line/parse.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/overloaded.h"
#include "base/units.h"
#include "tools/command_line/config_readers.h"
#include "train/config/config.h"
#include "train/config/other_names.h"

namespace weft::tools {
namespace {

constexpr std::string_view kHelp = "--help", kShortHelp = "-h", kVersion = "--version", kNo = "--no-";

/// A command with its counterpart in CLI11.
struct Parser {
  const Command* command = nullptr;
  CLI::App* app = nullptr;
  std::vector<CLI::Option*> options;  // as command->options
  std::vector<Parser> subcommands;
};

CLI::Option* declare(CLI::App& app, const CommandOption& option) {
  CLI::Option* made = option.is_switch() ? app.add_flag(option.names) : app.add_option(option.names);
  made->required(option.required);
  switch (option.arity) {
    case Arity::none:
      break;
    case Arity::one:
      made->expected(1)->take_last();
      break;
    case Arity::each:
    case Arity::many:
      made->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args(option.arity == Arity::many);
      break;
  }
  return made;
}

Parser declare(CLI::App& app, const Command& command) {
  Parser parser{&command, &app, {}, {}};
  app.allow_extras();
  app.require_subcommand(0, 1);  // the words after a command are its own, whatever they are
  for (const CommandOption& option : command.options) parser.options.push_back(declare(app, option));
  for (const Command& sub : command.subcommands) {
    parser.subcommands.push_back(declare(*app.add_subcommand(sub.name), sub));
  }
  return parser;
}

// -- the words before CLI11 sees them ---------------------------------------------------------------------------------

/// The commands that the first words name.
std::vector<const Command*> path_of(const Command& root, std::span<const std::string> words) {
  std::vector<const Command*> path{&root};
  for (const std::string& word : words) {
    const Command* sub = find_command(path.back()->subcommands, word);
    if (sub == nullptr) break;
    path.push_back(sub);
  }
  return path;
}

void replace_underscores(std::string& word) {
  if (!word.starts_with("--")) return;
  const std::size_t end = std::min(word.find('='), word.size());
  std::replace(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
}

bool is_switch_word(std::string_view word) {
  constexpr std::array<std::string_view, 4> kWords = {"true", "false", "on", "off"};
  return std::ranges::find(kWords, word) != kWords.end();
}

/// --no-save → --save=false, and "--save false" → "--save=false": a switch takes no other word than these.
std::vector<std::string> with_switch_values(const Command& command, const std::vector<std::string>& words) {
  const auto is_switch = [&](const std::string& flag) {
    const CommandOption* option = find_option(command, flag);
    return option != nullptr && option->is_switch();
  };
  std::vector<std::string> result;
  bool options = true;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    options = options && word != "--";
    const std::string denied = word.starts_with(kNo) ? "--" + word.substr(kNo.size()) : "";
    if (options && !denied.empty() && find_option(command, word) == nullptr && is_switch(denied)) {
      result.push_back(denied + "=false");
    } else if (options && i + 1 < words.size() && is_switch_word(words[i + 1]) && is_switch(word) &&
               word.starts_with("--")) {
      result.push_back(word + "=" + words[++i]);
    } else {
      result.push_back(word);
    }
  }
  return result;
}

// -- refusals ---------------------------------------------------------------------------------------------------------

std::vector<std::string> command_names(const Command& command) {
  std::vector<std::string> names;
  for (const Command& sub : command.subcommands) names.push_back(sub.name);
  return names;
}

std::vector<std::string> flag_names(const Command& command) {
  std::vector<std::string> names{std::string(kHelp)};
  for (const CommandOption& option : command.options) {
    for (const std::string& flag : option.flags()) {
      if (flag.starts_with("--")) names.push_back(flag);
    }
  }
  return names;
}

/// The first word is a command, before anything is made of the words after it.
void refuse_unknown_command(const Command& root, const std::vector<std::string>& words) {
  if (words.empty() || words.front().starts_with('-')) return;
  if (find_command(root.subcommands, words.front()) != nullptr) return;
  const std::vector<std::string> known = command_names(root);
  const std::string nearest = nearest_name(words.front(), known);
  throw UserError(fmt::format("unknown command \"{}\"", words.front()), "one of " + join(known),
                  nearest.empty() ? "`weft --help` shows them" : fmt::format("did you mean {}?", nearest));
}

/// The commands that have a flag: "train", "trace check".
std::vector<std::string> commands_with(const Command& command, std::string_view flag, const std::string& before = "") {
  std::vector<std::string> names;
  for (const Command& sub : command.subcommands) {
    if (find_option(sub, flag) != nullptr) names.push_back(before + sub.name);
    for (std::string& name : commands_with(sub, flag, before + sub.name + " ")) names.push_back(std::move(name));
  }
  return names;
}

/// Refuses a flag that only other commands have.
void refuse_flag_of_others(const std::vector<const Command*>& path, const std::string& flag) {
  const std::string called = full_name(path);
  const std::string key = flag.starts_with("--") ? flag.substr(2) : "";
  if (is_config_key(key)) throw key_not_read(called, flag, key);
  const std::vector<std::string> others = commands_with(*path.front(), flag);
  if (others.empty()) return;
  throw UserError(fmt::format("{} has no flag {}", called, flag), "",
                  fmt::format("leave it out: it belongs to {}", join(others)));
}

/// "--global-batch or --micro-batch" for the name that another program gives them; "" where `known` has none of them.
std::string flags_meant_by(std::string_view flag, const std::vector<std::string>& known) {
  std::vector<std::string> names;
  for (const std::string& each : known) names.push_back(each.substr(std::min<std::size_t>(2, each.size())));
  std::vector<std::string> meant =
      train::meant_by(flag.substr(std::min(flag.find_first_not_of('-'), flag.size())), names);
  for (std::string& name : meant) name.insert(0, "--");
  return join(meant, " or ");
}

/// Refuses a flag that ends the line or stands before another flag, and needs a value.
void refuse_missing_value(const Command& command, const std::vector<std::string>& words) {
  constexpr std::size_t kFew = 3;
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const CommandOption* option = find_option(command, words[i]);
    if (option == nullptr || option->is_switch()) continue;
    if (i + 1 < words.size() && words[i + 1] != "--" && find_option(command, words[i + 1]) == nullptr) continue;
    std::vector<std::string> values = option->choices.empty() ? option->suggestions : option->choices;
    if (option->choices.empty() && !option->value.empty()) values.insert(values.begin(), option->value);
    values.resize(std::min(values.size(), kFew));
    for (std::string& value : values) value = fmt::format("{} {}", words[i], value);
    throw UserError(fmt::format("{} has no value", words[i]), option->value, join(values, ", or "));
  }
}

/// Refuses a flag or a word that `command` didn't take.
void refuse_extra(const std::vector<const Command*>& path, const std::vector<std::string>& extras) {
  const Command& command = *path.back();
  const std::string called = full_name(path);
  // A flag first: the words after an unknown flag are its values.
  auto extra =
      std::find_if(extras.begin(), extras.end(), [](const std::string& e) { return e.size() > 1 && e[0] == '-'; });
  if (extra == extras.end()) extra = extras.begin();
  const bool is_flag = extra->starts_with('-');
  std::vector<std::string> known = is_flag ? flag_names(command) : command_names(command);
  if (is_flag && path.size() == 1) known.emplace_back(kVersion);
  const std::string flag = extra->substr(0, extra->find('='));
  std::string nearest = is_flag ? flags_meant_by(flag, known) : "";
  if (is_flag && nearest.empty()) refuse_flag_of_others(path, flag);
  if (nearest.empty()) nearest = nearest_name(flag, known);
  throw UserError(is_flag ? fmt::format("{}: unknown flag {}", called, *extra)
                          : fmt::format("{}: unexpected argument \"{}\"", called, *extra),
                  "",
                  nearest.empty() ? fmt::format("`{} --help` lists what it takes", called)
                                  : fmt::format("did you mean {}?", nearest));
}

// -- values -----------------------------------------------------------------------------------------------------------

bool switch_value(const std::string& value, const std::string& name) {
  if (value == "true" || value == "on") return true;
  if (value == "false" || value == "off") return false;
  throw UserError(fmt::format("{} = \"{}\" is not a truth value", name, value), "true, false, on or off",
                  fmt::format("{0} alone is true, --no-{1} is false", name, name.substr(2)));
}

void refuse_other_choices(const CommandOption& option, const std::string& value) {
  if (option.choices.empty() || std::ranges::find(option.choices, value) != option.choices.end()) return;
  const std::string nearest = nearest_name(value, option.choices);
  throw UserError(fmt::format("{} = \"{}\" is unknown", option.name(), value), "one of " + join(option.choices),
                  nearest.empty() ? "choose one of these" : fmt::format("did you mean {}?", nearest));
}

std::int64_t integer_of(const CommandOption& option, std::string_view value) {
  return parse_number<std::int64_t>(value, option.name(), option.least, option.most);
}

/// Appends the integers of "0,3,5".
void append_integers(const CommandOption& option, std::string_view value, std::vector<int>& integers) {
  for (bool more = true; more;) {
    const std::string_view part = value.substr(0, value.find(','));
    more = part.size() < value.size();
    value.remove_prefix(std::min(value.size(), part.size() + 1));
    integers.push_back(static_cast<int>(integer_of(option, part)));
  }
}

void store(const CommandOption& option, const std::vector<std::string>& values) {
  const std::string& last = values.back();
  for (const std::string& value : values) refuse_other_choices(option, value);
  std::visit(
      Overloaded{
          [&](bool* target) { *target = switch_value(last, option.name()); },
          [&](int* target) { *target = static_cast<int>(integer_of(option, last)); },
          [&](std::int64_t* target) { *target = integer_of(option, last); },
          [&](std::uint64_t* target) { *target = static_cast<std::uint64_t>(integer_of(option, last)); },
          [&](double* target) { *target = parse_number<double>(last, option.name(), option.least, option.most); },
          [&](std::string* target) { *target = last; }, [&](std::vector<std::string>* target) { *target = values; },
          [&](std::vector<int>* target) {
            target->clear();
            for (const std::string& value : values) append_integers(option, value, *target);
          },
          [&](const std::function<void(const std::string&)>& target) {
            if (option.arity == Arity::one || option.is_switch()) return target(last);
            for (const std::string& value : values) target(value);
          }},
      option.target);
}

/// Stores the values of the commands that were named, from `weft` down; returns their path.
std::vector<const Command*> take(const Parser& parser, std::vector<const Command*> path) {
  path.push_back(parser.command);
  const std::vector<std::string> extras = parser.app->remaining();
  if (!extras.empty()) refuse_extra(path, extras);
  for (std::size_t i = 0; i < parser.options.size(); ++i) {
    if (parser.options[i]->count() > 0) store(parser.command->options[i], parser.options[i]->results());
  }
  for (const Parser& sub : parser.subcommands) {
    if (sub.app->parsed()) return take(sub, path);
  }
  return path;
}

}  // namespace

std::string full_name(const std::vector<const Command*>& path) {
  std::string name;
  for (const Command* command : path) name += (name.empty() ? "" : " ") + command->name;
  return name;
}

CommandCall parse_command_line(const Command& root, std::vector<std::string> words) {
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back(kHelp);
  }
  for (std::string& word : words) replace_underscores(word);
  refuse_unknown_command(root, words);
  const std::vector<const Command*> path = path_of(root, words);
  words = with_switch_values(*path.back(), words);
  refuse_missing_value(*path.back(), words);
  CLI::App app(root.summary, root.name);
  app.set_help_flag(std::string(kShortHelp));
  app.set_help_all_flag(std::string(kHelp));
  const CLI::Option* version = app.add_flag(std::string(kVersion));
  const Parser parser = declare(app, root);
  std::reverse(words.begin(), words.end());  // CLI11 takes the last one first
  try {
    app.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    return {CommandCall::Wants::short_help, path};
  } catch (const CLI::CallForAllHelp&) {
    return {CommandCall::Wants::long_help, path};
  } catch (const CLI::ParseError& error) {
    throw UserError(error.what(), "", fmt::format("`{} --help` shows what is accepted", full_name(path)));
  }
  const std::vector<const Command*> called = take(parser, {});
  if (called.size() > 1 && !called.back()->subcommands.empty()) {
    throw UserError(full_name(called) + ": nothing to do", "one of " + join(command_names(*called.back())),
                    fmt::format("`{} --help` has examples", full_name(called)));
  }
  return {version->count() > 0 ? CommandCall::Wants::version : CommandCall::Wants::run, called};
}

}  // namespace weft::tools
