#include "tools/pipeline/compare_pipelines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/printable.h"
#include "base/status_line.h"
#include "base/text/text_table.h"
#include "runtime/plan/trace.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/simulate/certify/window_bounds.h"
#include "study/comparison_folder.h"
#include "study/comparison_output.h"
#include "tools/command_line/commands.h"
#include "train/measure/measure_profile.h"
#include "train/measure/policy_benchmark.h"
#include "train/run/launch_run.h"
#include "train/step/planning.h"

namespace weft::tools {
namespace {

bool is_picture(const std::string& output) {
  return output.ends_with(".svg");
}

void expect_pipeline_outputs(const CompareOptions& options) {
  for (const std::string& output : options.outputs) {
    if (!is_picture(output) && study::comparison_file_of(output) == study::ComparisonFile::folder) {
      study::expect_comparison_folder(output);
    } else {
      expect_writable(output);
    }
  }
}

/// The greatest of each over the stages.
study::MeasuredSteps measured_steps(const PipelineStep& step) {
  if (!step.measured) return {};
  study::MeasuredSteps steps = step.measured->steps;
  for (const simulate::ClassTimes& times : step.measured->times) {
    steps.exposed_ns = std::max(steps.exposed_ns, times.exposed);
    steps.communication_ns = std::max(steps.communication_ns, times.communication);
  }
  return steps;
}

/// With the figures that comparisons of one class have too.
study::Comparison comparison_of(const std::vector<PipelineStep>& steps) {
  const PipelineStep& first = steps.front();
  study::Comparison comparison;
  comparison.title = fmt::format("{}, {} ranks ({}), on {}", first.run.config.model.name, first.run.config.grid.ranks(),
                                 graph::to_string(first.run.config.grid), first.problem.machine.name);
  comparison.source = first.problem.options.cost_model->source();
  comparison.problem = simulate::bounds_of(first.problem);
  simulate::prove_windows(first.problem, {}, &comparison.problem);
  const bool measured = std::ranges::any_of(steps, [](const PipelineStep& step) { return step.measured.has_value(); });
  for (const PipelineStep& step : steps) {
    comparison.reports.push_back(step.report);
    if (step.disturbed) comparison.disturbed.push_back(*step.disturbed);
    if (measured) comparison.measured.push_back(measured_steps(step));
  }
  return comparison;
}

std::string file_of(study::ComparisonFile format, const std::vector<PipelineStep>& steps, const std::string& json,
                    const std::string& printed) {
  switch (format) {
    case study::ComparisonFile::csv:
      return study::comparison_csv(comparison_of(steps));
    case study::ComparisonFile::markdown:
      return pipeline_comparison_markdown(steps);
    case study::ComparisonFile::json:
      return json;
    case study::ComparisonFile::folder:
    case study::ComparisonFile::as_printed:
      break;
  }
  return printed;
}

void write_output(const std::string& output, const std::vector<PipelineStep>& steps, const std::string& json,
                  const std::string& printed) {
  const auto write = [&](const std::string& content) { write_durable(output, content, Named::by_person); };
  if (is_picture(output)) return write(picture_of(steps).svg());
  const study::ComparisonFile format = study::comparison_file_of(output);
  if (format != study::ComparisonFile::folder) return write(file_of(format, steps, json, printed));
  std::vector<const simulate::Problem*> problems;
  for (const PipelineStep& step : steps) problems.push_back(&step.problem);
  study::write_comparison(output, std::cref(steps.front().run.config),
                          study::keep_comparison(problems, comparison_of(steps), {}));
}

/// Steps that were planned come first; there is at least one.
void print_steps(const CompareOptions& options, std::vector<PipelineStep>& steps, StatusLine& line) {
  const auto planned = std::ranges::find_if(steps, [](const PipelineStep& step) { return step.report.planned(); });
  if (planned == steps.end()) throw UserError(steps.front().report.refusal, "", "");
  std::rotate(steps.begin(), planned, planned + 1);
  std::vector<ComparedPolicy> compared;
  for (const PipelineStep& step : steps) compared.push_back({step.problem, step.report});
  const std::vector<simulate::Robustness> noisy = disturbed(compared, options.noise, line);
  for (std::size_t i = 0; i < noisy.size(); ++i) steps[i].disturbed = noisy[i];
  std::vector<study::LimitedPlan> limited;
  if (options.pareto) limited = front_of(compared, line);
  std::vector<JsonObject> policies;
  for (const PipelineStep& step : steps) policies.push_back(pipeline_json(step));
  JsonObject told = JsonObject().add("policies", policies);
  if (options.pareto) told.add("pareto", study::front_json(limited));
  const std::string json = told.text() + "\n";
  const StyledText shown =
      options.json       ? StyledText(json)
      : options.markdown ? StyledText(pipeline_comparison_markdown(steps))
                         : pipeline_comparison(steps, output_width()).add(study::front_text(limited, output_width()));
  for (const std::string& output : options.outputs) write_output(output, steps, json, shown.plain());
  say(stdout, shown);
}

int simulate_pipelines(const CompareOptions& options) {
  expect_pipeline_outputs(options);
  StatusLine line(!options.quiet && !options.json);
  std::vector<PipelineStep> steps;
  const std::vector<std::string> names = compared_policies(options);
  for (const std::string& name : names) {
    line.tell({fmt::format("[{}/{}] planning and simulating {}", steps.size() + 1, names.size(), name),
               std::ssize(steps), std::ssize(names)});
    try {
      steps.push_back(simulate_pipeline(options.config, name, {options.scales, {}}));
    } catch (const UserError& error) {
      // A policy that wants more stages than there are layers doesn't end the options.
      if (names.size() == 1) throw;
      PipelineStep& refused = steps.emplace_back();
      refused.report.policy.name = name;
      refused.report.refusal = error.what();
    }
  }
  print_steps(options, steps, line);
  return 0;
}

/// The schedules of a comparison on one rank, and the programs that run them.
class MeasuredPipelines {
 public:
  MeasuredPipelines(comm::World& world, const CompareOptions& options, const train::ResolvedRun& run, StatusLine& line)
      : world_(world), options_(options), run_(run), line_(line) {
    profile_ = run.profile;
    measures_costs_ = profile_ == nullptr && !options.machine_costs;
    if (measures_costs_) {
      profile_ = std::make_shared<const cost::Profile>(train::measure_profile(
          world, run, options.profile_steps, kProbeRounds, [&](const Status& status) { line_.tell(status); }));
    }
    for (const std::string& name : compared_policies(options)) plan(name);
  }

  void measure() {
    std::optional<train::StageComputations> stage;
    train::StageSamples samples(world_);
    if (measures_costs_) stage.emplace(world_, run_);
    make_benchmarks();
    const int rounds = options_.measured_rounds;
    for (int round = -1; round < rounds; ++round) {  // the first one warms up
      line_.tell({fmt::format("round {} of {}", round + 1, rounds), round + 1, rounds});
      if (stage) round < 0 ? stage->run() : samples.run(*stage);
      for (Benchmark& each : benchmarks_) run_once(each, round >= 0);
    }
    if (!stage) return;
    // A machine's speed drifts by more than simulations err: schedules are planned with the profile, and judged by
    // costs that were measured in the same minutes as they.
    cost::Profile judging = *profile_;
    samples.write(stage->plan(), judging);
    profile_ = std::make_shared<const cost::Profile>(std::move(judging));
    for (PipelineStep& step : steps_) {
      if (world_.rank() != 0 || !step.report.planned()) continue;
      step.run.profile = profile_;
      step.problem = train::planning_problem(step.run);
      simulate::simulate_again(step.report, step.problem);
    }
  }

  std::vector<PipelineStep>& steps() { return steps_; }

 private:
  static constexpr int kProbeRounds = 9;

  /// Schedules that have equal graphs.
  struct Benchmark {
    std::vector<std::size_t> steps;  // indices, by policy of the program
    std::unique_ptr<train::PolicyBenchmark> program;
  };

  /// All ranks do the same, so all see the same refusals; rank 0 alone plans here.
  void plan(const std::string& name) {
    PipelineStep& step = steps_.emplace_back();
    step.report.policy.name = name;
    try {
      step.run = train::resolve_with(options_.config, name, world_.name() == "mpi" ? world_.size() : 0);
    } catch (const UserError& error) {
      step.report.refusal = error.what();
      return;
    }
    step.run.profile = profile_;
    line_.tell({fmt::format("planning and simulating {}", name)});
    if (world_.rank() == 0) {
      step.problem = train::planning_problem(step.run);
      step.report = simulate::report_plan(step.problem, step.run.policy);
      simulate::prove_windows(step.problem, {&step.report, 1});
    }
    const bool planned = world_.all_gather(step.report.planned() ? 1 : 0).front() != 0;
    if (!planned && world_.rank() != 0) step.report.refusal = "refused by rank 0";
  }

  void make_benchmarks() {
    std::map<std::string, std::vector<std::size_t>> by_layout;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (steps_[i].report.planned()) by_layout[layout_of(steps_[i].run.config)].push_back(i);
    }
    for (auto& [layout, indices] : by_layout) {
      const train::ResolvedRun& run = steps_[indices.front()].run;
      std::vector<policy::NamedPolicy> policies;
      for (const std::size_t i : indices) policies.push_back(steps_[i].run.policy);
      line_.tell({fmt::format("planning {} policies for {}", policies.size(), layout)});
      benchmarks_.push_back({std::move(indices), std::make_unique<train::PolicyBenchmark>(
                                                     world_, run, policies, train::planning_problem(run).options)});
    }
  }

  void run_once(Benchmark& each, bool counts) {
    for (std::size_t policy = 0; policy < each.steps.size(); ++policy) {
      const double ns = each.program->run(policy);
      if (!counts) continue;
      PipelineStep& step = steps_[each.steps[policy]];
      if (!step.measured) step.measured.emplace();
      step.measured->steps.ns.push_back(ns);
      const std::vector<plan::StepTrace> traces = of_stages(each.program->last_trace(policy));
      if (world_.rank() == 0) add_times(step, traces);
    }
  }

  /// The traces of the ranks that stand for their stages, each since its own begin: ranks leave a barrier within
  /// microseconds of one another.
  std::vector<plan::StepTrace> of_stages(const plan::StepTrace& own) const {
    std::vector<std::int64_t> numbers = {own.end - own.begin};
    for (const auto& stream : own.times) {
      numbers.push_back(std::ssize(stream));
      for (const plan::TaskTime& time : stream)
        numbers.insert(numbers.end(), {time.begin - own.begin, time.end - own.begin});
    }
    const auto all = world_.all_gather_bytes(std::as_bytes(std::span(numbers)));
    std::vector<plan::StepTrace> traces;
    for (std::int64_t pipe = 0; pipe < run_.config.grid.pipe; ++pipe) {
      const std::vector<std::byte>& bytes =
          all[static_cast<std::size_t>(graph::rank_of(run_.config.grid, {.pipe = pipe}))];
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
    // All stages' steps end with the last one's.
    std::int64_t end = 0;
    for (const plan::StepTrace& trace : traces) end = std::max(end, trace.end);
    for (plan::StepTrace& trace : traces) trace.end = end;
    return traces;
  }

  void add_times(PipelineStep& step, const std::vector<plan::StepTrace>& traces) const {
    simulate::PlayedClasses played{.plans = step.report.plans()};
    for (const plan::StepTrace& trace : traces) played.steps.push_back(&trace);
    const std::vector<simulate::ClassTimes> times = simulate::class_times(played);
    std::vector<simulate::ClassTimes>& means = step.measured->times;
    means.resize(times.size());
    const double share = 1.0 / options_.measured_rounds;
    for (std::size_t k = 0; k < times.size(); ++k) {
      means[k].compute += share * times[k].compute;
      means[k].idle_warm_up += share * times[k].idle_warm_up;
      means[k].idle_steady += share * times[k].idle_steady;
      means[k].idle_drain += share * times[k].idle_drain;
      means[k].idle_end += share * times[k].idle_end;
      means[k].communication += share * times[k].communication;
      means[k].exposed += share * times[k].exposed;
    }
  }

  /// Equal for configurations with equal graphs, given that they differ in the policy alone.
  static std::string layout_of(const train::RunConfig& config) {
    const graph::PipelineChunks& chunks = config.pipeline.chunks;
    return fmt::format("{} stages a rank ({}) of {} layers, micro-batches of {}", chunks.chunks,
                       to_string(chunks.placement), fmt::join(config.pipeline.layers, ","), config.micro_batch);
  }

  comm::World& world_;
  const CompareOptions& options_;
  const train::ResolvedRun& run_;
  StatusLine& line_;
  std::shared_ptr<const cost::Profile> profile_;  // null: costs are the machine's
  bool measures_costs_ = false;
  std::vector<PipelineStep> steps_;
  std::vector<Benchmark> benchmarks_;
};

int measure_pipelines(const CompareOptions& options) {
  return train::run_on_ranks(options.config, [&](comm::World& world, const train::ResolvedRun& run) {
    if (world.rank() == 0) expect_pipeline_outputs(options);
    StatusLine line(world.rank() == 0 && !options.quiet && !options.json);
    MeasuredPipelines pipelines(world, options, run, line);
    std::vector<PipelineStep>& steps = pipelines.steps();
    const auto planned = [](const PipelineStep& step) { return step.report.planned(); };
    if (std::ranges::any_of(steps, planned)) pipelines.measure();
    if (world.rank() == 0) print_steps(options, steps, line);
    world.barrier();
    return 0;
  });
}

}  // namespace

std::vector<std::string> compared_policies(const CompareOptions& options, bool recorded) {
  const bool pipeline = is_pipeline(options.config);
  std::vector<std::string> names;
  for (const std::string& name : options.policies) {
    if (name != "all") {
      names.push_back(name);
      continue;
    }
    if (recorded) names.emplace_back("recorded");
    for (const std::string& built_in : pipeline ? policy::pipeline_policy_names() : policy::graph_policy_names()) {
      if (built_in == "axonn") {
        names.insert(names.end(),
                     {"axonn:oar=off,ors=off,oag=off", "axonn:oar=on,ors=off,oag=off", "axonn:oar=on,ors=on,oag=off"});
      }
      names.push_back(built_in);
    }
  }
  return names;
}

std::vector<study::LimitedPlan> front_of(const std::vector<ComparedPolicy>& compared, StatusLine& line) {
  constexpr int kLimits = 6;
  std::vector<study::LimitedPlan> plans;
  std::int64_t least = INT64_MAX, greatest = 0;
  for (const auto& [problem, report] : compared) {
    if (!report.planned()) continue;
    plans.push_back({report.policy.name, 0, report.memory_bytes(), report.step_ns()});
    least = std::min(least, report.scratch_bytes());
    greatest = std::max(greatest, report.scratch_bytes());
  }
  for (int i = 0; i <= kLimits && greatest > least; ++i) {
    const std::int64_t limit = least + (greatest - least) * i / kLimits;
    line.tell({fmt::format("planning for {} MiB of scratch", limit >> 20), i, kLimits + 1});
    for (const auto& [problem, report] : compared) {
      if (!report.planned()) continue;
      simulate::Problem tight = problem;
      tight.options.memory_limit = limit;
      const simulate::Report limited = simulate::report_plan(tight, report.policy);
      if (!limited.planned() || limited.scratch_bytes() > limit) continue;
      plans.push_back({report.policy.name, limit, limited.memory_bytes(), limited.step_ns()});
    }
  }
  return study::pareto_front(std::move(plans));
}

std::vector<simulate::Robustness> disturbed(const std::vector<ComparedPolicy>& compared, double noise,
                                            StatusLine& line) {
  std::vector<simulate::Robustness> all;
  if (noise <= 0) return all;
  for (const auto& [problem, report] : compared) {
    line.tell({fmt::format("[{}/{}] disturbing {}", all.size() + 1, compared.size(), report.policy.name),
               std::ssize(all), std::ssize(compared)});
    all.push_back(report.planned() ? simulate::robustness_of(report, problem, {.noise = noise})
                                   : simulate::Robustness{});
  }
  return all;
}

int compare_pipelines(const CompareOptions& options) {
  return options.measure ? measure_pipelines(options) : simulate_pipelines(options);
}

}  // namespace weft::tools
