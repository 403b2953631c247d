// `weft timeline`: when which task ran, of a traced run or of a simulated step, as a picture or in the terminal.
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
#include "inspect/drawing/pipeline_chart.h"
#include "inspect/drawing/render.h"
#include "inspect/drawing/timeline.h"
#include "inspect/formats/chrome_trace.h"
#include "inspect/formats/graph_file.h"
#include "inspect/formats/recorded_file.h"
#include "inspect/report/trace_summary.h"
#include "runtime/simulate/certify/window_bounds.h"
#include "runtime/simulate/open_problem.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"
#include "tools/input/step_input.h"

namespace weft::tools {
namespace {

struct TimelineOptions : StepSource {
  std::string trace;  // a file or a folder; "": the configuration is simulated
  std::vector<std::string> compare;
  std::string output;
  bool text = false, json = false;
};

// A rank more is a row more of every picture.
constexpr std::size_t kMostDrawnRanks = 8;

/// Steps to draw: those of a trace, or one that was simulated.
struct TimelineInput {
  std::string title;
  plan::Recording recording = {};              // empty: of several classes, which are drawn together
  double bound_ns = 0;                         // of a simulated step; 0: not known
  std::optional<study::PolicyStep> step = {};  // that was simulated

  bool has_stages() const { return step && step->has_stages(); }
};

/// Is it a trace file (FILE.json, FILE.json.gz) or a folder, rather than a configuration or a policy?
bool names_a_trace(const std::string& name) {
  std::error_code error;
  if (inspect::is_graph_file(name)) return false;
  return name.ends_with(".json") || name.ends_with(".json.gz") || std::filesystem::is_directory(name, error);
}

/// Of a file that weft wrote, or a run folder's trace.json.
TimelineInput read_trace(const std::string& name) {
  TimelineInput input{.title = {}, .recording = inspect::read_recording(inspect::find_trace(name))};
  std::vector<plan::RecordedRank>& ranks = input.recording.ranks;
  if (ranks.empty() || ranks.front().steps.empty()) {
    throw UserError(name + " holds no step", "a trace of at least one", "--trace-steps 1 or more when it is made");
  }
  input.title = fmt::format("{}: step {}, policy {}", name, ranks.front().steps.back().step, input.recording.policy);
  ranks.resize(std::min(ranks.size(), kMostDrawnRanks));
  return input;
}

/// With the traces of the first ranks where ranks differ.
TimelineInput simulate_step(StepReader& reader, const std::string& policy) {
  study::PolicyStep step = reader.step(policy);
  step.problem.simulation.traced_ranks = kMostDrawnRanks;
  plan_step(step);
  const simulate::Report& report = step.report;
  if (!report.planned()) throw UserError(report.refusal, "", "");
  if (step.has_stages()) simulate::prove_windows(step.problem, {&step.report, 1});
  const std::string& machine = step.problem.machine.name;
  TimelineInput input{
      .title = fmt::format("policy {}: step {}{}, simulated", report.policy.name, format_time(report.step_ns()),
                           machine == simulate::kNoMachine ? "" : " on " + machine),
      .bound_ns = report.bounds.best()};
  if (!step.has_stages())
    input.recording = study::recording_of(report, step.run ? std::optional(step.problem.grid) : std::nullopt);
  input.step = std::move(step);
  return input;
}

/// What the words name, in their order; without words, the trace or the configuration's own policy.
std::vector<TimelineInput> inputs_of(const TimelineOptions& options) {
  std::vector<std::string> names = options.compare;
  if (names.empty()) names.push_back(options.trace);
  std::optional<StepReader> reader;  // made if a policy is simulated
  std::vector<TimelineInput> inputs;
  for (const std::string& name : names) {
    if (names_a_trace(name)) {
      inputs.push_back(read_trace(name));
    } else {
      if (!reader) reader.emplace(options);
      inputs.push_back(simulate_step(*reader, name));
    }
    if (inputs.back().has_stages() != inputs.front().has_stages()) {
      throw UserError(fmt::format("--compare {} with a step of several classes of ranks", name), "policies",
                      "weft timeline TRACE draws the ranks of one class");
    }
  }
  return inputs;
}

void print_text(const std::vector<TimelineInput>& inputs) {
  // A line that is wider than its terminal would be broken.
  constexpr std::size_t kColumns = 100, kLeast = 40;
  const auto columns = static_cast<int>(std::clamp(output_width().value_or(kColumns), kLeast, kColumns));
  for (const TimelineInput& input : inputs) {
    if (input.has_stages()) {
      const simulate::Report& report = input.step->report;
      say("{}, bubble {:.1f} %\n{}", input.title, 100 * simulate::bubble_share(report.times()),
          inspect::pipeline_text(inspect::pipeline_chart(report), columns));
    } else {
      say("{}\n", input.title);
    }
    for (const plan::RecordedRank& rank : input.recording.ranks) {
      if (input.recording.ranks.size() > 1) say("rank {}\n", rank.rank);
      if (!rank.steps.empty()) say("{}", inspect::timeline_text(input.recording, rank.steps.back(), columns));
    }
    if (input.bound_ns > 0) {
      say("lower bound {}: no policy is faster on this graph\n", format_time(input.bound_ns));
    }
    if (input.step && !input.step->note.empty()) say("note: {}\n", input.step->note);
  }
}

/// 1, not 1.0.
JsonValue brief(double number) {
  return JsonValue::written(fmt::format("{}", number));
}

/// The sums of each rank's last step.
std::vector<JsonObject> ranks_json(const plan::Recording& recording) {
  std::vector<JsonObject> ranks;
  for (const plan::RecordedRank& rank : recording.ranks) {
    if (rank.steps.empty()) continue;
    const inspect::StepSummary of = inspect::summarize_step(recording, rank, rank.steps.back(), 0);
    JsonObject busy;
    for (std::size_t i = 0; i < of.stream_busy.size(); ++i)
      busy.add(recording.streams[i].name, brief(of.stream_busy[i]));
    ranks.push_back(JsonObject()
                        .add("rank", of.rank)
                        .add("step", of.number)
                        .add("step_ns", of.overlap.step)
                        .add("compute_ns", of.overlap.compute)
                        .add("communication_ns", of.overlap.communication)
                        .add("exposed_ns", of.overlap.exposed)
                        .add("idle_ns", of.idle)
                        .add("overlap_fraction", brief(of.overlap.overlap_fraction()))
                        .add("stream_busy_fraction", busy));
  }
  return ranks;
}

std::string json_of(const std::vector<TimelineInput>& inputs, const std::string& file) {
  std::vector<JsonObject> parts;
  for (const TimelineInput& input : inputs) {
    JsonObject part;
    part.add("title", input.title);
    if (input.bound_ns > 0) part.add("bound_ns", brief(input.bound_ns));
    if (input.has_stages()) {
      const simulate::Report& report = input.step->report;
      part.add("policy", report.policy.name).add("gap", report.gap()).add("memory_bytes", report.memory_bytes());
      study::add_step(part, *input.step);
    } else {
      part.add("policy", input.recording.policy)
          .add("tasks", input.recording.tasks.size())
          .add("ranks", ranks_json(input.recording));
    }
    parts.push_back(part.add("summation_note", input.step ? input.step->note : ""));
  }
  JsonObject json;
  if (!file.empty()) json.add("file", file);
  return json.add("parts", parts).text();
}

/// Pipelines are drawn as papers do: a row a stage, a box a micro-batch.
inspect::Picture picture_of(const std::vector<TimelineInput>& inputs) {
  std::vector<inspect::PipelineChart> charts;
  std::vector<inspect::TimelinePart> parts;
  for (const TimelineInput& input : inputs) {
    if (input.has_stages()) charts.push_back(inspect::pipeline_chart(input.step->report, input.step->problem.grid));
    parts.push_back({input.title, &input.recording, input.bound_ns});
  }
  return charts.empty() ? inspect::timeline_picture(parts) : inspect::pipeline_picture(charts);
}

int run(const TimelineOptions& options) {
  if (options.json && options.text) {
    throw UserError("--json with --text", "one of them: both are printed", "leave --text out");
  }
  const bool png = options.output.ends_with(".png");
  if (!options.output.empty()) {
    if (!png && !options.output.ends_with(".svg")) {
      throw UserError("the format of " + options.output + " is unknown", "a file that ends in .svg or .png",
                      "-o timeline.svg");
    }
    expect_writable(options.output);
  }
  const std::vector<TimelineInput> inputs = inputs_of(options);
  const bool draws = !options.output.empty();
  if (!options.json && (options.text || !draws)) print_text(inputs);
  if (draws) {
    const inspect::Picture picture = picture_of(inputs);
    write_durable(options.output, png ? inspect::render_png(picture) : picture.svg(), Named::by_person);
  }
  if (options.json) {
    say("{}\n", json_of(inputs, options.output));
  } else if (draws && !options.text) {
    say("{}\n", options.output);
  }
  return 0;
}

}  // namespace

Command describe_timeline() {
  Command command{"timeline", "when which task ran: of a trace, or of a simulated step"};
  const auto options = std::make_shared<TimelineOptions>();
  command.add(output_option(options->output, "FILE", "the picture to write, .svg or .png; without it text is printed"));
  command.add({.names = "--text", .target = &options->text, .help = "print it as text, one row a stream"});
  command.add({.names = "--compare",
               .target = &options->compare,
               .value = "POLICY|TRACE",
               .help = "policies, or traces, below each other on one time axis",
               .suggestions = policy_words(),
               .paths = Paths::files});
  command.add({.names = "--json",
               .target = &options->json,
               .help = "print the sums of each rank's last step as one JSON object"});
  const ConfigOptions config(command);
  command.description =
      "Instead of a TOML file a trace (FILE.json, FILE.json.gz) or the folder of a run may be named; a configuration "
      "is planned by --policy and simulated on --machine (default: laptop) or by --profile. The dark line above the "
      "bars is the chain of tasks that the step's length comes from.";
  command.examples = {
      {"weft timeline runs/tiny -o step.svg"},
      {"weft timeline --model gpt2-124m --grid y=2,z=2 --machine dgx-h100 --text"},
      {"weft timeline --model gpt2-124m --ranks 4 --compare serial program critical-path -o policies.png"}};
  command.run = [options, config] {
    const auto draw = [&] {
      options->trust(options->compare);
      if (!options->compare.empty()) train::leave_out_library(options->config);
      return run(*options);
    };
    if (!names_a_trace(config.file())) return config.on_step(*options, draw);
    options->trace = config.file();
    return draw();
  };
  return command;
}

}  // namespace weft::tools
