// `weft study`: questions that take many simulated runs.
#include "base/error.h"
#include "tools/commands.h"

namespace weft::tools {

Command describe_study() {
  Command command{"study", "questions that take many simulated runs: axonn"};
  command.subcommands = {describe_study_axonn()};
  command.examples = {{"weft study axonn"}};
  command.run = []() -> int {
    throw UserError("weft study: nothing to do", "axonn", "`weft study --help` has examples");
  };
  return command;
}

}  // namespace weft::tools
