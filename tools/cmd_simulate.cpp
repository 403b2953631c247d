// `weft simulate`: how long a step of a configuration would take on a machine that need not be at hand.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/printable.h"
#include "base/text/json_object.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "inspect/drawing/pipeline_chart.h"
#include "inspect/drawing/timeline.h"
#include "inspect/formats/chrome_trace.h"
#include "ops/model_flops.h"
#include "runtime/cost/machine_numbers.h"
#include "runtime/plan/recording.h"
#include "runtime/simulate/certify/window_bounds.h"
#include "study/policy_step.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"
#include "tools/input/step_input.h"
#include "train/run/model_speed.h"

namespace weft::tools {
namespace {

constexpr double kLeastSlow = 0.01, kMostSlow = 1000;

struct SlowRank {
  std::optional<std::int64_t> rank = {};  // the first one
  double factor = 1;                      // on its computations
};

struct SimulateOptions : StepSource {
  int steps = 1;
  double noise = 0;
  SlowRank slow_rank;
  std::string trace, svg;
  bool json = false;
};

// A rank more is a row more of every picture.
constexpr std::int64_t kTracedRanks = 8;

SlowRank parse_slow_rank(const std::string& text) {
  const std::size_t equals = text.find('=');
  const bool named = equals != std::string::npos;
  SlowRank slow;
  if (named) slow.rank = number_in<std::int64_t>(text.substr(0, equals));
  slow.factor = number_in<double>(std::string_view(text).substr(named ? equals + 1 : 0)).value_or(0);
  const bool good = (!named || slow.rank.value_or(-1) >= 0) && slow.factor >= kLeastSlow && slow.factor <= kMostSlow;
  if (good) return slow;
  throw UserError(fmt::format("--slow-rank {}", text),
                  fmt::format("a factor from {} to {}, or a rank and a factor", kLeastSlow, kMostSlow),
                  "--slow-rank 1.5, or --slow-rank 3=1.5");
}

/// Of the ranks; a graph file has none.
std::optional<graph::Grid> grid_of(const study::PolicyStep& step) {
  return step.run ? std::optional(step.problem.grid) : std::nullopt;
}

std::string times_text(const simulate::Report& planned) {
  const simulate::ClassReport& own = planned.most_exposed();
  std::string text =
      fmt::format("bounds        {}; the step is {:.1f} % above the greatest\n",
                  study::bounds_text(planned.bounds, [](double ns) { return format_time(ns); }), 100 * planned.gap());
  text += fmt::format("computing     {}, {} of it because of communication beside it\n",
                      format_time(static_cast<double>(own.overlap.compute)),
                      format_time(planned.simulation.ranks.front().contention_ns));
  text += fmt::format("communicating {}, {} exposed; {:.1f} % overlapped\n",
                      format_time(static_cast<double>(own.overlap.communication)),
                      format_time(static_cast<double>(own.overlap.exposed)), 100 * own.overlap.overlap_fraction());
  for (const simulate::ChannelTimes& channel : own.channels) {
    text += fmt::format("  {:<11} {}, {} exposed\n", channel.stream, format_time(channel.busy_ns),
                        format_time(channel.exposed_ns));
  }
  return text;
}

/// Of a graph file.
std::vector<std::string> notes_of(const study::PolicyStep& step, const OpenInput* open) {
  std::vector<std::string> notes;
  if (open == nullptr) return notes;
  notes = open->graph.notes;
  if (const std::string off = open->reason_far_off(step.report); !off.empty()) notes.insert(notes.begin(), off + ".");
  if (!step.note.empty()) notes.push_back(step.note + ".");
  return notes;
}

std::string order_text(const simulate::Report& planned) {
  std::string text;
  if (const std::string order = planned.order_for_memory(); !order.empty())
    text += fmt::format("order         {}, since {}'s own takes too much memory\n", order, planned.policy.name);
  if (!planned.first().messages.empty())
    text += fmt::format("messages      {}, chosen by {}\n", planned.first().messages, planned.policy.name);
  if (const std::string rewrites = planned.rewrites_for_memory(); !rewrites.empty())
    text += fmt::format("rewrites      {}, chosen by {} to fit the memory\n", rewrites, planned.policy.name);
  if (const std::string_view proof = to_string(planned.proof()); !proof.empty())
    text += fmt::format("proof         {}\n", proof);
  return text;
}

/// The step as rows, as wide as a terminal, if it is one: of stages with a table of them.
std::string rows_of(const study::PolicyStep& step) {
  constexpr std::size_t kColumns = 100, kLeast = 40, kLeastOfStages = 60;
  const std::optional<std::size_t> width = output_width();
  const std::size_t columns = std::clamp(width.value_or(kColumns), kLeast, kColumns);
  if (step.has_stages()) {
    return "\n" + table_text(study::stages_table(step), width).plain() + "\n" +
           inspect::pipeline_text(inspect::pipeline_chart(step.report),
                                  static_cast<int>(std::max(columns, kLeastOfStages)));
  }
  const plan::Recording recording = study::recording_of(step.report, grid_of(step));
  return "\n" + inspect::timeline_text(recording, recording.ranks.front().steps.back(), static_cast<int>(columns));
}

void add_times(JsonObject& json, const simulate::Report& planned) {
  const simulate::ClassReport& own = planned.most_exposed();
  JsonObject bounds = study::bounds_json(planned.bounds, 1e-9);
  json.add("bounds_seconds", bounds.add("best", study::in_seconds(planned.bounds.best())))
      .add("gap", planned.gap())
      .add("compute_seconds", study::in_seconds(static_cast<double>(own.overlap.compute)))
      .add("compute_alone_seconds", study::in_seconds(own.alone.compute_ns))
      .add("contention_seconds", study::in_seconds(planned.simulation.ranks.front().contention_ns))
      .add("communication_seconds", study::in_seconds(static_cast<double>(own.overlap.communication)))
      .add("communication_alone_seconds", study::in_seconds(own.alone.communication_ns))
      .add("exposed_seconds", study::in_seconds(static_cast<double>(own.overlap.exposed)))
      .add("overlap_fraction", own.overlap.overlap_fraction());
}

JsonObject channels_of(const simulate::Report& planned) {
  JsonObject channels;
  for (const simulate::ChannelTimes& channel : planned.most_exposed().channels) {
    channels.add(channel.stream, JsonObject()
                                     .add("busy_seconds", study::in_seconds(channel.busy_ns))
                                     .add("exposed_seconds", study::in_seconds(channel.exposed_ns)));
  }
  return channels;
}

/// A second, by device.
double flops_a_device(const study::PolicyStep& step) {
  const train::RunConfig& config = step.run->config;
  return train::model_flops_per_second(config, step.report.step_ns()) / static_cast<double>(config.grid.ranks());
}

double flops_share(const study::PolicyStep& step) {
  const train::RunConfig& config = step.run->config;
  return train::model_flops_share(config, config.grid.ranks(), step.problem.machine, step.report.step_ns());
}

/// The first lines: what was simulated, and how long it takes.
std::string head_of(const study::PolicyStep& step, const OpenInput* open) {
  const simulate::Report& planned = step.report;
  const std::string& machine = step.problem.machine.name;
  const std::size_t tasks = planned.first().plan->sequence.size();
  if (open != nullptr) {
    const double recorded = open->recorded_ns();
    return fmt::format(
        "{}{}, policy {}: {} tasks\nstep          {}{}\n", open->title(), open->has_machine ? " on " + machine : "",
        planned.policy.name, tasks, format_time(planned.step_ns()),
        recorded > 0
            ? fmt::format("; recorded {}, {:+.1f} %", format_time(recorded), 100 * (planned.step_ns() / recorded - 1))
            : "");
  }
  const train::RunConfig& config = step.run->config;
  std::string text =
      fmt::format("{} on {} ranks ({}) of {}, policy {}: {} tasks a rank", config.model.name, config.grid.ranks(),
                  graph::to_string(config.grid), machine, planned.policy.name, tasks);
  if (step.has_stages()) {
    text += fmt::format(", {} micro-batches through {} stages", train::accumulation(config), config.pipeline.stages());
  }
  return text +
         fmt::format("\nstep          {}, {} tokens/s\n", format_time(planned.step_ns()),
                     human_count(step.tokens_per_second())) +
         fmt::format("arithmetic    {} operations/s a device, {:.1f} % of what its products reach (MFU)\n",
                     human_count(flops_a_device(step)), 100 * flops_share(step));
}

bool fits(const study::PolicyStep& step) {
  return static_cast<double>(step.report.memory_bytes()) <= step.problem.machine.memory_bytes;
}

std::string text_of(const study::PolicyStep& step, const OpenInput* open) {
  const simulate::Report& planned = step.report;
  std::string text = head_of(step, open) + times_text(planned);
  if (step.has_stages()) {
    text += fmt::format("bubble        {:.1f} % of the ranks' time is without a computation\n",
                        100 * simulate::bubble_share(planned.times()));
  }
  text += fmt::format("memory        {}", human_bytes(static_cast<std::uint64_t>(planned.memory_bytes())));
  if (step.run) {
    text += fmt::format(" of {}{}", human_bytes(static_cast<std::uint64_t>(step.problem.machine.memory_bytes)),
                        fits(step) ? "" : ": DOESN'T FIT");
  }
  text += "\n" + order_text(planned);
  if (step.run && !step.note.empty()) text += fmt::format("summation     {}\n", step.note);
  for (const std::string& note : notes_of(step, open)) text += fmt::format("note          {}\n", note);
  const bool by_machine = step.run && step.run->profile == nullptr;
  const std::string unsure = by_machine ? cost::unsure_text(cost::unsure_numbers(step.problem.machine)) : "";
  if (!unsure.empty()) text += fmt::format("machine       {}\n", unsure);
  return text + rows_of(step);
}

JsonObject json_of(const study::PolicyStep& step, const OpenInput* open, const std::vector<std::string>& files) {
  const simulate::Report& planned = step.report;
  JsonObject json;
  if (open != nullptr) {
    const double recorded = open->recorded_ns();
    json.add("graph", open->graph.name)
        .add("class", step.has_stages() ? "" : open->graph.classes[open->class_index].name)
        .add("world", open->graph.world)
        .add("recorded_seconds", recorded > 0 ? JsonValue(study::in_seconds(recorded)) : nullptr)
        .add("notes", notes_of(step, open));
  }
  if (step.run) {
    const train::RunConfig& config = step.run->config;
    json.add("model", config.model.name).add("grid", graph::to_string(config.grid));
    if (!step.has_stages()) json.add("ranks", config.grid.ranks());  // of stages, `ranks` lists their times
    json.add("tokens_per_second", step.tokens_per_second())
        .add("flops_per_device", flops_a_device(step))
        .add("flops_share", flops_share(step))
        .add("flops_counted", ops::kCountedFlops)
        .add("fits", fits(step))
        .add("messages", planned.first().messages)
        .add("rewrites_for_memory", planned.rewrites_for_memory())
        .add("summation_note", step.note)
        .add("unsure_numbers", cost::unsure_numbers(step.problem.machine));
  }
  json.add("machine", step.problem.machine.name)
      .add("policy", planned.policy.name)
      .add("tasks", planned.first().plan->sequence.size())
      .add("events", planned.simulation.events)
      .add("step_seconds", study::in_seconds(planned.step_ns()))
      .add("memory_bytes", planned.memory_bytes())
      .add("proof", to_string(planned.proof()))
      .add("order_for_memory", planned.order_for_memory());
  add_times(json, planned);
  if (step.has_stages()) study::add_stages(json, step);
  return json.add("channels", channels_of(planned)).add("files", files);
}

/// The traces of all classes, named as in a run's folder: step.json, step.stage1.json, …
std::vector<std::string> trace_files(const std::string& file, std::size_t classes) {
  const std::filesystem::path path = file;
  const std::string name = path.filename().string();
  const std::size_t ending = std::min(name.size(), name.ends_with(".json.gz") ? name.size() - 8 : name.rfind('.'));
  std::vector<std::string> files = {file};
  for (std::size_t k = 1; k < classes; ++k) {
    files.push_back(path.parent_path() / fmt::format("{}.stage{}{}", name.substr(0, ending), k, name.substr(ending)));
  }
  return files;
}

void write_traces(const std::vector<std::string>& files, const study::PolicyStep& step) {
  for (std::size_t k = 0; k < files.size(); ++k) {
    plan::Recording recording = study::recording_of(step.report, grid_of(step), k);
    if (step.report.simulation.ranks.size() == 1) recording.world = 1;  // a rank that stands for all
    inspect::write_chrome_file(files[k], recording, {}, Named::by_person);
  }
}

int run(const SimulateOptions& options) {
  std::vector<std::string> files;
  for (const std::string& file : {options.trace, options.svg}) {
    if (!file.empty()) expect_writable(file);
  }
  StepReader reader(options);
  study::PolicyStep step = reader.step();
  if (!options.trace.empty()) {
    files = trace_files(options.trace, step.problem.classes.size());
    if (files.size() > 1 && written_at_once(options.trace)) {
      throw UserError(fmt::format("-o {} with a step of several classes of ranks", options.trace),
                      "a file's name, beside which each class gets a trace of its own", "-o step.json");
    }
    for (const std::string& file : files) expect_writable(file);
  }
  simulate::SimulationOptions& simulation = step.problem.simulation;
  simulation.steps = options.steps;
  simulation.noise = options.noise;
  simulation.slow_rank = options.slow_rank.factor;
  if (const auto rank = options.slow_rank.rank) simulation.slowed = step.run ? *rank : reader.open()->place_of(*rank);
  simulation.seed = step.run ? step.run->config.seed : step.problem.options.seed;
  if (step.run) simulation.traced_ranks = kTracedRanks;
  plan_step(step);
  if (!step.report.planned()) throw UserError(step.report.refusal, "", "");
  simulate::prove_windows(step.problem, {&step.report, 1});
  write_traces(files, step);
  if (!options.svg.empty()) {
    write_durable(options.svg, study::picture_of({&step, 1}).svg(), Named::by_person);
    files.push_back(options.svg);
  }
  return print_result(options.json, json_of(step, reader.open(), files), text_of(step, reader.open()));
}

}  // namespace

Command describe_simulate() {
  Command command{"simulate", "how long a step would take on a machine that need not be at hand"};
  const auto options = std::make_shared<SimulateOptions>();
  command.add(
      number_option("--simulated-steps", &options->steps, "steps to simulate; the last one is reported", 1, 1000));
  command.add(noise_option(options->noise));
  command.add({.names = "--slow-rank",
               .target = [options](const std::string& value) { options->slow_rank = parse_slow_rank(value); },
               .value = "[RANK=]X",
               .help = "what if a rank, by default the first, computed X times as long? All ranks are simulated",
               .default_text = "1"});
  command.add(scale_option(options->scales));
  command.add(
      output_option(options->trace, "FILE.json[.gz]", "write a Chrome trace, for Perfetto; packed if it ends in .gz"));
  command.add(svg_option(options->svg, "draw the last step's timeline"));
  command.add({.names = "--json", .target = &options->json, .help = "print the figures as JSON"});
  const ConfigOptions config(command);
  command.description = ops::kMfuHelp;
  command.examples = {{"weft simulate --model gpt2-124m --ranks 2"},
                      {"weft simulate --model gpt-80b --machine frontier --grid x=4,z=8,data=256 --dtype bf16 "
                       "--recompute block --global-batch 8192 --micro-batch 1 -o step.json"},
                      {"weft simulate --model gpt2-124m --grid pipe=4 --global-batch 32 --policy zb-h1 --svg step.svg",
                       "a pipeline: each rank's bubbles, as papers draw them"},
                      {"weft simulate run.toml --machine my-cluster.toml --slow-rank 1=1.3 --json"}};
  command.run = [options, config] { return config.on_step(*options, [&] { return run(*options); }); };
  return command;
}

}  // namespace weft::tools
