// `weft man`: the manual page.
#include <string>

#include "base/printable.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/help.h"
#include "tools/version.h"

namespace weft::tools {

Command describe_man() {
  Command command{"man", "print the manual page"};
  command.description = "In roff. An installed weft has it in place, for `man weft`.";
  command.examples = {{"weft man | man -l -"}, {"weft man > weft.1"}};
  command.run = [] {
    const std::string version = version_text();
    say("{}", man_page(describe_weft("weft"), version.substr(0, version.find(" ("))));
    return 0;
  };
  return command;
}

}  // namespace weft::tools
