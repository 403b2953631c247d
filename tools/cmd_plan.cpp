// `weft plan`: writes what a policy decides for a training step as a file to read, compare and replay.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/files/durable_file.h"
#include "base/hash.h"
#include "base/printable.h"
#include "base/text/json_object.h"
#include "runtime/plan/plan_file.h"
#include "runtime/policy/compile/compile_plan.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"
#include "tools/input/step_input.h"
#include "train/step/planning.h"

namespace weft::tools {
namespace {

struct PlanOptions : StepSource {
  std::string output = "plan.json";
  bool json = false;
};

int write_plan(const PlanOptions& options) {
  expect_writable(options.output);
  study::PolicyStep step = StepReader(options).step();
  simulate::Problem& problem = step.problem;
  if (step.run) problem.options = train::policy_options(*step.run);  // as a run has them
  const std::string note = step.run ? step.note : "";
  const policy::NamedPolicy& by = step.report.policy;
  const policy::Decision decision = policy::decide(problem.classes, *by, problem.options, problem.rewrites);
  std::vector<plan::Plan> plans;
  plan::PlanFile file;
  std::size_t tasks = 0, streams = 0, collectives = 0, added_edges = 0;
  for (std::size_t k = 0; k < decision.graphs.size(); ++k) {
    plans.push_back(plan::make_plan(decision.graphs[k], decision.orders[k], by->name()));
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
  write_durable(options.output, plan::to_json(file), Named::by_person);
  const std::string chosen = plan::rewrites_for_memory(plan);
  JsonObject told;
  told.add("file", options.output)
      .add("policy", plan.policy)
      .add("tasks", tasks)
      .add("streams", streams)
      .add("collectives", collectives)
      .add("added_edges", added_edges)
      .add("scratch_bytes", plan.scratch_bytes)
      .add("rewrites", plan::to_string(std::span<const plan::Rewrite>(decision.rewrites[most])))
      .add("rewrites_for_memory", chosen)
      .add("summation_note", note)
      .add("plan_fingerprint", hex_fingerprint(file[most].plan_fingerprint))
      .add("graph_fingerprint", hex_fingerprint(file[most].graph_fingerprint));
  if (plans.size() > 1) told.add("classes", plans.size());
  std::string text =
      fmt::format("{}: {} tasks on {} streams, {} collectives, policy {}{}\n", options.output, tasks, streams,
                  collectives, plan.policy, plans.size() > 1 ? fmt::format(", for {} stages", plans.size()) : "");
  if (!chosen.empty()) text += fmt::format("rewrites chosen to fit the memory: {}\n", chosen);
  if (!note.empty()) text += fmt::format("note: {}\n", note);
  return print_result(options.json, told, text);
}

}  // namespace

Command describe_plan() {
  Command command{"plan", "write the order that a policy decides on as a file"};
  const auto options = std::make_shared<PlanOptions>();
  command.add(output_option(options->output, "FILE.json", "the file to write"));
  command.add({.names = "--json", .target = &options->json, .help = "print what was written as one JSON object"});
  const ConfigOptions config(command);
  command.examples = {{"weft plan --model tiny --ranks 2 -o plan.json"},
                      {"weft train --model tiny --ranks 2 --policy file:plan.json", "replays it"},
                      {"weft diff plan.json other.json", "says what moved"}};
  command.run = [options, config] { return config.on_step(*options, [&] { return write_plan(*options); }); };
  return command;
}

}  // namespace weft::tools
