#include "tools/command_line/commands.h"

#include <utility>
#include <vector>

#include "kernels/cpu/isa/kernel_choice.h"

namespace weft::tools {
namespace {

void add_under(Command& root, const std::string& heading, std::vector<Command> commands) {
  for (Command& command : commands) {
    command.heading = heading;
    root.subcommands.push_back(std::move(command));
  }
}

}  // namespace

Command describe_weft(const std::string& program) {
  Command root{"weft", "trains transformers by compiling a whole step into a graph of tasks"};
  root.description =
      "A step of training is compiled into one dependency graph of computations and communication. A policy orders its "
      "tasks, so that communication is hidden behind computations.";
  root.add({.names = "--isa",
            .target = [](const std::string&) {},  // taken before the commands are described, see weft.cpp
            .value = "LEVEL",
            .help =
                "level of the CPU's instructions that kernels use, with any command; default: the highest that this "
                "CPU has",
            .choices = cpu::built_levels()});
  add_under(root, "Commands that train and use models",
            {describe_train(program), describe_eval(), describe_generate(), describe_export(), describe_tokenize()});
  add_under(root, "Commands that plan, simulate and show a step",
            {describe_graph(), describe_timeline(), describe_plan(), describe_diff(), describe_memory(),
             describe_simulate(), describe_search(), describe_sweep(), describe_bench(), describe_study(),
             describe_compare(), describe_explain()});
  add_under(root, "Commands that show runs", {describe_report(), describe_trace()});
  add_under(root, "Commands that measure this machine",
            {describe_profile(), describe_tune(), describe_machine(), describe_doctor()});
  add_under(root, "Commands for the shell", {describe_completion(), describe_man()});
  root.examples = {{"weft train --model tiny --ranks 2", "train a small model on two ranks of this machine"},
                   {"weft train --model tiny --dump-config", "print a configuration file to start from"},
                   {"weft doctor", "see what this machine offers"}};
  return root;
}

}  // namespace weft::tools
