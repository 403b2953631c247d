// `weft compare`: many policies on one training step, simulated beside the lower bounds, and measured when asked to.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/printable.h"
#include "base/status_line.h"
#include "base/text/text_table.h"
#include "inspect/formats/graph_file.h"
#include "runtime/cost/machine_numbers.h"
#include "runtime/policy/catalog/policies.h"
#include "study/comparison.h"
#include "study/comparison_folder.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"
#include "tools/input/launch.h"
#include "tools/input/step_input.h"
#include "train/measure/measure_profile.h"
#include "train/run/launch_run.h"
#include "train/step/planning.h"

namespace weft::tools {
namespace {

struct CompareOptions : StepSource {
  std::vector<std::string> policies = {"all"};
  bool measure = false, machine_costs = false, pareto = false, json = false, markdown = false, quiet = false;
  int measured_rounds = 20, profile_steps = 10;
  double noise = 0;
  std::vector<std::string> outputs;
};

/// The names of the policies: "all" becomes what was recorded, if anything was, and every built-in policy for this
/// step, axonn with its switches one after the other.
std::vector<std::string> compared_policies(const CompareOptions& options, StepReader& reader) {
  std::vector<std::string> names;
  for (const std::string& name : options.policies) {
    if (name != "all") {
      names.push_back(name);
      continue;
    }
    const simulate::Problem problem = reader.step().problem;
    const bool stages = problem.classes.size() > 1;
    if (reader.open() != nullptr && simulate::default_open_policy(problem.first()).name == "recorded")
      names.emplace_back("recorded");
    for (const std::string& built_in : stages ? policy::pipeline_policy_names() : policy::graph_policy_names()) {
      if (built_in == "axonn") {
        names.insert(names.end(),
                     {"axonn:oar=off,ors=off,oag=off", "axonn:oar=on,ors=off,oag=off", "axonn:oar=on,ors=on,oag=off"});
      }
      names.push_back(built_in);
    }
  }
  return names;
}

void plan_steps(std::vector<study::PolicyStep>& steps, StatusLine& line) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].report.planned()) continue;
    line.tell({fmt::format("[{}/{}] planning and simulating {}", i + 1, steps.size(), steps[i].report.policy.name),
               static_cast<std::int64_t>(i), std::ssize(steps)});
    plan_step(steps[i]);
  }
}

/// Policies under limits between the least and the greatest memory that any plan took.
std::vector<study::LimitedPlan> front_of(const std::vector<study::PolicyStep>& steps, StatusLine& line) {
  constexpr int kLimits = 6;
  std::vector<study::LimitedPlan> plans;
  std::int64_t least = INT64_MAX, greatest = 0;
  for (const study::PolicyStep& step : steps) {
    const simulate::Report& report = step.report;
    if (!report.planned()) continue;
    plans.push_back({report.policy.name, report.memory_bytes(), report.step_ns()});
    least = std::min(least, report.scratch_bytes());
    greatest = std::max(greatest, report.scratch_bytes());
  }
  for (int i = 0; i <= kLimits && greatest > least; ++i) {
    const std::int64_t limit = least + (greatest - least) * i / kLimits;
    line.tell({fmt::format("planning for {} MiB of scratch", limit >> 20), i, kLimits + 1});
    for (const study::PolicyStep& step : steps) {
      if (!step.report.planned()) continue;
      simulate::Problem tight = step.problem;
      tight.options.memory_limit = limit;
      const simulate::Report limited = simulate::report_plan(tight, step.report.policy);
      if (!limited.planned() || limited.scratch_bytes() > limit) continue;
      plans.push_back({step.report.policy.name, limited.memory_bytes(), limited.step_ns()});
    }
  }
  return study::pareto_front(std::move(plans));
}

void disturb(std::vector<study::PolicyStep>& steps, double noise, StatusLine& line) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    study::PolicyStep& step = steps[i];
    if (!step.report.planned()) continue;
    line.tell({fmt::format("[{}/{}] disturbing {}", i + 1, steps.size(), step.report.policy.name),
               static_cast<std::int64_t>(i), std::ssize(steps)});
    step.disturbed = simulate::robustness_of(step.report, step.problem, {.noise = noise});
  }
}

std::string title_of(const study::PolicyStep& step, const OpenInput* open) {
  const std::string& machine = step.problem.machine.name;
  if (open != nullptr) return open->title() + (open->has_machine ? " on " + machine : "");
  const train::RunConfig& config = step.run->config;
  return fmt::format("{}, {} ranks ({}), {} sequences of {} tokens a step, on {}", config.model.name,
                     config.grid.ranks(), graph::to_string(config.grid), config.global_batch, config.seq_len, machine);
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

std::vector<std::string> flags_of(const CompareOptions& options) {
  std::vector<std::string> words = options.open->words();
  for (const cost::NamedFactor& scale : options.scales) {
    words.insert(words.end(), {"--scale", fmt::format("{}={}", scale.pattern, scale.factor)});
  }
  return words;
}

void print(const CompareOptions& options, const study::ComparedStep& step, const study::Comparison& comparison) {
  const StyledText shown = options.json ? StyledText(study::comparison_file(comparison, study::ComparisonFile::json))
                           : options.markdown
                               ? StyledText(study::comparison_text(comparison, study::TableStyle::markdown))
                               : study::styled_comparison(comparison, output_width());
  for (const std::string& output : options.outputs) {
    const study::ComparisonFile format = study::comparison_file_of(output);
    if (format == study::ComparisonFile::folder) {
      study::write_comparison(output, step, study::keep_comparison(comparison));
    } else if (format == study::ComparisonFile::as_printed) {
      write_durable(output, shown.plain(), Named::by_person);
    } else {
      write_durable(output, study::comparison_file(comparison, format), Named::by_person);
    }
  }
  say(stdout, shown);
}

/// Throws UserError if no policy has a plan.
void finish(const CompareOptions& options, const StepReader& reader, std::vector<study::PolicyStep> steps,
            StatusLine& line) {
  const auto planned = std::ranges::find_if(steps, [](const auto& step) { return step.report.planned(); });
  if (planned == steps.end()) throw UserError(steps.front().report.refusal, "", "");
  study::Comparison comparison;
  comparison.title = title_of(*planned, reader.open());
  comparison.source = planned->problem.options.cost_model->source();
  comparison.summation_note = planned->note;
  const bool of_machine = reader.open() == nullptr && planned->run->profile == nullptr;
  if (of_machine) comparison.unsure = cost::unsure_numbers(planned->problem.machine);
  std::optional<train::RunConfig> config;  // with its own policy
  if (planned->run) {
    config = planned->run->config;
    config->policy = train::read_texts(options.config).config.policy;
  }
  comparison.steps = std::move(steps);
  comparison.prove();
  if (options.pareto) comparison.limited = front_of(comparison.steps, line);
  if (options.noise > 0) disturb(comparison.steps, options.noise, line);
  if (config) {
    print(options, std::cref(*config), comparison);
  } else {
    // A folder keeps the graph as it is in its file: the flags say what was changed.
    std::optional<graph::OpenGraph> own;
    if (!options.outputs.empty() && !reader.open()->as_recorded) own = inspect::read_graph_file(options.open->file);
    print(options, study::ComparedGraph{own ? *own : reader.open()->graph, flags_of(options)}, comparison);
  }
}

int simulate_only(const CompareOptions& options) {
  expect_outputs(options.outputs);
  StatusLine line(!options.quiet && !options.json);
  StepReader reader(options);
  std::vector<study::PolicyStep> steps = reader.steps(compared_policies(options, reader));
  plan_steps(steps, line);
  finish(options, reader, std::move(steps), line);
  return 0;
}

/// The policies of a comparison on one rank, and the programs that run them.
class MeasuredComparison {
 public:
  MeasuredComparison(comm::World& world, const CompareOptions& options, const train::ResolvedRun& run, StatusLine& line)
      : world_(world),
        options_(options),
        run_(run),
        line_(line),
        reader_(options, world.of_processes() ? world.size() : 0),
        profile_(run.profile) {
    measures_costs_ = profile_ == nullptr && !options.machine_costs;
    if (measures_costs_) {
      profile_ = std::make_shared<const cost::Profile>(train::measure_profile(
          world, run, options.profile_steps, kProbeRounds, [&](const Status& status) { line_.tell(status); }));
    }
    reader_.take_profile(profile_);
    steps_ = reader_.steps(compared_policies(options, reader_));
    if (world.rank() == 0) plan_steps(steps_, line);
    // All ranks do the same, so all see the same refusals; rank 0 alone plans here.
    for (study::PolicyStep& step : steps_) {
      const bool planned = world_.all_gather(step.report.planned() ? 1 : 0).front() != 0;
      if (!planned && step.report.planned()) step.report.refusal = "refused by rank 0";
    }
  }

  void measure() {
    make_benchmarks();
    const bool stages = steps_[benchmarks_.front().steps.front()].problem.classes.size() > 1;
    std::optional<train::StageComputations> stage;
    std::vector<train::SerialSamples> samples(benchmarks_.size(), train::SerialSamples(world_));
    if (measures_costs_ && stages) stage.emplace(world_, run_);
    const int rounds = options_.measured_rounds;
    for (int round = -1; round < rounds; ++round) {  // the first one warms up
      line_.tell({fmt::format("round {} of {}", round + 1, rounds), round + 1, rounds});
      if (stage) {
        round < 0 ? stage->run() : samples.front().run(*stage);
      }
      for (std::size_t i = 0; i < benchmarks_.size(); ++i) {
        if (measures_costs_ && !stage) {
          const std::size_t serial = benchmarks_[i].steps.size();
          round < 0 ? benchmarks_[i].program->run(serial) : samples[i].run(*benchmarks_[i].program, serial);
        }
        run_once(benchmarks_[i], round >= 0);
      }
    }
    if (!measures_costs_) return;
    // A machine's speed drifts by more than simulations err: policies are planned with the profile, and judged by costs
    // that were measured in the same minutes as they.
    cost::Profile judging = *profile_;
    if (stage) {
      samples.front().write(stage->plan(), judging);
    } else {
      // The first graph's serial step comes last: its times of what graphs share, and its factor, count.
      for (std::size_t i = benchmarks_.size(); i-- > 0;)
        samples[i].write(benchmarks_[i].program->plan(benchmarks_[i].steps.size()), judging);
    }
    profile_ = std::make_shared<const cost::Profile>(std::move(judging));
    for (study::PolicyStep& step : steps_) {
      if (world_.rank() != 0 || !step.report.planned()) continue;
      step.run->profile = profile_;
      step.problem = train::planning_problem(*step.run);
      simulate::simulate_again(step.report, step.problem);
    }
  }

  void finish() { tools::finish(options_, reader_, std::move(steps_), line_); }
  bool has_plans() const {
    return std::ranges::any_of(steps_, [](const auto& step) { return step.report.planned(); });
  }

 private:
  static constexpr int kProbeRounds = 9;

  /// Policies that have equal graphs.
  struct Benchmark {
    std::vector<std::size_t> steps;  // indices, by policy of the program
    std::unique_ptr<train::PolicyBenchmark> program;
  };

  /// A program of a single class has policy `serial` after the others where costs are measured: a rewrite makes
  /// collectives that other graphs don't have.
  void make_benchmarks() {
    std::map<std::string, std::vector<std::size_t>> by_graphs;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (steps_[i].report.planned()) by_graphs[graphs_of(*steps_[i].run)].push_back(i);
    }
    for (auto& [graphs, indices] : by_graphs) {
      const study::PolicyStep& first = steps_[indices.front()];
      std::vector<policy::NamedPolicy> policies;
      for (const std::size_t i : indices) policies.push_back(steps_[i].report.policy);
      line_.tell({fmt::format("planning {} policies for {}", policies.size(), graphs)});
      if (measures_costs_ && first.problem.classes.size() == 1) policies.push_back(policy::named_policy("serial"));
      benchmarks_.push_back({std::move(indices), std::make_unique<train::PolicyBenchmark>(world_, *first.run, policies,
                                                                                          first.problem.options)});
    }
  }

  void run_once(Benchmark& each, bool counts) {
    for (std::size_t policy = 0; policy < each.steps.size(); ++policy) {
      const double ns = each.program->run(policy);
      if (!counts) continue;
      study::PolicyStep& step = steps_[each.steps[policy]];
      step.measured.ns.push_back(ns);
      step.measured.last = of_classes(each.program->last_trace(policy), step.problem);
      if (world_.rank() == 0) add_times(step);
    }
  }

  /// The traces of the ranks that stand for their classes, each since its own begin: ranks leave a barrier within
  /// microseconds of one another.
  std::vector<plan::StepTrace> of_classes(const plan::StepTrace& own, const simulate::Problem& problem) const {
    std::vector<std::int64_t> numbers = {own.end - own.begin};
    for (const auto& stream : own.times) {
      numbers.push_back(std::ssize(stream));
      for (const plan::TaskTime& time : stream)
        numbers.insert(numbers.end(), {time.begin - own.begin, time.end - own.begin});
    }
    const auto all = world_.all_gather_bytes(std::as_bytes(std::span(numbers)));
    std::vector<plan::StepTrace> traces;
    for (std::size_t k = 0; k < problem.classes.size(); ++k) {
      const auto rank = graph::rank_of(problem.grid, {.pipe = static_cast<std::int64_t>(k)});
      const std::vector<std::byte>& bytes = all[static_cast<std::size_t>(rank)];
      numbers.resize(bytes.size() / sizeof(std::int64_t));
      std::memcpy(numbers.data(), bytes.data(), bytes.size());
      plan::StepTrace& trace = traces.emplace_back();
      trace.end = numbers.front();
      for (std::size_t at = 1; at < numbers.size();) {
        auto& stream = trace.times.emplace_back(static_cast<std::size_t>(numbers[at++]));
        for (plan::TaskTime& time : stream) {
          time.begin = numbers[at++];
          time.end = numbers[at++];
        }
      }
    }
    // All classes' steps end with the last one's.
    std::int64_t end = 0;
    for (const plan::StepTrace& trace : traces) end = std::max(end, trace.end);
    for (plan::StepTrace& trace : traces) trace.end = end;
    return traces;
  }

  void add_times(study::PolicyStep& step) const {
    simulate::PlayedClasses played{.plans = step.report.plans()};
    for (const plan::StepTrace& trace : step.measured.last) played.steps.push_back(&trace);
    const std::vector<simulate::ClassTimes> times = simulate::class_times(played);
    std::vector<simulate::ClassTimes>& means = step.measured.times;
    means.resize(times.size());
    const double share = 1.0 / options_.measured_rounds;
    using Times = simulate::ClassTimes;
    for (std::size_t k = 0; k < times.size(); ++k) {
      for (const auto time : {&Times::compute, &Times::idle_warm_up, &Times::idle_steady, &Times::idle_drain,
                              &Times::idle_end, &Times::communication, &Times::exposed}) {
        means[k].*time += share * times[k].*time;
      }
    }
  }

  comm::World& world_;
  const CompareOptions& options_;
  const train::ResolvedRun& run_;
  StatusLine& line_;
  StepReader reader_;
  std::shared_ptr<const cost::Profile> profile_;  // null: costs are the machine's
  bool measures_costs_ = false;
  std::vector<study::PolicyStep> steps_;
  std::vector<Benchmark> benchmarks_;
};

int simulate_and_measure(const CompareOptions& options) {
  return train::run_on_ranks(launched(options.config), [&](comm::World& world, const train::ResolvedRun& run) {
    if (world.rank() == 0) expect_outputs(options.outputs);
    StatusLine line(world.rank() == 0 && !options.quiet && !options.json);
    MeasuredComparison comparison(world, options, run, line);
    if (comparison.has_plans()) comparison.measure();
    if (world.rank() == 0) comparison.finish();
    world.barrier();
    return 0;
  });
}

int compare(CompareOptions& options) {
  options.trust(options.policies);
  train::leave_out_library(options.config);
  if (options.open) {
    if (options.measure) refuse_for_open_graph("--measure", "a step that can be executed");
    if (options.machine_costs) refuse_for_open_graph("--machine-costs", "a step that can be executed");
  }
  if (options.machine_costs && !options.measure) {
    throw UserError("--machine-costs without --measure",
                    "a comparison that measures; others take the machine's costs unless --profile names some",
                    "add --measure, or leave --machine-costs out");
  }
  if (options.measure && !options.scales.empty()) {
    throw UserError("--scale with --measure", "a comparison that only simulates: measured tasks take their own time",
                    "leave one of the two out");
  }
  if (options.machine_costs && !options.config.profile.empty()) {
    throw UserError(fmt::format("--machine-costs and --profile {}", options.config.profile), "one source of costs",
                    "leave one of the two out");
  }
  // A name that nobody knows is told before anything is measured.
  for (const std::string& name : options.policies) {
    if (name != "all") (void)policy::named_policy(name, options.config.libraries);
  }
  return options.measure ? simulate_and_measure(options) : simulate_only(options);
}

}  // namespace

Command describe_compare() {
  Command command{"compare", "many policies on one step, beside the bound that no policy can beat"};
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
                    "a rank that computes 1.2 times as long; all ranks are simulated; 0: once, without noise",
                    0, 10));
  command.add(scale_option(options->scales));
  command.add({.names = "--json", .target = &options->json, .help = "print the figures as JSON"});
  command.add({.names = "--markdown", .target = &options->markdown, .help = "print tables as Markdown"});
  command.add({.names = "--quiet", .target = &options->quiet, .help = "print only the tables and errors"});
  command.add(repeated(path_option("-o,--output", &options->outputs, "FILE|FOLDER",
                                   "write .csv, .md, .json or .svg, as its ending says; a name without an ending "
                                   "is a folder, which keeps what `weft report` draws; may be repeated")));
  const ConfigOptions config(command);
  command.description =
      "gap: how far the step is above the bound of the policy's own graph.\n"
      "hidden: the share that the policy saves of the time between the serial step and the bound of its own graph.\n"
      "*: a row whose graph the policy rewrote.\n"
      "bubble, there: the share of all ranks' time without a computation, of pipelines; in the measured steps.\n"
      "exposed, memory: of the rank of a pipeline that has most.\n"
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
  command.run = [options, config] { return config.on_step(*options, [&] { return compare(*options); }); };
  return command;
}

}  // namespace weft::tools
