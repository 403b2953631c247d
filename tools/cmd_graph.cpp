// `weft graph`: draws the compiled step of a configuration.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/printable.h"
#include "base/text/json_object.h"
#include "inspect/drawing/draw.h"
#include "inspect/drawing/dump_dot.h"
#include "inspect/drawing/picture.h"
#include "inspect/drawing/render.h"
#include "inspect/drawing/task_choice.h"
#include "inspect/formats/dump_json.h"
#include "inspect/formats/graph_file.h"
#include "ops/lower.h"
#include "runtime/simulate/open_problem.h"
#include "runtime/simulate/report.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"
#include "tools/input/step_input.h"
#include "train/step/step_config.h"

namespace weft::tools {
namespace {

struct GraphOptions : StepSource {
  std::string output = "graph.svg";
  std::string format;  // one of kFormats
  std::string kind = "train";
  std::string collapse = "auto", layers, around, from, to;
  int hops = 2;
  int pipe_rank = 0;  // whose step is drawn: a coordinate on pipe
  bool critical_path = false, all_edges = false, next_step = false, json = false;

  bool narrowed() const {
    return collapse != "auto" || !layers.empty() || !around.empty() || !from.empty() || !to.empty() || critical_path ||
           all_edges || next_step;
  }
};

constexpr const char* kGraphFile = "graph.json";
const std::vector<std::string> kFormats = {"dot", "svg", "png", "html", "json", kGraphFile};

// Graphviz lays out about 600 boxes in layers in a second or two, with more lines than usual in ten.
constexpr std::size_t kMostBoxes = 600, kMostLines = 2000;

/// The format by the file's ending, unless given.
std::string output_format(const std::string& given, const std::string& output) {
  if (!given.empty()) return given;
  if (inspect::is_graph_file(output)) return kGraphFile;
  for (const std::string& format : kFormats) {
    if (output.ends_with("." + format)) return format;
  }
  throw UserError("the format of " + output + " is unknown", "a file that ends in ." + join(kFormats, ", ."),
                  "--format svg, or another ending");
}

/// What is drawn: one class of a step.
struct DrawnStep {
  study::PolicyStep step = {};
  std::size_t of_class = 0;
  std::string name = {}, title = {};          // name: the model's
  std::optional<graph::Grid> grid = {};       // of a configuration
  std::optional<graph::OpenGraph> open = {};  // the file that was given

  const simulate::Report& report() const { return step.report; }
  const plan::Plan& plan() const { return *report().classes[of_class].plan; }
};

/// Refuses a stage that the step hasn't, and passes that pipelines haven't.
void expect_stage(const GraphOptions& asked, std::size_t stages) {
  if (stages > 1 && asked.kind != "train") {
    throw UserError(fmt::format("--kind {} with {} pipeline stages", asked.kind, stages),
                    "train, the step that schedules of pipelines order", "leave --kind out, or pipe out of the grid");
  }
  if (asked.pipe_rank > 0 && stages == 1) {
    throw UserError("--pipe-rank without pipeline stages", "a grid with pipe above 1", "leave --pipe-rank out");
  }
  if (static_cast<std::size_t>(asked.pipe_rank) >= stages) {
    throw UserError(fmt::format("--pipe-rank {} of a grid with pipe = {}", asked.pipe_rank, stages),
                    fmt::format("from 0 to {}", stages - 1), "choose one of them");
  }
}

DrawnStep step_of(const GraphOptions& asked) {
  if (asked.open && asked.pipe_rank > 0)
    refuse_for_open_graph("--pipe-rank", "--class, which names a class of the file");
  if (asked.open && asked.kind != "train")
    refuse_for_open_graph("--kind " + asked.kind, "the one step that the file has");
  StepReader reader(asked);
  DrawnStep drawn{.step = reader.step(), .of_class = static_cast<std::size_t>(asked.pipe_rank)};
  simulate::Problem& problem = drawn.step.problem;
  if (drawn.step.run) {
    const train::RunConfig& config = drawn.step.run->config;
    auto& classes = problem.classes;
    expect_stage(asked, classes.size());
    if (asked.kind == "eval") classes = {ops::lower_eval(config.model, train::step_config(config))};
    if (asked.kind == "prefill")
      classes = {ops::lower_prefill(config.model, config.dtype, config.seq_len, config.grid)};
    if (asked.kind == "decode") classes = {ops::lower_decode(config.model, config.dtype, config.grid)};
    problem.simulation.traced_ranks = 1;
  }
  plan_step(drawn.step);
  const simulate::Report& report = drawn.step.report;
  if (!report.planned()) throw UserError(report.refusal, "", "");
  if (asked.open || asked.kind != "train") drawn.step.note.clear();
  if (const OpenInput* open = reader.open()) {
    drawn.name = open->graph.name;
    drawn.title = fmt::format("{}, policy {}", open->title(), report.policy.name);
    drawn.open = open->graph;
    return drawn;
  }
  const train::RunConfig& config = drawn.step.run->config;
  drawn.name = config.model.name;
  drawn.title = fmt::format("{}: {} step of {} of {} ({}), policy {}", config.model.name, asked.kind,
                            drawn.step.has_stages() ? fmt::format("a rank with pipe = {}", drawn.of_class) : "one rank",
                            config.grid.ranks(), graph::to_string(config.grid), report.policy.name);
  drawn.grid = config.grid;
  return drawn;
}

inspect::Collapse collapse_of(const std::string& name) {
  if (name == "none") return inspect::Collapse::none;
  if (name == "layer") return inspect::Collapse::layer;
  return name == "phase" ? inspect::Collapse::phase : inspect::Collapse::automatic;
}

inspect::TaskChoice choice_of(const GraphOptions& options, const graph::Graph& graph) {
  inspect::TaskChoice choice;
  if (!options.layers.empty()) choice.layers = inspect::named_layers(graph, options.layers);
  if (!options.around.empty()) choice.around = inspect::named_task(graph, "--around", options.around);
  if (!options.from.empty()) choice.from = inspect::named_task(graph, "--from", options.from);
  if (!options.to.empty()) choice.to = inspect::named_task(graph, "--to", options.to);
  choice.hops = options.hops;
  return choice;
}

/// The picture as text or bytes. `told`: what the user should know about how it was made.
std::string drawn(const inspect::Drawing& drawing, inspect::DrawingOptions& options, const GraphOptions& asked,
                  std::string& told) {
  const std::string dot_name = std::filesystem::path(asked.output).filename().replace_extension(".dot").string();
  if (asked.format == "dot") return inspect::dump_dot(drawing, dot_name);
  const std::size_t boxes = drawing.boxes().size(), lines = drawing.lines().size();
  inspect::GraphLayout layout = inspect::GraphLayout::layers;
  if (boxes > kMostBoxes || lines > kMostLines) {
    layout = inspect::GraphLayout::blocks;
    told = fmt::format("laid out in blocks: {} boxes and {} lines are more than dot can lay out in time ({}, {})",
                       boxes, lines, kMostBoxes, kMostLines);
    options.remarks.push_back(told);  // the drawing reads it when it writes its caption
  }
  const std::string dot = inspect::dump_dot(drawing, dot_name);
  if (asked.format == "png") return inspect::render_png(dot, layout);
  const std::string svg = inspect::render_svg(dot, layout);
  return asked.format == "html" ? inspect::picture_page(options.title, svg) : svg;
}

void write_graph_file(const GraphOptions& asked, const DrawnStep& step) {
  const simulate::Report& report = step.report();
  if (step.open) return inspect::write_graph_file(asked.output, *step.open, Named::by_person);
  const std::string name = asked.kind == "train" ? step.name : fmt::format("{}, {}", step.name, asked.kind);
  inspect::write_graph_file(
      asked.output, simulate::open_graph_of(report.graphs(), report.costs, step.step.problem, name), Named::by_person);
}

/// The file's content, and `told`. Not of a graph file.
std::string content_of(const GraphOptions& asked, const DrawnStep& step, std::string& told) {
  const simulate::Report& report = step.report();
  const graph::Graph& graph = *step.plan().graph;
  if (asked.format == "json") return inspect::dump_json(graph, step.grid);
  inspect::DrawingOptions options;
  if (!step.step.note.empty()) options.remarks.push_back(step.step.note);
  options.title = step.title;
  options.grid = step.grid;
  options.collapse = collapse_of(asked.collapse);
  options.reduce = !asked.all_edges;
  options.next_step_edges = asked.next_step;
  const graph::CriticalPath path = graph::critical_path(graph, report.costs[step.of_class].ns);
  if (asked.critical_path) options.critical_path = path.tasks;
  const inspect::TaskChoice choice = choice_of(asked, graph);
  if (!choice.all()) {
    options.only = inspect::chosen_tasks(graph, step.plan().added_edges, choice);
    if (options.only->empty()) {
      throw UserError("no task is in all of what was asked for (--layers, --around, --from, --to)",
                      "a choice that leaves some", "fewer of these options");
    }
  }
  options = inspect::simulated(report, std::move(options), step.of_class);
  const inspect::Drawing drawing(graph, options);
  return drawn(drawing, options, asked, told);
}

/// 0 if it went to a pipe or a device.
std::uintmax_t written_bytes(const std::string& file) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(file, error);
  return error ? 0 : bytes;
}

int draw(const GraphOptions& asked) {
  if ((asked.format == "json" || asked.format == kGraphFile) && asked.narrowed()) {
    throw UserError("JSON holds the whole graph", "no option that narrows or collapses it",
                    "leave those options out, or draw as dot, svg, png or html");
  }
  expect_writable(asked.output);
  const DrawnStep step = step_of(asked);
  const simulate::Report& report = step.report();
  const graph::Graph& graph = *step.plan().graph;
  std::string told;
  std::uintmax_t bytes = 0;
  if (asked.format == kGraphFile) {
    write_graph_file(asked, step);
    bytes = written_bytes(asked.output);
  } else {
    const std::string text = content_of(asked, step, told);
    bytes = text.size();
    write_durable(asked.output, text, Named::by_person);
  }
  const std::size_t added = step.plan().added_edges.size(), collectives = step.plan().collectives.size();
  std::string text = fmt::format("{}: {} tasks, {}, {} collectives\n", asked.output, graph.tasks().size(),
                                 inspect::edges_text(graph.edges().size(), added), collectives);
  for (const std::string& remark : {told, step.step.note}) {
    if (!remark.empty()) text += remark + "\n";
  }
  return print_result(asked.json,
                      JsonObject()
                          .add("file", asked.output)
                          .add("format", asked.format)
                          .add("file_bytes", bytes)
                          .add("kind", asked.kind)
                          .add("policy", report.policy.name)
                          .add("tasks", graph.tasks().size())
                          .add("edges", graph.edges().size())
                          .add("added_edges", added)
                          .add("collectives", collectives)
                          .add("remark", told)
                          .add("summation_note", step.step.note),
                      text);
}

}  // namespace

Command describe_graph() {
  Command command{"graph", "draw a configuration's compiled step, or write it as a file"};
  const auto options = std::make_shared<GraphOptions>();
  command.add(output_option(options->output, "FILE", "the file to write"));
  command.add(choice_option("--format", &options->format, "FORMAT",
                            "of the file: " + join(kFormats) + "; default: by its ending", kFormats));
  command.add(choice_option("--kind", &options->kind, "KIND", "graph of train, eval, prefill or decode",
                            {"train", "eval", "prefill", "decode"}));
  command.add(number_option("--pipe-rank", &options->pipe_rank,
                            "of a pipeline: which rank's step to draw; a graph file holds all", 0, 1000000));
  command.add(
      choice_option("--collapse", &options->collapse, "HOW",
                    "draw once, as × N: with layer, equal tasks of all layers; with phase, of all micro-batches "
                    "too; none; auto: by size",
                    {"auto", "layer", "phase", "none"}));
  command.add(
      {.names = "--layers", .target = &options->layers, .value = "FIRST..LAST", .help = "only tasks of these layers"});
  command.add(
      {.names = "--around", .target = &options->around, .value = "TASK", .help = "only this task and what is near it"});
  command.add(number_option("--hops", &options->hops, "how many edges away is near; 0: the task alone", 0, 1000000));
  command.add({.names = "--from", .target = &options->from, .value = "TASK", .help = "only what depends on this task"});
  command.add(
      word_option("--to", &options->to, "TASK", "only what this task depends on; with --from, the paths between them"));
  command.add({.names = "--critical-path",
               .target = &options->critical_path,
               .help = "mark the longest path, by the simulation's costs"});
  command.add({.names = "--all-edges", .target = &options->all_edges, .help = "draw edges that others imply too"});
  command.add({.names = "--next-step", .target = &options->next_step, .help = "draw edges into the next step too"});
  command.add({.names = "--json", .target = &options->json, .help = "print what was drawn as one JSON object"});
  const ConfigOptions config(command);
  command.description =
      "Times are those of the policy's plan, simulated on --machine (default: laptop) or by --profile.";
  command.examples = {{"weft graph --model tiny --model.layers 2 --ranks 2 -o step.svg"},
                      {"weft graph --model gpt2-124m --grid y=2,z=2 --critical-path -o step.html"},
                      {"weft graph run.toml --around mb0.L3.mlp.up.bwd.gemm_dw --hops 2 -o near.svg"},
                      {"weft graph run.toml --layers 2..3 --collapse none -o layers.png"},
                      {"weft graph run.toml --kind decode --format dot -o decode.dot"},
                      {"weft graph --model gpt2-124m -o tasks.json"},
                      {"weft graph --model gpt2-124m --grid data=2 -o step.graph.json",
                       "a graph file: the step with its costs, for policies to order"}};
  command.run = [options, config] {
    return config.on_step(*options, [&] {
      options->format = output_format(options->format, options->output);
      return draw(*options);
    });
  };
  return command;
}

}  // namespace weft::tools
