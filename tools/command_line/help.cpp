#include "tools/command_line/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "tools/command_line/parse.h"

namespace weft::tools {
namespace {

constexpr std::size_t kIndent = 2, kGap = 2, kWidestLeft = 26;
constexpr std::size_t kFewExamples = 3;

std::string upper_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

/// Rows of two columns: an option and what it does. The right column begins at the same place in all tables of a help
/// text; a left text that is too wide has a line of its own.
class Table {
 public:
  explicit Table(std::size_t columns, std::size_t widest_left = kWidestLeft)
      : columns_(columns), left_(std::min(widest_left, columns / 3)) {}

  std::string row(const std::string& left, std::string_view right) const {
    const std::size_t from = kIndent + left_ + kGap;
    std::string text = std::string(kIndent, ' ') + left;
    bool begun = text_width(left) > left_;  // the left text fills its line
    if (begun) text += '\n';
    for (const std::string& line : wrap(right, columns_ - std::min(columns_ - 1, from))) {
      text += std::string(begun ? from : from - text_width(text), ' ') + line + '\n';
      begun = true;
    }
    if (!text.ends_with('\n')) text += '\n';
    return text;
  }

 private:
  std::size_t columns_, left_;
};

std::string paragraphs(std::string_view text, std::size_t columns) {
  std::string lines;
  for (const std::string& line : wrap(text, columns)) lines += line + '\n';
  return lines;
}

std::string with_default(const CommandOption& option, std::string help) {
  if (option.default_text.empty()) return help;
  return fmt::format("{} [{}]", help, option.default_text);
}

/// The options under a heading, "" if there are none.
std::string section(const std::string& heading, const std::vector<const CommandOption*>& options, const Table& table,
                    bool whole) {
  std::string text;
  for (const CommandOption* option : options) {
    text += table.row(option_text(*option), with_default(*option, whole ? option->help : first_clause(option->help)));
  }
  return text.empty() ? "" : fmt::format("\n{}:\n{}", heading, text);
}

template <class Predicate>
std::vector<const CommandOption*> chosen(const Command& command, const Predicate& wanted) {
  std::vector<const CommandOption*> options;
  for (const CommandOption& option : command.options) {
    if (std::invoke(wanted, option)) options.push_back(&option);
  }
  return options;
}

/// A shell's line in lines that it reads as one: none is broken in quotes.
std::vector<std::string> shell_lines(std::string line, std::size_t columns) {
  constexpr char kKept = '\x01';  // in place of a space that stays
  char quote = 0;
  for (char& c : line) {
    if (c == ' ' && quote != 0) c = kKept;
    if (c != '\'' && c != '"') continue;
    quote = quote == 0 ? c : quote == c ? char(0) : quote;
  }
  std::vector<std::string> lines = wrap(line, columns);
  for (std::string& part : lines) std::ranges::replace(part, kKept, ' ');
  return lines;
}

std::string example_text(const Example& example, std::size_t columns) {
  constexpr std::size_t kMore = 4;
  const std::vector<std::string> lines =
      shell_lines(example.line, columns - std::min(columns - 1, kIndent + kMore + std::string_view(" \\").size()));
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    text += std::string(i == 0 ? kIndent : kIndent + kMore, ' ') + lines[i] + (i + 1 < lines.size() ? " \\\n" : "\n");
  }
  if (lines.size() == 1 && kIndent + text_width(example.line) <= columns) {
    text = std::string(kIndent, ' ') + example.line + '\n';
  }
  for (const std::string& line : wrap(example.comment, columns - std::min(columns - 1, kIndent + kMore + 2))) {
    text += std::string(kIndent + kMore, ' ') + "# " + line + '\n';
  }
  return text;
}

std::string examples_of(const Command& command, std::size_t most, std::size_t columns) {
  std::string text;
  for (std::size_t i = 0; i < std::min(most, command.examples.size()); ++i) {
    text += example_text(command.examples[i], columns);
  }
  return text.empty() ? "" : "\nExamples:\n" + text;
}

/// Subcommands under their headings.
std::string commands_of(const Command& command, std::size_t columns) {
  std::size_t widest = 0;
  for (const Command& sub : command.subcommands) widest = std::max(widest, sub.name.size());
  const Table table(columns, widest);
  std::string text;
  const std::string* heading = nullptr;
  for (const Command& sub : command.subcommands) {
    if (heading == nullptr || *heading != sub.heading) {
      text += fmt::format("\n{}:\n", sub.heading.empty() ? "Commands" : sub.heading);
      heading = &sub.heading;
    }
    text += table.row(sub.name, sub.summary);
  }
  return text;
}

std::string opening(const std::vector<const Command*>& path, std::size_t columns) {
  std::string text = paragraphs(fmt::format("{}: {}", full_name(path), path.back()->summary), columns);
  return text + "\n" + paragraphs("Usage: " + usage_of(path), columns);
}

CommandOption own_option(const char* names, const char* help) {
  return {.names = names, .target = static_cast<bool*>(nullptr), .help = help, .arity = Arity::none};
}

constexpr const char* kSwitchNote = "A flag without a value is true; --no-FLAG and --FLAG=false make it false.";

}  // namespace

std::string option_text(const CommandOption& option) {
  std::string text;
  for (const std::string& flag : option.flags()) text += (text.empty() ? "" : ", ") + flag;
  if (option.is_argument()) text = upper_case(option.names);
  const bool only_one_value = option.is_switch() || option.value.empty();
  if (!only_one_value) text += " " + option.value;
  if (option.arity == Arity::many) text += " ...";
  return text;
}

std::vector<std::string> option_groups(const Command& command) {
  std::vector<std::string> groups;
  for (const CommandOption& option : command.options) {
    if (!option.group.empty() && std::ranges::find(groups, option.group) == groups.end()) {
      groups.push_back(option.group);
    }
  }
  return groups;
}

std::string usage_of(const std::vector<const Command*>& path) {
  const Command& command = *path.back();
  std::string text = full_name(path);
  if (!command.subcommands.empty()) return text + " COMMAND [options]";
  for (const CommandOption& option : command.options) {
    if (!option.is_argument()) continue;
    const std::string name = upper_case(option.names) + (option.arity == Arity::many ? "..." : "");
    text += option.required ? " " + name : " [" + name + "]";
  }
  for (const CommandOption& option : command.options) {
    if (!option.is_argument() && option.required) text += fmt::format(" {} {}", option.name(), option.value);
  }
  return text + " [options]";
}

std::string short_help(const std::vector<const Command*>& path, std::size_t columns) {
  const Command& command = *path.back();
  const Table table(columns);
  std::string text = opening(path, columns);
  text += commands_of(command, columns);
  text += section("Arguments", chosen(command, &CommandOption::is_argument), table, false);
  text +=
      section("Options", chosen(command, [](const CommandOption& o) { return !o.is_argument() && o.group.empty(); }),
              table, false);
  text += section("Most used keys of the configuration",
                  chosen(command, [](const CommandOption& o) { return !o.group.empty() && o.common; }), table, false);
  std::string groups;
  for (const std::string& group : option_groups(command)) groups += (groups.empty() ? "" : ", ") + group;
  if (!groups.empty()) text += "\n" + paragraphs("More keys: " + groups + ".", columns);
  text += examples_of(command, kFewExamples, columns);
  const std::string name = full_name(path);
  return text + "\n" +
         paragraphs(path.size() == 1
                        ? "`weft COMMAND -h` is a command's short help, `weft COMMAND --help` its long one."
                        : fmt::format("`{} --help` shows all options.", name),
                    columns);
}

std::string long_help(const std::vector<const Command*>& path, std::size_t columns) {
  const Command& command = *path.back();
  const Table table(columns);
  std::string text = opening(path, columns);
  if (!command.description.empty()) text += "\n" + paragraphs(command.description, columns);
  text += commands_of(command, columns);
  text += section("Arguments", chosen(command, &CommandOption::is_argument), table, true);
  std::vector<const CommandOption*> own =
      chosen(command, [](const CommandOption& o) { return !o.is_argument() && o.group.empty(); });
  const CommandOption version = own_option("--version", "print the version, the compiler and the build type");
  const CommandOption help =
      own_option("-h,--help", path.back()->subcommands.empty() ? "-h: the most used options; --help: all of them"
                                                               : "-h: this text in short");
  if (path.size() == 1) own.push_back(&version);
  own.push_back(&help);
  text += section("Options", own, table, true);
  for (const std::string& group : option_groups(command)) {
    text += section(group, chosen(command, [&](const CommandOption& o) { return o.group == group; }), table, true);
  }
  if (std::ranges::any_of(command.options, &CommandOption::is_switch)) text += "\n" + paragraphs(kSwitchNote, columns);
  return text + examples_of(command, command.examples.size(), columns);
}

namespace {

/// A text for roff: its own signs escaped, other characters than ASCII by their code.
std::string roff(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const Utf8Character character = first_character(text);
    const char c = text.front();
    if (character.length > 1) {
      escaped += fmt::format("\\[u{:04X}]", character.code);
    } else if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else if (c == '\'') {
      escaped += "\\(aq";
    } else {
      escaped += c;
    }
    text.remove_prefix(std::max<std::size_t>(1, character.length));
  }
  return escaped.starts_with('.') ? "\\&" + escaped : escaped;
}

std::string paragraph(std::string_view text) {
  return text.empty() ? "" : ".PP\n" + roff(text) + "\n";
}

std::string item(const CommandOption& option) {
  const std::string help =
      option.default_text.empty() ? option.help : fmt::format("{} [{}]", option.help, option.default_text);
  return fmt::format(".TP\n.B {}\n{}\n", roff(option_text(option)), roff(help));
}

std::string roff_examples(const Command& command) {
  if (command.examples.empty()) return "";
  std::string text = ".PP\nExamples:\n.PP\n.RS 4\n.nf\n";
  for (const Example& example : command.examples) {
    if (!example.comment.empty()) text += roff("# " + example.comment) + "\n";
    text += roff(example.line) + "\n";
  }
  return text + ".fi\n.RE\n";
}

/// A command and those below it. Keys of the configuration are listed once, at the end of the page.
std::string command_text(std::vector<const Command*> path, const Command& command) {
  path.push_back(&command);
  std::string text = fmt::format(".SS \"{}\"\n{}\n", roff(full_name(path)), roff(command.summary + "."));
  text += fmt::format(".PP\n.B {}\n", roff(usage_of(path)));
  text += paragraph(command.description);
  for (const CommandOption& option : command.options) {
    if (option.group.empty()) text += item(option);
  }
  std::string keys;
  for (const CommandOption& option : command.options) {
    if (!option.group.empty()) keys += (keys.empty() ? "" : ", ") + option.name();
  }
  if (!keys.empty()) text += paragraph("Keys of the configuration: " + keys + ".");
  text += roff_examples(command);
  for (const Command& sub : command.subcommands) text += command_text(path, sub);
  return text;
}

/// The keys of a command that reads all of them.
std::string keys_text(const Command& reader) {
  std::string text;
  for (const std::string& group : option_groups(reader)) {
    text += fmt::format(".SS \"{}\"\n", roff(group));
    for (const CommandOption& option : reader.options) {
      if (option.group == group) text += item(option);
    }
  }
  return text;
}

}  // namespace

std::string man_page(const Command& root, const std::string& version) {
  std::string text = fmt::format(".TH WEFT 1 \"\" \"{}\" \"User Commands\"\n.ad l\n.nh\n", roff(version));
  text += fmt::format(".SH NAME\n{} \\- {}\n", root.name, roff(root.summary));
  text += ".SH SYNOPSIS\n.B weft\n.I command\n.RI [ options ]\n.br\n.B weft \\-\\-version\n";
  text += ".SH DESCRIPTION\n" + roff(root.description) + "\n" + roff_examples(root);
  text += ".SH COMMANDS\n";
  for (const Command& command : root.subcommands) text += command_text({&root}, command);
  text += ".SH \"KEYS OF THE CONFIGURATION\"\n";
  text += roff("Each key is a line of a TOML file and a flag; flags override the file.") + "\n";
  const auto reader = std::ranges::max_element(root.subcommands, {},
                                               [](const Command& command) { return option_groups(command).size(); });
  if (reader != root.subcommands.end()) text += keys_text(*reader);
  text += ".SH \"EXIT STATUS\"\n.TP\n.B 0\nDone.\n.TP\n.B 2\nInput to fix; nothing was begun.\n";
  text += ".TP\n.B 3\nA fault at run time.\n";
  return text;
}

}  // namespace weft::tools
