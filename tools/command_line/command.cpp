#include "tools/command_line/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/overloaded.h"

namespace weft::tools {
namespace {

Arity arity_of(const CommandOption& option) {
  const Arity several = option.arity == Arity::each ? Arity::each : Arity::many;
  return std::visit(Overloaded{[](bool*) { return Arity::none; }, [&](std::vector<std::string>*) { return several; },
                               [&](std::vector<int>*) { return several; }, [&](const auto&) { return option.arity; }},
                    option.target);
}

std::string value_text(const OptionTarget& target) {
  return std::visit(
      Overloaded{[](const bool*) { return std::string(); },
                 [](const std::function<void(const std::string&)>&) { return std::string(); },
                 [](const std::vector<std::string>* values) { return fmt::format("{}", fmt::join(*values, " ")); },
                 [](const std::vector<int>* values) { return fmt::format("{}", fmt::join(*values, " ")); },
                 [](const auto* value) { return fmt::format("{}", *value); }},
      target);
}

}  // namespace

std::vector<std::string> CommandOption::flags() const {
  std::vector<std::string> list;
  if (is_argument()) return list;
  for (std::string_view rest = names; !rest.empty();) {
    list.emplace_back(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(rest.size(), list.back().size() + 1));
  }
  return list;
}

std::string CommandOption::name() const {
  return is_argument() ? names : flags().back();
}

void Command::add(CommandOption option) {
  option.arity = arity_of(option);
  if (std::holds_alternative<int*>(option.target) || std::holds_alternative<std::vector<int>*>(option.target)) {
    option.least = std::max<double>(option.least, std::numeric_limits<int>::min());
    option.most = std::min<double>(option.most, std::numeric_limits<int>::max());
  }
  if (option.default_text.empty()) option.default_text = value_text(option.target);
  options.push_back(std::move(option));
}

const Command* find_command(const std::vector<Command>& commands, std::string_view name) {
  const auto found = std::ranges::find(commands, name, &Command::name);
  return found == commands.end() ? nullptr : &*found;
}

const CommandOption* find_option(const Command& command, std::string_view flag) {
  const auto found = std::ranges::find_if(command.options, [&](const CommandOption& option) {
    const std::vector<std::string> flags = option.flags();
    return std::ranges::find(flags, flag) != flags.end();
  });
  return found == command.options.end() ? nullptr : &*found;
}

std::string first_clause(std::string_view help) {
  return std::string(help.substr(0, std::min({help.find("; "), help.find(". "), help.size()})));
}

}  // namespace weft::tools
