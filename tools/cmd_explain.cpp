// `weft explain`: why collectives of a step are exposed, what would hide them, and what the step's length comes from.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/printable.h"
#include "base/text/parse_number.h"
#include "base/text/text_table.h"
#include "runtime/cost/machine_numbers.h"
#include "runtime/plan/plan_file.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/simulate/certify/window_bounds.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/explanation_output.h"
#include "tools/input/config_options.h"
#include "tools/input/scaled_problem.h"
#include "tools/pipeline/pipeline_step.h"
#include "train/config/resolved_run.h"
#include "train/step/planning.h"
#include "train/step/step_config.h"

namespace weft::tools {
namespace {

struct ExplainCommand {
  train::RunConfig config;  // not yet resolved
  simulate::ExplainOptions options;
  std::optional<OpenSettings> open;  // in place of a configuration
  std::string apply, output;
  std::vector<cost::CostScale> scales;
  int pipe_rank = -1;  // of a pipeline: whose collectives are explained; below 0: bubbles are
  bool json = false;
};

/// "1,3": the numbers of remedies.
std::vector<int> remedy_numbers(const std::string& text) {
  std::vector<int> numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    numbers.push_back(static_cast<int>(
        parse_number<std::int64_t>(std::string_view(text).substr(begin, end - begin), "--apply", 1, 1'000'000)));
    begin = end + 1;
  }
  return numbers;
}

std::optional<HalvedBatch> halve(train::ResolvedRun run, const std::vector<cost::CostScale>& scales,
                                 const simulate::Report& report) {
  if (run.config.micro_batch % 2 != 0) return std::nullopt;
  run.config.micro_batch /= 2;
  simulate::Problem problem = train::planning_problem(run);
  scale_costs(problem, scales);
  const simulate::Report other = simulate::report_plan(problem, run.policy);
  if (!other.planned()) return std::nullopt;
  return HalvedBatch{run.config.micro_batch, report.step_ns() - other.step_ns()};
}

struct ExplainInput {
  simulate::Problem problem;
  policy::NamedPolicy policy;
  bool by_machine = false;                     // costs are the machine's
  std::optional<train::ResolvedRun> run = {};  // nullopt: an open graph
  std::string order_note = {};
};

ExplainInput explain_input_of(const train::RunConfig& config) {
  train::ResolvedRun run = train::resolve(config, 0);
  return {train::planning_problem(run), run.policy, run.profile == nullptr, std::move(run)};
}

ExplainInput explain_input_of(const OpenSettings& settings) {
  OpenInput input = open_input(settings);
  return {std::move(input.problem), std::move(input.policy), input.has_machine, std::nullopt, input.order_note};
}

int explain_pipeline(const ExplainCommand& command) {
  if (!command.apply.empty() || !command.output.empty() || !command.options.only.empty()) {
    throw UserError("--apply, -o or --collective with a grid of pipeline stages",
                    "the stage whose collectives are meant: without one, bubbles are explained", "add --pipe-rank 0");
  }
  const PipelineStep step = simulate_pipeline(command.config, "", {command.scales, {}});
  if (!step.report.planned()) throw UserError(step.report.refusal, "", "");
  const auto most = static_cast<std::size_t>(command.options.most_remedied);
  if (command.json) {
    say("{}\n", bubble_json(step, most).text());
  } else {
    say("{}", bubble_text(step, most, output_width()));
  }
  return 0;
}

int explain_step(const ExplainCommand& command) {
  if (!command.open && is_pipeline(command.config) && command.pipe_rank < 0) return explain_pipeline(command);
  std::vector<int> numbers;
  if (!command.apply.empty()) numbers = remedy_numbers(command.apply);
  if (!command.output.empty()) {
    if (numbers.empty()) {
      throw UserError("-o without --apply", "the numbers of the remedies that the plan gets",
                      "add --apply 1, or leave -o out");
    }
    expect_writable(command.output);
  }
  ExplainInput input = command.open ? explain_input_of(*command.open) : explain_input_of(command.config);
  scale_costs(input.problem, command.scales);
  const simulate::Problem& problem = input.problem;
  const auto of_class = static_cast<std::size_t>(std::max(0, command.pipe_rank));
  if (of_class >= problem.classes.size()) {
    throw UserError(fmt::format("--pipe-rank {} of a step of {} stages", of_class, problem.classes.size()),
                    fmt::format("from 0 to {}", problem.classes.size() - 1), "choose one of them, or leave it out");
  }
  simulate::Report report = simulate::report_plan(problem, input.policy);
  if (!report.planned()) throw UserError(report.refusal, "", "");
  simulate::prove_windows(problem, {&report, 1});
  const simulate::Explanation explanation = simulate::explain(problem, report, command.options, of_class);
  ExplainedStep step{report, explanation, of_class, command.options.only};
  if (!numbers.empty()) {
    step.applied = simulate::apply_remedies(problem, report, explanation, numbers, of_class);
  } else if (command.options.only.empty() && input.run && problem.classes.size() == 1) {
    step.halved = halve(*input.run, command.scales, report);
  }
  if (!command.output.empty()) {
    write_durable(command.output, plan::to_json(step.applied->file), Named::by_person);
    step.output = command.output;
  }
  step.summation_note = input.run ? train::summation_note(input.run->config) : input.order_note;
  if (input.by_machine) step.unsure = cost::unsure_numbers(problem.machine);
  if (command.json) {
    say("{}\n", explanation_json(step).text());
  } else {
    say(stdout, explanation_text(step, output_width()));
  }
  return 0;
}

}  // namespace

Command describe_explain() {
  Command command{"explain", "why collectives are exposed, and what would hide them"};
  const auto options = std::make_shared<ExplainCommand>();
  options->options.most_remedied = 12;  // as many as have a paragraph
  command.add(word_option("--collective", &options->options.only, "NAME",
                          "explain this one alone, or this group: mb*.L*.mlp.up.fwd.all_gather_w"));
  command.add(number_option("--pipe-rank", &options->pipe_rank,
                            "of a pipeline: explain this rank's collectives; without it, the ranks' bubbles", 0,
                            1000000));
  command.add(number_option("--most", &options->options.most_remedied,
                            "groups of collectives whose remedies are simulated, the most exposed first", 0));
  command.add(
      word_option("--apply", &options->apply, "NUMBERS",
                  "simulate the plan with these remedies, by the numbers that are printed with the same options"));
  command.add(output_option(options->output, "FILE",
                            "write that plan for --policy file:FILE, if its step is simulated to be shorter"));
  command.add(scale_option(options->scales));
  command.add({.names = "--json", .target = &options->json, .help = "print as JSON"});
  const ConfigOptions config(command);
  command.description =
      "Collectives that differ in layer and micro-batch alone are a group. A remedy is applied to all of a group at\n"
      "once; its gain is what the whole step gets shorter by, simulated, within the memory that a plan may take.\n"
      "Remedies with a number can be applied.";
  command.examples = {{"weft explain --model gpt2-124m --grid y=2,data=2 --machine dgx-h100 --policy axonn"},
                      {"weft explain run.toml --policy program --profile slow.json"},
                      {"weft explain run.toml --collective mb0.L3.mlp.up.bwd.all_reduce_dx --json"},
                      {"weft explain run.toml --collective 'mb*.L*.mlp.up.bwd.all_reduce_dx'", "all layers at once"},
                      {"weft explain run.toml --apply 1,3 -o plan.json; weft train run.toml --policy file:plan.json",
                       "trains with the first and the third remedy"},
                      {"weft explain pipeline.toml --pipe-rank 1 --apply 1 -o plan.json",
                       "of a pipeline: what would hide the second rank's collectives"}};
  command.run = [options, config] {
    options->open = config.open_graph();
    if (!options->open) {
      options->config = config.load();
      if (config.dump()) return print_config(options->config);
    }
    return explain_step(*options);
  };
  return command;
}

}  // namespace weft::tools
