// `weft plan`: writes what a policy decides for a training step as a file to read, compare and replay.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/printable.h"
#include "base/text/hex.h"
#include "base/text/json_object.h"
#include "ops/lower.h"
#include "runtime/plan/plan_file.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"
#include "train/config/resolved_run.h"
#include "train/step/planning.h"
#include "train/step/step_config.h"

namespace weft::tools {
namespace {

struct PlanInput {
  simulate::Problem problem;
  policy::NamedPolicy policy;
  std::string note = {};
};

PlanInput plan_input_of(const train::RunConfig& config) {
  const train::ResolvedRun run = train::resolve(config, 0);
  simulate::Problem problem = train::planning_problem(run);
  problem.options = train::policy_options(run);  // as a run has them
  return {std::move(problem), run.policy, train::summation_note(run.config)};
}

PlanInput plan_input_of(const OpenSettings& settings) {
  OpenInput input = open_input(settings);
  return {std::move(input.problem), input.policy};
}

int write_plan(const PlanInput& input, const std::string& output, bool json) {
  const simulate::Problem& problem = input.problem;
  const policy::Decision decision = policy::decide(problem.classes, *input.policy, problem.options, problem.rewrites);
  std::vector<plan::Plan> plans;
  plan::PlanFile file;
  std::size_t tasks = 0, streams = 0, collectives = 0, added_edges = 0;
  for (std::size_t k = 0; k < decision.graphs.size(); ++k) {
    plans.push_back(plan::make_plan(decision.graphs[k], decision.orders[k], input.policy->name()));
    file.push_back(plan::filed(plans[k], decision.rewrites[k]));
    tasks += plans[k].sequence.size();
    streams += plans[k].streams.size();
    collectives += plans[k].collectives.size();
    added_edges += plans[k].added_edges.size();
  }
  // Of several classes, the one that takes most scratch.
  const std::size_t most =
      static_cast<std::size_t>(std::ranges::max_element(plans, {}, &plan::Plan::scratch_bytes) - plans.begin());
  const plan::Plan& plan = plans[most];
  write_durable(output, plan::to_json(file), Named::by_person);
  if (json) {
    JsonObject told;
    told.add("file", output)
        .add("policy", plan.policy)
        .add("tasks", tasks)
        .add("streams", streams)
        .add("collectives", collectives)
        .add("added_edges", added_edges)
        .add("scratch_bytes", plan.scratch_bytes)
        .add("rewrites", plan::to_string(std::span<const plan::Rewrite>(decision.rewrites[most])))
        .add("rewrites_for_memory", plan::rewrites_for_memory(plan))
        .add("summation_note", input.note)
        .add("plan_fingerprint", hex_fingerprint(file[most].plan_fingerprint))
        .add("graph_fingerprint", hex_fingerprint(file[most].graph_fingerprint));
    if (plans.size() > 1) told.add("classes", plans.size());
    say("{}\n", told.text());
    return 0;
  }
  say("{}: {} tasks on {} streams, {} collectives, policy {}{}\n", output, tasks, streams, collectives, plan.policy,
      plans.size() > 1 ? fmt::format(", for {} stages", plans.size()) : "");
  if (const std::string chosen = plan::rewrites_for_memory(plan); !chosen.empty())
    say("rewrites chosen to fit the memory: {}\n", chosen);
  if (!input.note.empty()) say("note: {}\n", input.note);
  return 0;
}

}  // namespace

Command describe_plan() {
  Command command{"plan", "write the order that a policy decides on as a file"};
  const auto output = std::make_shared<std::string>("plan.json");
  command.add(path_option("-o,--output", output.get(), "FILE", "the file to write"));
  const auto json = std::make_shared<bool>(false);
  command.add({.names = "--json", .target = json.get(), .help = "print what was written as one JSON object"});
  const ConfigOptions config(command);
  command.examples = {{"weft plan --model tiny --ranks 2 -o plan.json"},
                      {"weft train --model tiny --ranks 2 --policy file:plan.json", "replays it"},
                      {"weft diff plan.json other.json", "says what moved"}};
  command.run = [output, json, config] {
    expect_writable(*output);
    if (const auto open = config.open_graph()) return write_plan(plan_input_of(*open), *output, *json);
    const train::RunConfig loaded = config.load();
    if (config.dump()) return print_config(loaded);
    return write_plan(plan_input_of(loaded), *output, *json);
  };
  return command;
}

}  // namespace weft::tools
