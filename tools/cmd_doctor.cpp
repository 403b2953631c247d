// `weft doctor`: what this machine offers and what is missing.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/printable.h"
#include "base/text/json_object.h"
#include "base/text/text_table.h"
#include "base/utf8.h"
#include "tools/command_line/commands.h"
#include "tools/machine_checks.h"
#include "tools/version.h"

namespace weft::tools {
namespace {

/// A line, whose note continues below itself on a terminal that is too narrow for it.
StyledText line_of(const MachineCheck& check, std::optional<std::size_t> width) {
  constexpr std::size_t kNote = 40, kLeast = 30;  // where notes begin, and the narrowest column of words
  StyledText text("  ");
  if (check.state == CheckState::ok) {
    text.add("+", Emphasis::good);
  } else {
    check.state == CheckState::failed ? text.add("!", Emphasis::error) : text.add("-");
  }
  const std::string begin = fmt::format(" {:<15} {:<19}", check.name, check.value);
  text.add(begin);
  if (check.note.empty()) return text.add("\n");
  if (!width) return text.add(" " + check.note + "\n");
  const bool beside = *width >= kNote + kLeast && text_width(begin) + 4 <= kNote;
  const std::size_t indent = *width >= kNote + kLeast ? kNote : 4;
  bool first = beside;
  if (!beside) text.add("\n");
  for (const std::string& line : wrap(check.note, std::max(kLeast, *width - std::min(*width, indent)))) {
    text.add((first ? std::string(indent - 3 - text_width(begin), ' ') : std::string(indent, ' ')) + line + "\n");
    first = false;
  }
  return text;
}

void print_text(const std::vector<MachineCheck>& checks, bool ok) {
  const std::optional<std::size_t> width = output_width();
  StyledText text(version_text() + "\n");
  std::string_view section;
  for (const MachineCheck& check : checks) {
    if (check.section != section) {
      section = check.section;
      text.add("\n").add(section, Emphasis::heading).add("\n");
    }
    text.add(line_of(check, width));
  }
  text.add(ok ? "\nReady to train on this machine's CPUs.\n"
              : "\nNot ready: what is marked with ! is needed. `tools/test` and `tools/quickstart` install Debian's "
                "packages.\n");
  say(stdout, text);
}

void print_json(const std::vector<MachineCheck>& checks, bool ok) {
  JsonArray list;
  for (const MachineCheck& check : checks) {
    list.add(JsonObject()
                 .add("section", check.section)
                 .add("name", check.name)
                 .add("value", check.value)
                 .add("state", to_string(check.state))
                 .add("note", check.note));
  }
  say("{}\n", indented_json(JsonObject().add("weft", version_text()).add("ready", ok).add("checks", list).text()));
}

int doctor(bool json) {
  const std::vector<MachineCheck> checks = check_machine();
  const bool ok = std::none_of(checks.begin(), checks.end(),
                               [](const MachineCheck& check) { return check.state == CheckState::failed; });
  json ? print_json(checks, ok) : print_text(checks, ok);
  return ok ? 0 : 3;
}

}  // namespace

Command describe_doctor() {
  Command command{"doctor", "report what this machine offers for training and what is missing"};
  const auto json = std::make_shared<bool>(false);
  command.add({.names = "--json", .target = json.get(), .help = "print the report as JSON"});
  command.description = "Exit code 3 if something that Weft needs doesn't work.";
  command.examples = {{"weft doctor"}, {"weft doctor --json | jq '.checks[] | select(.state != \"ok\")'"}};
  command.run = [json] { return doctor(*json); };
  return command;
}

}  // namespace weft::tools
