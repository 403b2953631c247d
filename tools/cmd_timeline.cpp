// `weft timeline`: when which task ran, of a traced run or of a simulated step, as a picture or in the terminal.
#include <fmt/format.h>

#include <algorithm>
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
#include "inspect/drawing/pipeline_chart.h"
#include "inspect/drawing/render.h"
#include "inspect/drawing/timeline.h"
#include "inspect/report/trace_summary.h"
#include "runtime/policy/catalog/policies.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"
#include "tools/input/trace_input.h"
#include "tools/pipeline/pipeline_step.h"

namespace weft::tools {
namespace {

struct TimelineOptions {
  std::string trace;                 // a file or a folder; "": the configuration is simulated
  train::RunConfig config;           // not yet resolved
  std::optional<OpenSettings> open;  // in place of a configuration
  std::vector<std::string> compare;
  std::vector<int> ranks;
  std::string output;
  bool text = false, json = false;
  int columns = 100;
};

// A rank more is a row more of every picture.
constexpr int kMostDrawnRanks = 8;

/// The ranks that were asked for, else the first ones.
void narrow(plan::Recording& recording, const std::vector<int>& wanted) {
  std::vector<plan::RecordedRank> kept;
  std::vector<std::string> known;
  for (const plan::RecordedRank& rank : recording.ranks) {
    known.push_back(fmt::format("{}", rank.rank));
    const bool asked = std::find(wanted.begin(), wanted.end(), rank.rank) != wanted.end();
    if (asked || (wanted.empty() && kept.size() < kMostDrawnRanks)) kept.push_back(rank);
  }
  for (const int rank : wanted) {
    if (std::any_of(kept.begin(), kept.end(), [&](const plan::RecordedRank& one) { return one.rank == rank; }))
      continue;
    throw UserError(fmt::format("--rank {}: there is no trace of that rank", rank),
                    "a rank that was traced: " + join(known) + " (where all behave alike, rank 0 stands for them)",
                    "--rank " + (known.empty() ? "0" : known.front()));
  }
  recording.ranks = std::move(kept);
}

/// The words that name a trace or a policy to simulate, in the order of the command line.
std::vector<TraceInput> compared(const TimelineOptions& options, int most) {
  std::vector<std::optional<policy::NamedPolicy>> policies;  // null: a trace
  for (const std::string& name : options.compare) {
    policies.push_back(names_a_trace(name) ? std::nullopt
                                           : std::optional(policy::named_policy(name, options.config.libraries)));
  }
  std::optional<train::ResolvedRun> run;  // made if a policy is simulated
  std::optional<OpenInput> open;
  std::vector<TraceInput> inputs;
  for (std::size_t i = 0; i < policies.size(); ++i) {
    if (policies[i] && options.open) {
      if (!open) open = open_input(*options.open);
      inputs.push_back(simulate_step(open->problem, *policies[i], most, std::nullopt));
      inputs.back().summation_note = open->order_note;
      continue;
    }
    if (policies[i] && !run) {
      train::RunConfig config = options.config;
      train::leave_out_library(config);
      run = train::resolve(std::move(config), 0);
    }
    inputs.push_back(policies[i] ? simulate_step(*run, *policies[i], most) : read_trace(options.compare[i]));
  }
  return inputs;
}

std::vector<TraceInput> inputs_of(const TimelineOptions& options) {
  const int most =
      options.ranks.empty() ? kMostDrawnRanks : *std::max_element(options.ranks.begin(), options.ranks.end()) + 1;
  std::vector<TraceInput> inputs;
  if (!options.compare.empty()) {
    inputs = compared(options, most);
  } else if (!options.trace.empty()) {
    inputs.push_back(read_trace(options.trace));
  } else if (options.open) {
    const OpenInput open = open_input(*options.open);
    inputs.push_back(simulate_step(open.problem, open.policy, most, std::nullopt));
    inputs.back().summation_note = open.order_note;
  } else {
    const train::ResolvedRun run = train::resolve(options.config, 0);
    inputs.push_back(simulate_step(run, run.policy, most));
  }
  for (TraceInput& input : inputs) narrow(input.recording, options.ranks);
  return inputs;
}

/// A line that is wider than its terminal would be broken.
int text_columns(int asked) {
  constexpr int kLeast = 40;
  const auto width = output_width();
  return width ? std::min(asked, std::max(kLeast, static_cast<int>(*width))) : asked;
}

void print_text(const std::vector<TraceInput>& inputs, int columns) {
  for (const TraceInput& input : inputs) {
    say("{}\n", input.title);
    for (const plan::RecordedRank& rank : input.recording.ranks) {
      if (input.recording.ranks.size() > 1) say("rank {}\n", rank.rank);
      if (!rank.steps.empty()) say("{}", inspect::timeline_text(input.recording, rank.steps.back(), columns));
    }
    if (input.bound_ns > 0) {
      say("lower bound {:.2f} ms: no policy is faster on this graph\n", input.bound_ns * 1e-6);
    }
    if (!input.summation_note.empty()) say("note: {}\n", input.summation_note);
  }
}

/// 1, not 1.0.
JsonValue brief(double number) {
  return JsonValue::written(fmt::format("{}", number));
}

/// The sums of each rank's last step.
std::string json_of(const std::vector<TraceInput>& inputs, const std::string& file) {
  std::vector<JsonObject> parts;
  for (const TraceInput& input : inputs) {
    std::vector<JsonObject> ranks;
    for (const plan::RecordedRank& rank : input.recording.ranks) {
      if (rank.steps.empty()) continue;
      const inspect::StepSummary of = inspect::summarize_step(input.recording, rank, rank.steps.back(), 0);
      JsonObject busy;
      for (std::size_t i = 0; i < of.stream_busy.size(); ++i) {
        busy.add(input.recording.streams[i].name, brief(of.stream_busy[i]));
      }
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
    JsonObject part;
    part.add("title", input.title).add("policy", input.recording.policy).add("tasks", input.recording.tasks.size());
    if (input.bound_ns > 0) part.add("bound_ns", brief(input.bound_ns));
    parts.push_back(part.add("ranks", ranks).add("summation_note", input.summation_note));
  }
  JsonObject json;
  if (!file.empty()) json.add("file", file);
  return json.add("parts", parts).text();
}

/// Pipelines are drawn as papers do: a row a stage, a box a micro-batch.
int draw_pipelines(const TimelineOptions& options) {
  if (!options.ranks.empty()) {
    throw UserError("--rank with a grid of pipeline stages", "all stages, each by one of its ranks",
                    "leave --rank out");
  }
  std::vector<PipelineStep> steps;
  for (const std::string& name : options.compare.empty() ? std::vector<std::string>{""} : options.compare) {
    if (names_a_trace(name)) {
      throw UserError(fmt::format("--compare {} with a grid of pipeline stages", name), "policies",
                      "weft timeline TRACE draws the ranks of one stage");
    }
    steps.push_back(simulate_pipeline(options.config, name, {}));
    if (!steps.back().report.planned()) throw UserError(steps.back().report.refusal, "", "");
  }
  std::vector<JsonObject> parts;
  for (const PipelineStep& step : steps) {
    parts.push_back(pipeline_json(step));
    if (!options.json && (options.text || options.output.empty())) {
      say("{}: step {:.2f} ms, bubble {:.1f} %\n{}", step.report.policy.name, step.report.step_ns() * 1e-6,
          100 * simulate::bubble_share(step.report.times()),
          inspect::pipeline_text(inspect::pipeline_chart(step.report), text_columns(options.columns)));
    }
  }
  if (!options.output.empty()) {
    const inspect::Picture picture = picture_of(steps);
    const bool png = options.output.ends_with(".png");
    write_durable(options.output, png ? inspect::render_png(picture) : picture.svg(), Named::by_person);
  }
  JsonObject json;
  if (!options.output.empty()) json.add("file", options.output);
  if (options.json) {
    say("{}\n", json.add("parts", parts).text());
  } else if (!options.output.empty() && !options.text) {
    say("{}\n", options.output);
  }
  return 0;
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
  if (options.trace.empty() && !options.open && is_pipeline(options.config)) return draw_pipelines(options);
  const std::vector<TraceInput> inputs = inputs_of(options);
  if (!options.json && (options.text || options.output.empty())) print_text(inputs, text_columns(options.columns));
  if (options.json && options.output.empty()) say("{}\n", json_of(inputs, ""));
  if (options.output.empty()) return 0;
  std::vector<inspect::TimelinePart> parts;
  for (const TraceInput& input : inputs) parts.push_back({input.title, &input.recording, input.bound_ns});
  const inspect::Picture picture = inspect::timeline_picture(parts);
  write_durable(options.output, png ? inspect::render_png(picture) : picture.svg(), Named::by_person);
  if (!options.text) say("{}\n", options.json ? json_of(inputs, options.output) : options.output);
  return 0;
}

}  // namespace

Command describe_timeline() {
  Command command{"timeline", "when which task ran: of a trace, or of a simulated step"};
  const auto options = std::make_shared<TimelineOptions>();
  command.add(output_option(options->output, "FILE", "the picture to write, .svg or .png; without it text is printed"));
  command.add({.names = "--text", .target = &options->text, .help = "print it as text, one row a stream"});
  command.add(number_option("--columns", &options->columns, "width of the text", 40, 1000));
  command.add({.names = "--rank",
               .target = &options->ranks,
               .value = "RANK",
               .help = "ranks to draw; default: the first eight that were traced",
               .least = 0,
               .most = 1 << 30});
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
    if (names_a_trace(config.file())) {
      options->trace = config.file();
    } else if (options->open = config.open_graph(); !options->open) {
      options->config = config.load();
      if (config.dump()) return print_config(options->config);
    }
    for (const std::string& name : options->compare) options->config.libraries.trust(name);
    if (options->open) options->open->config.libraries = options->config.libraries;
    return run(*options);
  };
  return command;
}

}  // namespace weft::tools
