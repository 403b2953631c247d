// `weft simulate`: how long a step of a configuration would take on a machine that need not be at hand.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/printable.h"
#include "base/text/json_object.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "inspect/drawing/timeline.h"
#include "inspect/formats/trace_file.h"
#include "runtime/cost/machine_numbers.h"
#include "runtime/plan/memory_report.h"
#include "runtime/plan/recording.h"
#include "runtime/simulate/certify/window_bounds.h"
#include "runtime/simulate/report.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"
#include "tools/input/scaled_problem.h"
#include "tools/input/trace_input.h"
#include "tools/pipeline/pipeline_step.h"
#include "train/config/resolved_run.h"
#include "train/step/planning.h"
#include "train/step/step_config.h"

namespace weft::tools {
namespace {

struct SimulateOptions {
  train::RunConfig config;           // not yet resolved
  std::optional<OpenSettings> open;  // in place of a configuration
  int steps = 1;
  double noise = 0, slow_rank = 1;
  std::string trace, svg;
  std::vector<cost::CostScale> scales;
  bool json = false;
};

// A rank more is a row more of every picture.
constexpr std::int64_t kTracedRanks = 8;

std::string bounds_text(const simulate::Report& planned) {
  std::string text = fmt::format(
      "bounds        critical path {}, work {}, one machine {}{}{}{}; the step is {:.1f} % above the greatest\n",
      format_time(planned.bounds.critical_path), format_time(planned.bounds.work),
      format_time(planned.bounds.one_machine),
      planned.bounds.contention > 0 ? ", contention " + format_time(planned.bounds.contention) : "",
      planned.bounds.energy > 0 ? ", cores " + format_time(planned.bounds.energy) : "",
      planned.bounds.windows > 0 ? ", windows " + format_time(planned.bounds.windows) : "", 100 * planned.gap());
  text += fmt::format("computing     {}, {} of it because of communication beside it\n",
                      format_time(static_cast<double>(planned.first().overlap.compute)),
                      format_time(planned.simulation.ranks.front().contention_ns));
  text += fmt::format("communicating {}, {} exposed; {:.1f} % overlapped\n",
                      format_time(static_cast<double>(planned.first().overlap.communication)),
                      format_time(static_cast<double>(planned.first().overlap.exposed)),
                      100 * planned.first().overlap.overlap_fraction());
  for (const simulate::ChannelTimes& channel : planned.first().channels) {
    text += fmt::format("  {:<11} {}, {} exposed\n", channel.stream, format_time(channel.busy_ns),
                        format_time(channel.exposed_ns));
  }
  return text;
}

std::string order_text(const simulate::Report& planned) {
  std::string text;
  if (const std::string order = planned.order_for_memory(); !order.empty())
    text += fmt::format("order         {}, since {}'s own takes too much memory\n", order, planned.policy.name);
  if (!planned.first().messages.empty())
    text += fmt::format("messages      {}, chosen by {}\n", planned.first().messages, planned.policy.name);
  if (const std::string rewrites = planned.rewrites_for_memory(); !rewrites.empty())
    text += fmt::format("rewrites      {}, chosen by {} to fit the memory\n", rewrites, planned.policy.name);
  return text;
}

/// As wide as a terminal, if it is one.
std::string rows_of(const plan::Recording& recording) {
  constexpr std::size_t kColumns = 100, kLeast = 40;
  const std::size_t columns = std::clamp(output_width().value_or(kColumns), kLeast, kColumns);
  return "\n" + inspect::timeline_text(recording, recording.ranks.front().steps.back(), static_cast<int>(columns));
}

double in_seconds(double ns) {
  return ns * 1e-9;
}

void add_times(JsonObject& json, const simulate::Report& planned) {
  const simulate::Bounds& bounds = planned.bounds;
  json.add("bounds_seconds", JsonObject()
                                 .add("critical_path", in_seconds(bounds.critical_path))
                                 .add("work", in_seconds(bounds.work))
                                 .add("one_machine", in_seconds(bounds.one_machine))
                                 .add("energy", in_seconds(bounds.energy))
                                 .add("contention", in_seconds(bounds.contention))
                                 .add("windows", in_seconds(bounds.windows))
                                 .add("best", in_seconds(bounds.best())))
      .add("gap", planned.gap())
      .add("compute_seconds", in_seconds(static_cast<double>(planned.first().overlap.compute)))
      .add("compute_alone_seconds", in_seconds(planned.first().alone.compute_ns))
      .add("contention_seconds", in_seconds(planned.simulation.ranks.front().contention_ns))
      .add("communication_seconds", in_seconds(static_cast<double>(planned.first().overlap.communication)))
      .add("communication_alone_seconds", in_seconds(planned.first().alone.communication_ns))
      .add("exposed_seconds", in_seconds(static_cast<double>(planned.first().overlap.exposed)))
      .add("overlap_fraction", planned.first().overlap.overlap_fraction());
}

JsonObject channels_of(const simulate::Report& planned) {
  JsonObject channels;
  for (const simulate::ChannelTimes& channel : planned.first().channels) {
    channels.add(channel.stream, JsonObject()
                                     .add("busy_seconds", in_seconds(channel.busy_ns))
                                     .add("exposed_seconds", in_seconds(channel.exposed_ns)));
  }
  return channels;
}

/// What the command tells, once computed.
struct Report {
  const train::RunConfig& config;
  const cost::Machine& machine;
  simulate::Report planned;
  bool profiled = false;  // costs were measured, not modelled by the machine
  plan::MemoryReport memory{};

  double seconds() const { return planned.step_ns() * 1e-9; }
  double tokens() const { return static_cast<double>(config.global_batch * config.seq_len); }
  /// Of the model's arithmetic (recompute isn't counted), by device.
  double flops_a_device() const {
    return config.model.train_flops_per_token(config.seq_len) * tokens() / seconds() /
           static_cast<double>(config.grid.ranks());
  }
  double flops_share() const { return flops_a_device() / machine.flops(config.dtype); }
  bool fits() const { return static_cast<double>(memory.total()) <= machine.memory_bytes; }
};

std::string text_of(const Report& report) {
  const simulate::Report& planned = report.planned;
  std::string text = fmt::format("{} on {} ranks ({}) of {}, policy {}: {} tasks a rank\n", report.config.model.name,
                                 report.config.grid.ranks(), graph::to_string(report.config.grid), report.machine.name,
                                 planned.policy.name, planned.first().plan->sequence.size());
  text += fmt::format("step          {}, {} tokens/s\n", format_time(planned.step_ns()),
                      human_count(report.tokens() / report.seconds()));
  text += fmt::format("arithmetic    {} operations/s a device, {:.1f} % of what its products reach\n",
                      human_count(report.flops_a_device()), 100 * report.flops_share());
  text += bounds_text(planned);
  text += fmt::format("memory        {} of {}{}\n", human_bytes(static_cast<std::uint64_t>(report.memory.total())),
                      human_bytes(static_cast<std::uint64_t>(report.machine.memory_bytes)),
                      report.fits() ? "" : ": DOESN'T FIT");
  text += order_text(planned);
  if (const std::string note = train::summation_note(report.config); !note.empty())
    text += fmt::format("summation     {}\n", note);
  const std::string unsure = report.profiled ? "" : cost::unsure_text(cost::unsure_numbers(report.machine));
  if (!unsure.empty()) text += fmt::format("machine       {}\n", unsure);
  return text + rows_of(recording_of(planned, report.config.grid));
}

JsonObject json_of(const Report& report, const std::vector<std::string>& files) {
  const simulate::Report& planned = report.planned;
  JsonObject json;
  json.add("model", report.config.model.name)
      .add("machine", report.machine.name)
      .add("grid", graph::to_string(report.config.grid))
      .add("ranks", report.config.grid.ranks())
      .add("policy", planned.policy.name)
      .add("tasks", planned.first().plan->sequence.size())
      .add("events", planned.simulation.events)
      .add("step_seconds", report.seconds())
      .add("tokens_per_second", report.tokens() / report.seconds())
      .add("flops_per_device", report.flops_a_device())
      .add("flops_share", report.flops_share());
  add_times(json, planned);
  return json.add("memory_bytes", report.memory.total())
      .add("fits", report.fits())
      .add("order_for_memory", planned.order_for_memory())
      .add("messages", planned.first().messages)
      .add("rewrites_for_memory", planned.rewrites_for_memory())
      .add("summation_note", train::summation_note(report.config))
      .add("unsure_numbers", cost::unsure_numbers(report.machine))
      .add("channels", channels_of(planned))
      .add("files", files);
}

void write_pictures(const SimulateOptions& options, const simulate::Report& planned,
                    const std::optional<graph::Grid>& grid) {
  if (!options.trace.empty()) {
    std::vector<plan::RankTrace> ranks;
    for (const simulate::SimulatedRank& rank : planned.simulation.ranks) ranks.push_back({rank.rank, rank.steps});
    const int all = planned.simulation.ranks.size() == 1 || !grid ? 1 : static_cast<int>(grid->ranks());
    inspect::write_chrome_file(options.trace, plan::record(*planned.first().plan, ranks, all, grid), {},
                               Named::by_person);
  }
  if (!options.svg.empty()) {
    const plan::Recording recording = recording_of(planned, grid);
    const inspect::TimelinePart part{"Simulated step, policy " + planned.policy.name, &recording,
                                     planned.bounds.best()};
    write_durable(options.svg, inspect::timeline_picture({&part, 1}).svg(), Named::by_person);
  }
}

std::vector<std::string> files_of(const SimulateOptions& options) {
  std::vector<std::string> files;
  for (const std::string& file : {options.trace, options.svg}) {
    if (!file.empty()) files.push_back(file);
  }
  return files;
}

std::string text_of(const OpenInput& input, const simulate::Report& planned, std::int64_t memory) {
  const double recorded = input.graph.classes[input.class_index].recorded_ns;
  std::string text = fmt::format("{}{}, policy {}: {} tasks\n", input.title(),
                                 input.has_machine ? " on " + input.problem.machine.name : "", planned.policy.name,
                                 planned.first().plan->sequence.size());
  text += fmt::format("step          {}", format_time(planned.step_ns()));
  if (recorded > 0) {
    text += fmt::format("; recorded {}, {:+.1f} %", format_time(recorded), 100 * (planned.step_ns() / recorded - 1));
  }
  text += "\n" + bounds_text(planned);
  text += fmt::format("memory        {}\n", human_bytes(static_cast<std::uint64_t>(memory)));
  text += order_text(planned);
  for (const std::string& note : input.graph.notes) text += fmt::format("note          {}\n", note);
  return text + rows_of(recording_of(planned, std::nullopt));
}

JsonObject json_of(const OpenInput& input, const simulate::Report& planned, std::int64_t memory,
                   const std::vector<std::string>& files) {
  const graph::OpenClass& one = input.graph.classes[input.class_index];
  JsonObject json;
  json.add("graph", input.graph.name)
      .add("class", one.name)
      .add("machine", input.problem.machine.name)
      .add("world", input.graph.world)
      .add("policy", planned.policy.name)
      .add("tasks", planned.first().plan->sequence.size())
      .add("events", planned.simulation.events)
      .add("step_seconds", in_seconds(planned.step_ns()))
      .add("recorded_seconds", one.recorded_ns > 0 ? JsonValue(in_seconds(one.recorded_ns)) : nullptr);
  add_times(json, planned);
  return json.add("memory_bytes", memory)
      .add("order_for_memory", planned.order_for_memory())
      .add("notes", input.graph.notes)
      .add("channels", channels_of(planned))
      .add("files", files);
}

int run_open(const SimulateOptions& options) {
  if (options.noise > 0) refuse_for_open_graph("--noise", "the step of one rank, without the others");
  if (options.slow_rank != 1) refuse_for_open_graph("--slow-rank", "the step of one rank, without the others");
  OpenInput input = open_input(*options.open);
  input.problem.simulation.steps = options.steps;
  scale_costs(input.problem, options.scales);
  simulate::Report planned = simulate::report_plan(input.problem, input.policy);
  if (!planned.planned()) throw UserError(planned.refusal, "", "");
  simulate::prove_windows(input.problem, {&planned, 1});
  const std::int64_t memory = planned.memory_bytes();
  if (!input.order_note.empty()) input.graph.notes.push_back(input.order_note + ".");
  write_pictures(options, planned, std::nullopt);
  if (options.json) {
    say("{}\n", json_of(input, planned, memory, files_of(options)).text());
  } else {
    say("{}", text_of(input, planned, memory));
  }
  return 0;
}

/// The traces of a pipeline's stages, named as in a run's folder: step.json, step.stage1.json, …
std::vector<std::string> trace_files(const std::string& file, std::int64_t stages) {
  const std::filesystem::path path = file;
  const std::string name = path.filename().string();
  const std::size_t ending = std::min(name.size(), name.ends_with(".json.gz") ? name.size() - 8 : name.rfind('.'));
  std::vector<std::string> files = {file};
  for (std::int64_t stage = 1; stage < stages; ++stage) {
    files.push_back(path.parent_path() /
                    fmt::format("{}.stage{}{}", name.substr(0, ending), stage, name.substr(ending)));
  }
  return files;
}

void write_traces(const std::vector<std::string>& files, const PipelineStep& step) {
  const graph::Grid& grid = step.problem.grid;
  for (std::size_t k = 0; k < files.size(); ++k) {
    const auto rank = graph::rank_of(grid, {.pipe = static_cast<std::int64_t>(k)});
    const plan::RankTrace trace{static_cast<int>(rank), step.report.rank(k).steps};
    const plan::Recording recording =
        plan::record(*step.report.classes[k].plan, {&trace, 1}, static_cast<int>(grid.ranks()), grid);
    inspect::write_chrome_file(files[k], recording, {}, Named::by_person);
  }
}

int run_pipeline(const SimulateOptions& options) {
  std::vector<std::string> traces;
  if (!options.trace.empty()) {
    if (written_at_once(options.trace)) {
      throw UserError(fmt::format("-o {} with a grid of pipeline stages", options.trace),
                      "a file's name, beside which each stage gets a trace of its own", "-o step.json");
    }
    traces = trace_files(options.trace, options.config.grid.pipe);
    for (const std::string& file : traces) expect_writable(file);
  }
  PipelineQuestion question{.scales = options.scales};
  question.simulation.steps = options.steps;
  question.simulation.noise = options.noise;
  question.simulation.slow_rank = options.slow_rank;
  const PipelineStep step = simulate_pipeline(options.config, "", question);
  if (!step.report.planned()) throw UserError(step.report.refusal, "", "");
  if (!options.svg.empty()) write_durable(options.svg, picture_of({step}).svg(), Named::by_person);
  write_traces(traces, step);
  if (options.json) {
    if (!options.svg.empty()) traces.push_back(options.svg);
    say("{}\n", pipeline_json(step).add("files", traces).text());
  } else {
    say("{}", pipeline_text(step, output_width()));
  }
  return 0;
}

int run(const SimulateOptions& options) {
  for (const std::string& file : {options.trace, options.svg}) {
    if (!file.empty()) expect_writable(file);
  }
  if (options.open) return run_open(options);
  if (is_pipeline(options.config)) return run_pipeline(options);
  const train::ResolvedRun run = train::resolve(options.config, 0);
  const train::RunConfig& config = run.config;
  simulate::Problem problem = train::planning_problem(run);
  scale_costs(problem, options.scales);
  problem.simulation.steps = options.steps;
  problem.simulation.noise = options.noise;
  problem.simulation.slow_rank = options.slow_rank;
  problem.simulation.seed = config.seed;
  problem.simulation.traced_ranks = kTracedRanks;
  Report report{.config = config,
                .machine = problem.machine,
                .planned = simulate::report_plan(problem, run.policy),
                .profiled = run.profile != nullptr};
  if (!report.planned.planned()) throw UserError(report.planned.refusal, "", "");
  simulate::prove_windows(problem, {&report.planned, 1});
  report.memory = report.planned.first().memory;
  write_pictures(options, report.planned, config.grid);
  if (options.json) {
    say("{}\n", json_of(report, files_of(options)).text());
  } else {
    say("{}", text_of(report));
  }
  return 0;
}

}  // namespace

Command describe_simulate() {
  Command command{"simulate", "how long a step would take on a machine that need not be at hand"};
  const auto options = std::make_shared<SimulateOptions>();
  command.add(
      number_option("--simulated-steps", &options->steps, "steps to simulate; the last one is reported", 1, 1000));
  command.add(noise_option(options->noise));
  command.add(number_option("--slow-rank", &options->slow_rank,
                            "how many times as long rank 0 computes; all ranks are simulated", 0.01, 1000));
  command.add(scale_option(options->scales));
  command.add(
      output_option(options->trace, "FILE.json", "write a Chrome trace, for Perfetto; packed if it ends in .gz"));
  command.add(svg_option(options->svg, "draw the last step's timeline"));
  command.add({.names = "--json", .target = &options->json, .help = "print the figures as JSON"});
  const ConfigOptions config(command);
  command.examples = {{"weft simulate --model gpt2-124m --ranks 2"},
                      {"weft simulate --model gpt-80b --machine frontier --grid x=4,z=8,data=256 --dtype bf16 "
                       "--recompute block --global-batch 8192 --micro-batch 1 -o step.json"},
                      {"weft simulate --model gpt2-124m --grid pipe=4 --global-batch 32 --policy zb-h1 --svg step.svg",
                       "a pipeline: each rank's bubbles, as papers draw them"},
                      {"weft simulate run.toml --machine my-cluster.toml --slow-rank 1.3 --json"}};
  command.run = [options, config] {
    options->open = config.open_graph();
    if (!options->open) {
      options->config = config.load();
      if (config.dump()) return print_config(options->config);
    }
    return run(*options);
  };
  return command;
}

}  // namespace weft::tools
