// Both scripts find out which command and which option the cursor is at, and then look in three tables: the commands
// below a command, its flags, and what follows an option. The tables are `case` statements that both shells read.
#include "tools/command_line/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>
#include <vector>

namespace weft::tools {
namespace {

/// A command with its full name: "weft trace diff".
struct NamedCommand {
  std::string name;
  const Command* command;
};

void list_commands(const Command& command, const std::string& name, std::vector<NamedCommand>& list) {
  list.push_back({name, &command});
  for (const Command& sub : command.subcommands) list_commands(sub, name + " " + sub.name, list);
}

std::vector<NamedCommand> all_commands(const Command& root) {
  std::vector<NamedCommand> list;
  list_commands(root, root.name, list);
  return list;
}

/// The assignments for an option that takes a value: what follows it.
std::string offer_of(const CommandOption& option) {
  std::vector<std::string> words = option.choices;
  words.insert(words.end(), option.suggestions.begin(), option.suggestions.end());
  constexpr const char* kPaths[] = {"", "files", "folders"};
  return fmt::format("takes={} offered=\"{}\" paths={}", option.arity == Arity::many ? "many" : "one",
                     fmt::join(words, " "), kPaths[static_cast<std::size_t>(option.paths)]);
}

/// Arms of `case "$at $option"`. An option that is the same in all commands that have it is named once.
std::string option_arms(const std::vector<NamedCommand>& commands) {
  std::map<std::string, std::map<std::string, std::string>> offers;  // by flag, then by command
  for (const auto& [name, command] : commands) {
    for (const CommandOption& option : command->options) {
      if (option.is_switch()) continue;
      for (const std::string& flag : option.flags()) offers[flag][name] = offer_of(option);
    }
  }
  std::map<std::string, std::vector<std::string>> patterns;  // by offer
  for (const auto& [flag, by_command] : offers) {
    std::set<std::string> different;
    for (const auto& [name, offer] : by_command) different.insert(offer);
    if (different.size() == 1) {
      patterns[*different.begin()].push_back(fmt::format("*\" {}\"", flag));
      continue;
    }
    for (const auto& [name, offer] : by_command) patterns[offer].push_back(fmt::format("\"{} {}\"", name, flag));
  }
  std::string arms;
  for (const auto& [offer, names] : patterns) arms += fmt::format("    {}) {} ;;\n", fmt::join(names, "|"), offer);
  return arms;
}

/// Arms of `case "$at"` for words that belong to no option: subcommands, or an argument's values.
std::string argument_arms(const std::vector<NamedCommand>& commands) {
  std::string arms;
  for (const auto& [name, command] : commands) {
    CommandOption argument{.names = "argument", .target = static_cast<std::string*>(nullptr)};
    for (const Command& sub : command->subcommands) argument.suggestions.push_back(sub.name);
    for (const CommandOption& option : command->options) {
      if (option.is_argument()) argument = option;
    }
    arms += fmt::format("    \"{}\") {} ;;\n", name, offer_of(argument));
  }
  return arms;
}

/// "weft train"|"weft trace"|"weft trace diff"
std::string command_pattern(const std::vector<NamedCommand>& commands) {
  std::vector<std::string> names;
  for (const NamedCommand& named : commands) {
    if (named.name.find(' ') != std::string::npos) names.push_back(fmt::format("\"{}\"", named.name));
  }
  return fmt::format("{}", fmt::join(names, "|"));
}

std::vector<std::string> flags_of(const NamedCommand& named) {
  std::vector<std::string> flags{"-h", "--help"};
  if (named.name.find(' ') == std::string::npos) flags.emplace_back("--version");
  for (const CommandOption& option : named.command->options) {
    for (const std::string& flag : option.flags()) flags.push_back(flag);
    if (option.is_switch()) flags.push_back("--no-" + option.name().substr(2));
  }
  return flags;
}

std::string single_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) c == '\'' ? quoted += "'\\''" : quoted += c;
  return quoted + "'";
}

/// "--steps:how many steps to train" for each flag, as zsh's _describe takes them.
std::string described_flags(const NamedCommand& named) {
  std::string items;
  for (const std::string& flag : flags_of(named)) {
    const CommandOption* option = find_option(*named.command, flag);
    items += " " + single_quoted(option == nullptr ? flag : flag + ":" + first_clause(option->help));
  }
  return items;
}

}  // namespace

std::string bash_completion(const Command& root) {
  const std::vector<NamedCommand> commands = all_commands(root);
  std::string flags;
  for (const NamedCommand& named : commands) {
    flags += fmt::format("      \"{}\") offered=\"{}\" ;;\n", named.name, fmt::join(flags_of(named), " "));
  }
  return fmt::format(R"(# Completion for bash, written by `weft completion bash`.
_weft() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} at=weft option="" used=0 takes="" offered="" paths="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at ${{COMP_WORDS[i]}}" in
    {}) at="$at ${{COMP_WORDS[i]}}" option="" ;;
    *)
      case "${{COMP_WORDS[i]}}" in
      =) ;;
      -*) option=${{COMP_WORDS[i]}} used=0 ;;
      *) used=1 ;;
      esac
      ;;
    esac
  done
  [[ $word == "=" ]] && word=""  # bash makes three words of --flag=value
  case "$at $option" in
{}  esac
  if [[ -z $takes || ( $takes == one && $used == 1 ) || ( $takes == many && $word == -* ) ]]; then
    offered="" paths=""
    if [[ $word == -* ]]; then
      case "$at" in
{}      esac
    else
      case "$at" in
{}      esac
    fi
  fi
  mapfile -t COMPREPLY < <(compgen -W "$offered" -- "$word")
  if [[ $paths == files ]]; then
    mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen -f -- "$word")
  elif [[ $paths == folders ]]; then
    mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen -d -- "$word")
  fi
  if [[ -n $paths ]]; then compopt -o filenames 2> /dev/null || true; fi
  return 0
}}
complete -F _weft weft
)",
                     command_pattern(commands), option_arms(commands), flags, argument_arms(commands));
}

std::string zsh_completion(const Command& root) {
  const std::vector<NamedCommand> commands = all_commands(root);
  std::string flags;
  for (const NamedCommand& named : commands) {
    flags += fmt::format("      \"{}\") described=({}) ;;\n", named.name, described_flags(named));
  }
  return fmt::format(R"(#compdef weft
# Completion for zsh, written by `weft completion zsh`.
_weft() {{
  local at=weft option="" used=0 takes="" offered="" paths="" word i
  local -a described
  for ((i = 2; i < CURRENT; i++)); do
    word=${{words[i]}}
    case "$at $word" in
    {}) at="$at $word" option="" ;;
    *)
      case "$word" in
      --*=*) option="" ;;
      -*) option=$word used=0 ;;
      *) used=1 ;;
      esac
      ;;
    esac
  done
  if [[ $PREFIX == --*=* ]]; then
    option=${{PREFIX%%=*}} used=0
    compset -P '*='
  fi
  case "$at $option" in
{}  esac
  if [[ -z $takes || ( $takes == one && $used == 1 ) || ( $takes == many && $PREFIX == -* ) ]]; then
    offered="" paths=""
    if [[ $PREFIX == -* ]]; then
      case "$at" in
{}      esac
      _describe -o flag described
      return
    fi
    case "$at" in
{}    esac
  fi
  [[ -n $offered ]] && compadd -- ${{=offered}}
  [[ $paths == files ]] && _files
  [[ $paths == folders ]] && _files -/
  return 0
}}
_weft "$@"
)",
                     command_pattern(commands), option_arms(commands), flags, argument_arms(commands));
}

}  // namespace weft::tools
