// `weft doctor`: what this machine offers and what is missing.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/text/printable.h"
#include "tools/commands.h"
#include "tools/machine_checks.h"
#include "tools/version.h"

namespace weft::tools {
namespace {

void print_text(const std::vector<MachineCheck>& checks, bool ok) {
  say("{}\n", version_text());
  std::string_view section;
  for (const MachineCheck& check : checks) {
    if (check.section != section) say("\n{}\n", section = check.section);
    const std::string_view mark = check.state == CheckState::ok ? "+" : check.state == CheckState::absent ? "-" : "!";
    say("  {} {:<15} {:<19}{}{}\n", mark, check.name, check.value, check.note.empty() ? "" : " ", check.note);
  }
  say("\n{}\n", ok ? "Ready to train on this machine's CPUs."
                   : "Not ready: what is marked with ! is needed. `tools/test` and `tools/quickstart` install "
                     "Debian's packages.");
}

void print_json(const std::vector<MachineCheck>& checks, bool ok) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const MachineCheck& check : checks) {
    list.push_back({{"section", check.section},
                    {"name", check.name},
                    {"value", check.value},
                    {"state", to_string(check.state)},
                    {"note", check.note}});
  }
  const nlohmann::ordered_json report{{"weft", version_text()}, {"ready", ok}, {"checks", list}};
  say("{}\n", report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
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
