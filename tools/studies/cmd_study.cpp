// `weft study`: many searches, simulations or trainings that answer one question.
#include "tools/command_line/commands.h"

namespace weft::tools {

Command describe_study() {
  Command command{"study", "studies of many runs or configurations: scaling, axonn, memorisation"};
  command.subcommands = {describe_study_scaling(), describe_study_axonn(), describe_study_memorisation()};
  command.examples = {{"weft study scaling --model gpt2-124m --machine perlmutter --dtype bf16 --global-batch 256 "
                       "--points 4 8 16 --kind strong"},
                      {"weft study axonn --machines perlmutter"},
                      {"weft study memorisation --models 1m --seeds 1"}};
  return command;
}

}  // namespace weft::tools
