// `weft study`: many searches and simulations that answer one question.
#include "base/error.h"
#include "tools/commands.h"

namespace weft::tools {

Command describe_study() {
  Command command{"study", "studies of many configurations: scaling, axonn"};
  command.subcommands = {describe_study_scaling(), describe_study_axonn()};
  command.examples = {{"weft study scaling --model gpt2-124m --machine perlmutter --dtype bf16 --global-batch 256 "
                       "--points 4 8 16 --kind strong"},
                      {"weft study axonn --machines perlmutter"}};
  command.run = []() -> int {
    throw UserError("weft study: nothing to do", "scaling or axonn", "`weft study --help` has examples");
  };
  return command;
}

}  // namespace weft::tools
