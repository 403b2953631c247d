// The subcommands of `weft`, each in its own cmd_*.cpp. A subcommand declares its options on the command line's tree
// and hands back what runs it once the line has been parsed.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace weft::tools {

/// Runs a parsed subcommand; returns the exit code. UserError means exit code 2, any other exception 3.
using Command = std::function<int()>;

Command add_train(CLI::App& root);
Command add_eval(CLI::App& root);
Command add_generate(CLI::App& root);
Command add_export(CLI::App& root);
Command add_graph(CLI::App& root);
Command add_timeline(CLI::App& root);
Command add_tune(CLI::App& root);
Command add_profile(CLI::App& root);
Command add_compare(CLI::App& root);
Command add_explain(CLI::App& root);
Command add_plan(CLI::App& root);
Command add_diff(CLI::App& root);
Command add_memory(CLI::App& root);
Command add_simulate(CLI::App& root);
Command add_report(CLI::App& root);
Command add_trace(CLI::App& root);
Command add_doctor(CLI::App& root);

}  // namespace weft::tools
