// `weft explain`: why collectives of a step are exposed, what would hide them, and what the step's length comes from.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "runtime/explain.h"
#include "tools/commands.h"
#include "tools/config_options.h"
#include "train/planning.h"

namespace weft {
namespace {

struct ExplainCommand {
  RunConfig config;  // not yet resolved
  ExplainOptions options;
  bool json = false;
};

double ms(double ns) {
  return ns * 1e-6;
}

std::string text_of(const PlanReport& report, const Explanation& explanation) {
  const Graph& graph = *report.plan->graph;
  std::string text = fmt::format(
      "Policy {}: a step takes {:.3f} ms, {:.1f} % above the bound of {:.3f} ms. Of {:.3f} ms of communication {:.3f} "
      "ms "
      "are exposed, in {} collectives.\n",
      report.policy, ms(report.step_ns()), 100 * report.gap(), ms(report.bounds.best()),
      ms(static_cast<double>(report.overlap.communication)), ms(static_cast<double>(report.overlap.exposed)),
      explanation.collectives.size());
  for (const ExposedCollective& exposed : explanation.collectives) {
    const Task& task = graph.task(exposed.task);
    text += fmt::format("\n{} ({} on {}, {:.3f} ms): {:.3f} ms exposed\n  {}: {}\n", task.name,
                        kind_name(task.operation), to_string(*channel_of(task.operation)), ms(exposed.duration_ns),
                        ms(exposed.exposed_ns), to_string(exposed.cause), exposed.because);
    for (const Remedy& remedy : exposed.remedies) {
      text += remedy.gain_ns > 0 ? fmt::format("  {:+.3f} ms  {}\n", -ms(remedy.gain_ns), remedy.what)
                                 : fmt::format("  no gain   {}\n", remedy.what);
    }
  }
  text += "\nWhat the step's length comes from, in time:\n";
  for (const PathPiece& piece : explanation.path) {
    text += fmt::format("  {:>10.3f} ms  {} {}: {}{}\n", ms(piece.ns), piece.tasks, piece.kind, piece.first,
                        piece.tasks > 1 ? " … " + piece.last : "");
  }
  if (!explanation.rewrites.empty()) {
    text += "\nRewrites of the whole graph under this policy:\n";
    for (const Remedy& rewrite : explanation.rewrites) {
      text += fmt::format("  {:+.3f} ms  --rewrites \"{}\"\n", -ms(rewrite.gain_ns), rewrite.what);
    }
  }
  return text;
}

nlohmann::ordered_json json_of(const PlanReport& report, const Explanation& explanation) {
  using nlohmann::ordered_json;
  const auto remedies = [](const std::vector<Remedy>& list) {
    ordered_json json = ordered_json::array();
    for (const Remedy& remedy : list) json.push_back({{"what", remedy.what}, {"gain_ms", ms(remedy.gain_ns)}});
    return json;
  };
  ordered_json json = {{"policy", report.policy},
                       {"step_ms", ms(report.step_ns())},
                       {"bound_ms", ms(report.bounds.best())},
                       {"exposed_ms", ms(static_cast<double>(report.overlap.exposed))},
                       {"collectives", ordered_json::array()},
                       {"path", ordered_json::array()}};
  for (const ExposedCollective& exposed : explanation.collectives) {
    const Task& task = report.plan->graph->task(exposed.task);
    json["collectives"].push_back({{"name", task.name},
                                   {"kind", kind_name(task.operation)},
                                   {"channel", to_string(*channel_of(task.operation))},
                                   {"exposed_ms", ms(exposed.exposed_ns)},
                                   {"duration_ms", ms(exposed.duration_ns)},
                                   {"alone_ms", ms(exposed.alone_ns)},
                                   {"ready_ms", ms(exposed.ready_ns)},
                                   {"begin_ms", ms(exposed.begin_ns)},
                                   {"cause", to_string(exposed.cause)},
                                   {"because", exposed.because},
                                   {"remedies", remedies(exposed.remedies)}});
  }
  for (const PathPiece& piece : explanation.path) {
    json["path"].push_back({{"kind", piece.kind},
                            {"tasks", piece.tasks},
                            {"first", piece.first},
                            {"last", piece.last},
                            {"ms", ms(piece.ns)}});
  }
  json["rewrites"] = remedies(explanation.rewrites);
  return json;
}

int explain_step(const ExplainCommand& command) {
  RunConfig config = command.config;
  resolve(config, 0);
  const PlanningProblem problem = planning_problem(config);
  const PlanReport report = report_plan(problem, config.policy);
  if (!report.planned()) throw UserError(report.refusal, "", "");
  const Explanation explanation = explain(problem, report, command.options);
  if (command.json) {
    fmt::print("{}\n", json_of(report, explanation).dump());
  } else {
    fmt::print("{}", text_of(report, explanation));
  }
  return 0;
}

}  // namespace

Command add_explain(CLI::App& root) {
  CLI::App* app = root.add_subcommand("explain", "why collectives are exposed, and what would hide them");
  const auto options = std::make_shared<ExplainCommand>();
  app->add_option("--collective", options->options.only, "explain this one alone")->type_name("NAME");
  app->add_option("--most", options->options.most_remedied, "collectives, worst first, whose remedies are simulated")
      ->capture_default_str();
  app->add_flag("--json", options->json, "print as JSON");
  const ConfigOptions config(*app);
  app->footer(
      "Remedies are simulated one by one: a gain is what the whole step gets shorter by.\n"
      "Examples:\n"
      "  weft explain --model gpt2-124m --grid y=2,data=2 --machine dgx-h100 --policy axonn\n"
      "  weft explain run.toml --policy program --profile slow.json\n"
      "  weft explain run.toml --collective mb0.L3.mlp.up.bwd.all_reduce_dx --json");
  return [options, config] {
    options->config = config.load();
    if (config.dump()) return print_config(options->config);
    return explain_step(*options);
  };
}

}  // namespace weft
