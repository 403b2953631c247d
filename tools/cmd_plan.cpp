// `weft plan`: writes what a policy decides for a training step as a file to read, compare and replay.
#include <fmt/format.h>

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
  std::shared_ptr<const graph::Graph> graph;
  policy::PolicyOptions options;
  policy::NamedPolicy policy;
  std::vector<plan::Rewrite> rewrites = {};
  std::string note = {};
};

PlanInput plan_input_of(const train::RunConfig& config) {
  const train::ResolvedRun run = train::resolve(config, 0);
  train::expect_one_stage(run.config);
  return {ops::lower_train(run.config.model, train::step_config(run.config)), train::policy_options(run), run.policy,
          train::chosen_rewrites(run), train::summation_note(run.config)};
}

PlanInput plan_input_of(const OpenSettings& settings) {
  const OpenInput input = open_input(settings);
  return {input.problem.classes.front(), input.problem.options, input.policy};
}

int write_plan(const PlanInput& input, const std::string& output, bool json) {
  const policy::Decision decision = policy::decide({&input.graph, 1}, *input.policy, input.options, input.rewrites);
  const std::vector<plan::Rewrite>& rewrites = decision.rewrites.front();
  const plan::Plan plan = plan::make_plan(decision.graphs.front(), decision.orders.front(), input.policy->name());
  const plan::PlanFile file = plan::plan_file_of(plan, rewrites);
  write_durable(output, plan::to_json(file), Named::by_person);
  if (json) {
    say("{}\n", JsonObject()
                    .add("file", output)
                    .add("policy", plan.policy)
                    .add("tasks", plan.sequence.size())
                    .add("streams", plan.streams.size())
                    .add("collectives", plan.collectives.size())
                    .add("added_edges", plan.added_edges.size())
                    .add("scratch_bytes", plan.scratch_bytes)
                    .add("rewrites", plan::to_string(std::span<const plan::Rewrite>(rewrites)))
                    .add("rewrites_for_memory", plan::rewrites_for_memory(plan))
                    .add("summation_note", input.note)
                    .add("plan_fingerprint", hex_fingerprint(file.plan_fingerprint))
                    .add("graph_fingerprint", hex_fingerprint(file.graph_fingerprint))
                    .text());
    return 0;
  }
  say("{}: {} tasks on {} streams, {} collectives, policy {}\n", output, plan.sequence.size(), plan.streams.size(),
      plan.collectives.size(), plan.policy);
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
