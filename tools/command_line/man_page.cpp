#include "tools/command_line/man_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "tools/command_line/help.h"
#include "tools/command_line/parse.h"

namespace weft::tools {
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

std::string examples_of(const Command& command) {
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
  text += examples_of(command);
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
  text += ".SH DESCRIPTION\n" + roff(root.description) + "\n" + examples_of(root);
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
