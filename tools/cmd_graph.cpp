// `weft graph`: draws the compiled step of a configuration.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "base/error.h"
#include "graph/dump_json.h"
#include "graph/render.h"
#include "ops/lower.h"
#include "runtime/draw.h"
#include "runtime/plan_alone.h"
#include "tools/commands.h"
#include "tools/config_options.h"
#include "train/durable_file.h"
#include "train/planning.h"
#include "train/trainer.h"

namespace weft {
namespace {

struct GraphOptions {
  RunConfig config;  // not yet resolved
  std::string output = "graph.svg";
  std::string format;  // dot, svg or json
  std::string kind = "train";
};

/// The format by the file's ending, unless given.
std::string output_format(const std::string& given, const std::string& output) {
  if (!given.empty()) return given;
  for (std::string format : {"dot", "svg", "json"}) {
    if (output.ends_with("." + format)) return format;
  }
  throw UserError("the format of " + output + " is unknown", "a file that ends in .dot, .svg or .json",
                  "--format svg, or another ending");
}

std::shared_ptr<const Graph> graph_of(const RunConfig& config, const std::string& kind) {
  if (kind == "train") return lower_train(config.model, step_config(config));
  if (kind == "eval") return lower_eval(config.model, step_config(config));
  if (kind == "prefill") return lower_prefill(config.model, config.dtype, config.seq_len, config.grid);
  return lower_decode(config.model, config.dtype, config.grid);
}

int draw(const GraphOptions& options) {
  RunConfig config = options.config;
  resolve(config, 0);
  const Plan plan = plan_alone(graph_of(config, options.kind), *make_policy(config.policy), policy_options(config),
                               parse_rewrites(config.rewrites));
  const std::shared_ptr<const Graph>& graph = plan.graph;
  std::string text;
  if (options.format == "json") {
    text = dump_json(*graph, config.grid);
  } else {
    DotOptions dot;
    dot.title = fmt::format("{}: {} step of one rank of {}, policy {}", config.model.name, options.kind,
                            config.grid.ranks(), plan.policy);
    dot.grid = config.grid;
    const std::filesystem::path name = std::filesystem::path(options.output).filename().replace_extension(".dot");
    text = plan_dot(plan, name.string(), dot);
    if (options.format == "svg") text = render_svg(text);
  }
  write_durable(options.output, text);
  fmt::print("{}: {} tasks, {} edges, {} collectives\n", options.output, graph->tasks().size(), graph->edges().size(),
             plan.collectives.size());
  return 0;
}

}  // namespace

Command add_graph(CLI::App& root) {
  CLI::App* app = root.add_subcommand("graph", "draw the compiled step of a configuration");
  const auto options = std::make_shared<GraphOptions>();
  app->add_option("-o,--output", options->output, "the file to write")->capture_default_str();
  app->add_option("--format", options->format, "of the file; default: by its ending")
      ->check(CLI::IsMember({"dot", "svg", "json"}));
  app->add_option("--kind", options->kind, "which graph")
      ->check(CLI::IsMember({"train", "eval", "prefill", "decode"}))
      ->capture_default_str();
  const ConfigOptions config(*app);
  app->footer(
      "Examples:\n"
      "  weft graph --model tiny --model.layers 2 --ranks 2 -o step.svg\n"
      "  weft graph run.toml --kind decode --format dot -o decode.dot\n"
      "  weft graph --model gpt2-124m -o tasks.json");
  return [options, config] {
    options->config = config.load();
    if (config.dump()) return print_config(options->config);
    options->format = output_format(options->format, options->output);
    return draw(*options);
  };
}

}  // namespace weft
