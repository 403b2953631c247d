// `weft compare`: many policies on one training step, simulated beside the lower bounds, and measured when asked to.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/printable.h"
#include "base/status_line.h"
#include "base/styled_text.h"
#include "base/text/text_table.h"
#include "runtime/cost/machine_numbers.h"
#include "runtime/cost/profile.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/simulate/certify/window_bounds.h"
#include "study/comparison.h"
#include "study/comparison_folder.h"
#include "study/comparison_output.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"
#include "tools/input/scaled_problem.h"
#include "tools/pipeline/compare_pipelines.h"
#include "tools/studies/search_flags.h"
#include "train/measure/measure_profile.h"
#include "train/measure/policy_benchmark.h"
#include "train/run/launch_run.h"
#include "train/step/planning.h"
#include "train/step/step_config.h"

namespace weft::tools {
namespace {

std::vector<policy::NamedPolicy> policies_of(const CompareOptions& options, bool recorded = false) {
  return named_policies(compared_policies(options, recorded), options.config.libraries);
}

std::vector<simulate::Report> reports_of(const simulate::Problem& problem,
                                         const std::vector<policy::NamedPolicy>& policies, StatusLine& line) {
  std::vector<simulate::Report> reports;
  for (const policy::NamedPolicy& policy : policies) {
    line.tell({fmt::format("[{}/{}] planning and simulating {}", reports.size() + 1, policies.size(), policy.name),
               std::ssize(reports), std::ssize(policies)});
    reports.push_back(simulate::report_plan(problem, policy));
  }
  return reports;
}

std::vector<ComparedPolicy> compared(const simulate::Problem& problem, const std::vector<simulate::Report>& reports) {
  std::vector<ComparedPolicy> all;
  for (const simulate::Report& report : reports) all.push_back({problem, report});
  return all;
}

std::string title_of(const train::RunConfig& config, const simulate::Problem& problem) {
  return fmt::format("{}, {} ranks ({}), {} sequences of {} tokens a step, on {}", config.model.name,
                     config.grid.ranks(), graph::to_string(config.grid), config.global_batch, config.seq_len,
                     problem.machine.name);
}

void expect_outputs(const std::vector<std::string>& outputs) {
  for (const std::string& output : outputs) {
    if (study::comparison_file_of(output) == study::ComparisonFile::folder) {
      study::expect_comparison_folder(output);
    } else {
      expect_writable(output);
    }
  }
}

/// `measured`: rank 0's last steps by report, or empty.
void print(const CompareOptions& options, const study::ComparedStep& step, const simulate::Problem& problem,
           const study::Comparison& comparison, const std::vector<plan::StepTrace>& measured) {
  const StyledText shown = options.json ? StyledText(study::comparison_file(comparison, study::ComparisonFile::json))
                           : options.markdown
                               ? StyledText(study::comparison_text(comparison, study::TableStyle::markdown))
                               : study::styled_comparison(comparison, output_width());
  for (const std::string& output : options.outputs) {
    const study::ComparisonFile format = study::comparison_file_of(output);
    if (format == study::ComparisonFile::folder) {
      const std::vector<const simulate::Problem*> problems(comparison.reports.size(), &problem);
      study::write_comparison(output, step, study::keep_comparison(problems, comparison, measured));
    } else if (format == study::ComparisonFile::as_printed) {
      write_durable(output, shown.plain(), Named::by_person);
    } else {
      write_durable(output, study::comparison_file(comparison, format), Named::by_person);
    }
  }
  say(stdout, shown);
}

/// `comparison` says what the step is; it gets the figures here.
int simulate_policies(const CompareOptions& options, const study::ComparedStep& step, simulate::Problem problem,
                      study::Comparison comparison, const std::vector<policy::NamedPolicy>& policies) {
  scale_costs(problem, options.scales);
  StatusLine line(!options.quiet && !options.json);
  comparison.source = problem.options.cost_model->source();
  comparison.problem = simulate::bounds_of(problem);
  comparison.reports = reports_of(problem, policies, line);
  simulate::prove_windows(problem, comparison.reports, &comparison.problem);
  if (options.pareto) comparison.limited = front_of(compared(problem, comparison.reports), line);
  comparison.disturbed = disturbed(compared(problem, comparison.reports), options.noise, line);
  print(options, step, problem, comparison, {});
  return 0;
}

int simulate_only(const CompareOptions& options) {
  expect_outputs(options.outputs);
  const std::vector<policy::NamedPolicy> policies = policies_of(options);
  const train::ResolvedRun run = train::resolve(options.config, 0);
  const simulate::Problem problem = train::planning_problem(run);
  study::Comparison comparison;
  comparison.title = title_of(run.config, problem);
  comparison.summation_note = train::summation_note(run.config);
  if (!run.profile) comparison.unsure = cost::unsure_numbers(problem.machine);
  return simulate_policies(options, std::cref(run.config), problem, std::move(comparison), policies);
}

std::vector<std::string> flags_of(const CompareOptions& options) {
  std::vector<std::string> words = options.open->words();
  for (const cost::CostScale& scale : options.scales) {
    words.insert(words.end(), {"--scale", fmt::format("{}={}", scale.pattern, scale.factor)});
  }
  return words;
}

int simulate_open(const CompareOptions& options) {
  if (options.measure) refuse_for_open_graph("--measure", "a step that can be executed");
  if (options.machine_costs) refuse_for_open_graph("--machine-costs", "a step that can be executed");
  if (options.noise > 0) refuse_for_open_graph("--noise", "the step of one rank, without the others");
  expect_outputs(options.outputs);
  const OpenInput input = open_input(*options.open);
  const bool recorded = simulate::default_open_policy(input.problem.first()).name == "recorded";
  study::Comparison comparison;
  comparison.title = input.title() + (input.has_machine ? " on " + input.problem.machine.name : "");
  comparison.summation_note = input.order_note;
  return simulate_policies(options, study::ComparedGraph{input.graph, flags_of(options)}, input.problem,
                           std::move(comparison), policies_of(options, recorded));
}

/// Steps of all policies in turn, so that what disturbs one disturbs the others too; and between them the steps of
/// `samples`, if not null, under the benchmark's last policy.
std::vector<study::MeasuredSteps> measure(train::PolicyBenchmark& benchmark, const std::vector<std::size_t>& which,
                                          std::size_t reports, int rounds, train::SerialSamples* samples,
                                          StatusLine& line) {
  std::vector<study::MeasuredSteps> measured(reports);
  for (int round = -1; round < rounds; ++round) {  // the first one warms up
    line.tell({fmt::format("round {} of {}", round + 1, rounds), round + 1, rounds});
    if (samples != nullptr) round < 0 ? benchmark.run(which.size()) : samples->run(benchmark, which.size());
    for (std::size_t i = 0; i < which.size(); ++i) {
      const double ns = benchmark.run(i);
      if (round < 0) continue;
      study::MeasuredSteps& steps = measured[which[i]];
      const plan::OverlapSummary overlap = plan::summarize(benchmark.plan(i), benchmark.last_trace(i));
      steps.ns.push_back(ns);
      steps.exposed_ns += static_cast<double>(overlap.exposed) / rounds;
      steps.communication_ns += static_cast<double>(overlap.communication) / rounds;
    }
  }
  return measured;
}

int simulate_and_measure(const CompareOptions& options) {
  const std::vector<policy::NamedPolicy> policies = policies_of(options);
  return train::run_on_ranks(options.config, [&](comm::World& world, const train::ResolvedRun& resolved) {
    train::ResolvedRun run = resolved;  // with the costs that are known by then
    const train::RunConfig& config = run.config;
    if (world.rank() == 0) expect_outputs(options.outputs);
    StatusLine line(world.rank() == 0 && !options.quiet && !options.json);
    const bool given = run.profile != nullptr || options.machine_costs;
    if (!given) {
      run.profile = std::make_shared<const cost::Profile>(train::measure_profile(
          world, resolved, options.profile_steps, 9, [&](const Status& status) { line.tell(status); }));
    }
    simulate::Problem problem = train::planning_problem(run);
    study::Comparison comparison;
    comparison.title = title_of(config, problem);
    comparison.source = problem.options.cost_model->source();
    comparison.summation_note = train::summation_note(config);
    if (options.machine_costs) comparison.unsure = cost::unsure_numbers(problem.machine);
    if (world.rank() == 0) comparison.reports = reports_of(problem, policies, line);
    std::vector<policy::NamedPolicy> planned;
    std::vector<std::size_t> which;
    for (std::size_t i = 0; i < policies.size(); ++i) {
      const bool ours = world.rank() == 0 && comparison.reports[i].planned();
      if (world.all_gather(ours ? 1 : 0).front() == 0) continue;
      planned.push_back(policies[i]);
      which.push_back(i);
    }
    if (!given) planned.push_back(policy::named_policy("serial"));
    train::PolicyBenchmark benchmark(world, run, planned, problem.options);
    // A machine's speed drifts by more than simulations err: policies are planned with the profile, and judged by costs
    // that were measured in the same minutes as they.
    train::SerialSamples samples(world);
    comparison.measured =
        measure(benchmark, which, policies.size(), options.measured_rounds, given ? nullptr : &samples, line);
    if (!given) {
      cost::Profile profile = *run.profile;
      samples.write(benchmark.plan(which.size()), profile);
      run.profile = std::make_shared<const cost::Profile>(std::move(profile));
      problem = train::planning_problem(run);
      for (simulate::Report& report : comparison.reports) {
        if (report.planned()) simulate::simulate_again(report, problem);
      }
    }
    comparison.problem = simulate::bounds_of(problem);
    if (world.rank() == 0) simulate::prove_windows(problem, comparison.reports, &comparison.problem);
    comparison.disturbed = disturbed(compared(problem, comparison.reports), options.noise, line);
    std::vector<plan::StepTrace> steps(policies.size());
    for (std::size_t i = 0; i < which.size(); ++i) steps[which[i]] = benchmark.last_trace(i);
    if (world.rank() == 0) print(options, std::cref(config), problem, comparison, steps);
    world.barrier();
    return 0;
  });
}

}  // namespace

Command describe_compare() {
  Command command{"compare", "many policies on one step, beside what no policy can beat"};
  const auto options = std::make_shared<CompareOptions>();
  command.add({.names = "--policies",
               .target = &options->policies,
               .value = "POLICY",
               .help = "all, or policies by name, each with its parameters",
               .suggestions = policy_words({"all"}),
               .paths = Paths::files});
  command.add({.names = "--measure",
               .target = &options->measure,
               .help = "run each policy's plan too; without --profile, measure costs first"});
  command.add({.names = "--machine-costs",
               .target = &options->machine_costs,
               .help = "with --measure: costs by the machine's numbers; measure none first"});
  command.add(number_option("--measured-rounds", &options->measured_rounds, "steps of each policy, which take turns", 1,
                            100000));
  command.add(number_option("--profile-steps", &options->profile_steps, "steps that costs are measured on", 1, 10000));
  command.add(
      {.names = "--pareto", .target = &options->pareto, .help = "under memory limits too: time against memory"});
  command.add(
      number_option("--noise", &options->noise,
                    "simulate every plan 21 times more with task times of this relative deviation, and once with "
                    "a rank that computes 1.2 times as long; all ranks are simulated",
                    0, 10));
  command.add(scale_option(options->scales));
  command.add({.names = "--json", .target = &options->json, .help = "print the figures as JSON"});
  command.add({.names = "--markdown", .target = &options->markdown, .help = "print tables as Markdown"});
  command.add({.names = "--quiet", .target = &options->quiet, .help = "print only the tables and errors"});
  command.add(repeated(
      path_option("-o,--output", &options->outputs, "FILE|FOLDER",
                  "write the figures to a file, as its ending says: .csv, .md or .json; a name without an ending is "
                  "a folder, which keeps what `weft report` draws; may be repeated")));
  const ConfigOptions config(command);
  command.description =
      "gap: how far the step is above the bound of the policy's own graph.\n"
      "hidden: the share that the policy saves of the time between the serial step and the bound of the configured "
      "graph.\n"
      "contention: the time that computations lose to communication beside them.\n"
      "noisy, 95th %: median and 95th percentile of the step under --noise.\n"
      "slow rank: the step with rank 0 computing 1.2 times as long.";
  command.examples = {{"weft compare --model gpt2-124m --grid x=2,y=2,z=2 --machine dgx-h100"},
                      {"weft compare run.toml --policies serial axonn axonn:oar=off portfolio --markdown"},
                      {"weft compare step.graph.json --machine dgx-h100"},
                      {"weft compare run.toml --noise 0.2 -o noise.csv -o noise.md"},
                      {"weft compare run.toml --measure -o policies; weft report policies -o policies.html"},
                      {"tools/netlab --pin 1gbit 2 -- build/weft compare run.toml --measure --json"},
                      {"weft compare run.toml --measure --machine mine.toml --machine-costs",
                       "how far the machine's numbers are from the truth"}};
  command.run = [options, config] {
    options->open = config.open_graph();
    if (!options->open) {
      options->config = config.load();
      if (config.dump()) return print_config(options->config);
    }
    for (const std::string& name : options->policies) options->config.libraries.trust(name);
    train::leave_out_library(options->config);
    if (options->open) {
      options->open->config.libraries = options->config.libraries;
      return simulate_open(*options);
    }
    if (options->machine_costs && !options->measure) {
      throw UserError("--machine-costs without --measure",
                      "a comparison that measures; others take the machine's costs unless --profile names some",
                      "add --measure, or leave --machine-costs out");
    }
    if (options->measure && !options->scales.empty()) {
      throw UserError("--scale with --measure", "a comparison that only simulates: measured tasks take their own time",
                      "leave one of the two out");
    }
    if (options->machine_costs && !options->config.profile.empty()) {
      throw UserError(fmt::format("--machine-costs and --profile {}", options->config.profile), "one source of costs",
                      "leave one of the two out");
    }
    if (is_pipeline(options->config)) return compare_pipelines(*options);
    return options->measure ? simulate_and_measure(*options) : simulate_only(*options);
  };
  return command;
}

}  // namespace weft::tools
