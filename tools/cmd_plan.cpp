// `weft plan`: writes what a policy decides for a training step as a file to read, compare and replay.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/text/printable.h"
#include "ops/lower.h"
#include "runtime/plan/plan_file.h"
#include "runtime/policy/compile_plan.h"
#include "tools/commands.h"
#include "tools/config_options.h"
#include "train/config/resolved_run.h"
#include "train/step/planning.h"
#include "train/step/step_config.h"

namespace weft::tools {
namespace {

int write_plan(const train::RunConfig& config, const std::string& output) {
  expect_writable(output);
  const train::ResolvedRun run = train::resolve(config, 0);
  const auto graph = ops::lower_train(run.config.model, train::step_config(run.config));
  const policy::PolicyOptions options = train::policy_options(run);
  const std::vector<plan::Rewrite> rewrites =
      policy::rewrites_of(graph, *run.policy, options, train::chosen_rewrites(run));
  const auto rewritten = plan::rewrite(graph, rewrites, options.weight_layouts);
  const plan::Plan plan = plan::make_plan(rewritten, run.policy->order(*rewritten, options), run.policy->name());
  write_durable(output, plan::to_json(plan::plan_file_of(plan, rewrites)), Named::by_person);
  say("{}: {} tasks on {} streams, {} collectives, policy {}\n", output, plan.sequence.size(), plan.streams.size(),
      plan.collectives.size(), plan.policy);
  return 0;
}

}  // namespace

Command describe_plan() {
  Command command{"plan", "write the order that a policy decides on as a file"};
  const auto output = std::make_shared<std::string>("plan.json");
  command.add({.names = "-o,--output",
               .target = output.get(),
               .value = "FILE",
               .help = "the file to write",
               .paths = Paths::files});
  const ConfigOptions config(command);
  command.examples = {{"weft plan --model tiny --ranks 2 -o plan.json"},
                      {"weft train --model tiny --ranks 2 --policy file:plan.json", "replays it"},
                      {"weft diff plan.json other.json", "says what moved"}};
  command.run = [output, config] {
    const train::RunConfig loaded = config.load();
    if (config.dump()) return print_config(loaded);
    return write_plan(loaded, *output);
  };
  return command;
}

}  // namespace weft::tools
