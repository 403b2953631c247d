// The subcommands of `weft`, each in its own cmd_*.cpp. A description of a command holds what runs it once the line has
// been parsed.
#pragma once

#include <string>

#include "tools/command_line/command.h"

namespace weft::tools {

/// `weft` with all its subcommands. `program`: as it was called, so that commands that it tells can be typed where it
/// isn't on PATH.
Command describe_weft(const std::string& program);

Command describe_train(const std::string& program);
Command describe_eval();
Command describe_generate();
Command describe_export();
Command describe_tokenize();
Command describe_graph();
Command describe_timeline();
Command describe_tune();
Command describe_profile();
Command describe_compare();
Command describe_explain();
Command describe_plan();
Command describe_diff();
Command describe_memory();
Command describe_simulate();
Command describe_search();
Command describe_sweep();
Command describe_bench();
Command describe_study();
Command describe_report();
Command describe_trace();
Command describe_machine();
Command describe_doctor();
Command describe_completion();
Command describe_man();

}  // namespace weft::tools
