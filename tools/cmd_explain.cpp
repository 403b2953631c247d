// `weft explain`: why collectives of a step are exposed, what would hide them, and what the step's length comes from.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text/json_object.h"
#include "base/text/printable.h"
#include "runtime/cost/machine_numbers.h"
#include "runtime/simulate/explain.h"
#include "tools/commands.h"
#include "tools/config_options.h"
#include "train/config/resolved_run.h"
#include "train/step/planning.h"

namespace weft::tools {
namespace {

struct ExplainCommand {
  train::RunConfig config;  // not yet resolved
  simulate::ExplainOptions options;
  bool json = false;
};

double ms(double ns) {
  return ns * 1e-6;
}

// Paragraphs of a text before it only counts.
constexpr std::size_t kMostParagraphs = 12;

/// The micro-batch halved: more messages to hide behind, of half the size. Not exact, unlike the rewrites.
struct Halved {
  std::int64_t micro_batch = 0;
  double gain_ns = 0;
};

std::string gain_text(const simulate::Remedy& remedy) {
  return remedy.gain_ns > 0 ? fmt::format("  {:+.3f} ms  {}\n", -ms(remedy.gain_ns), remedy.what)
                            : fmt::format("  no gain   {}\n", remedy.what);
}

std::string paragraph(const graph::Graph& graph, const simulate::Explanation& explanation,
                      const simulate::ExposureGroup& group) {
  const simulate::ExposedCollective& worst = explanation.collectives[group.members.front()];
  const graph::Task& task = graph.task(worst.task);
  const std::string kind =
      fmt::format("{} on {}", graph::kind_name(task.operation), graph::to_string(*graph::channel_of(task.operation)));
  std::string text;
  if (group.members.size() == 1) {
    text = fmt::format("\n{} ({}, {:.3f} ms): {:.3f} ms exposed\n  {}: {}\n", group.name, kind, ms(worst.duration_ns),
                       ms(worst.exposed_ns), simulate::to_string(worst.cause), worst.because);
  } else {
    text = fmt::format("\n{} ({}, ×{}): {:.3f} ms exposed\n  {}: the worst, {} ({:.3f} of {:.3f} ms): {}\n", group.name,
                       kind, group.members.size(), ms(group.exposed_ns), simulate::to_string(worst.cause), task.name,
                       ms(worst.exposed_ns), ms(worst.duration_ns), worst.because);
  }
  for (const simulate::Remedy& remedy : worst.remedies) text += gain_text(remedy);
  return text;
}

/// By phase, and in it by kind of task, the longest first.
std::string path_text(const std::vector<simulate::PathPiece>& path) {
  std::string text;
  for (const graph::Phase phase : {graph::Phase::forward, graph::Phase::backward, graph::Phase::update}) {
    std::vector<simulate::PathPiece> kinds;
    double sum = 0;
    for (const simulate::PathPiece& piece : path) {
      if (piece.phase != phase) continue;
      auto known = std::ranges::find(kinds, piece.kind, &simulate::PathPiece::kind);
      if (known == kinds.end()) known = kinds.insert(kinds.end(), {piece.kind, phase, piece.first, "", 0, 0});
      known->tasks += piece.tasks;
      known->ns += piece.ns;
      sum += piece.ns;
    }
    std::ranges::stable_sort(kinds, std::greater{}, &simulate::PathPiece::ns);
    if (!kinds.empty()) text += fmt::format("  {:<8} {:>10.3f} ms:", graph::to_string(phase), ms(sum));
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      text += fmt::format("{} {:.3f} in {} {}", i == 0 ? "" : ",", ms(kinds[i].ns), kinds[i].tasks, kinds[i].kind);
    }
    if (!kinds.empty()) text += "\n";
  }
  return text;
}

std::string text_of(const simulate::PlanReport& report, const simulate::Explanation& explanation,
                    const std::optional<Halved>& halved, const std::vector<std::string>& unsure) {
  std::string text = fmt::format(
      "Policy {}: a step takes {:.3f} ms, {:.1f} % above the bound of {:.3f} ms. Of {:.3f} ms of communication {:.3f} "
      "ms are exposed, in {} collectives.\n",
      report.policy.name, ms(report.step_ns()), 100 * report.gap(), ms(report.bounds.best()),
      ms(static_cast<double>(report.overlap.communication)), ms(static_cast<double>(report.overlap.exposed)),
      explanation.collectives.size());
  const std::size_t shown = std::min(kMostParagraphs, explanation.groups.size());
  double rest = 0;
  for (std::size_t i = 0; i < explanation.groups.size(); ++i) {
    if (i < shown) text += paragraph(*report.plan->graph, explanation, explanation.groups[i]);
    if (i >= shown) rest += explanation.groups[i].exposed_ns;
  }
  if (shown < explanation.groups.size()) {
    text += fmt::format("\n… and {} more with {:.3f} ms\n", explanation.groups.size() - shown, ms(rest));
  }
  text += "\nWhat the step's length comes from, by phase:\n";
  text += path_text(explanation.path);
  if (!explanation.rewrites.empty()) {
    text += "\nRewrites of the whole graph under this policy, which change no bit:\n";
    for (const simulate::Remedy& rewrite : explanation.rewrites) {
      text += gain_text({fmt::format("--rewrites \"{}\"", rewrite.what), rewrite.gain_ns});
    }
  }
  if (halved) {
    text += "\nMicro-batches of half the size, which add gradients in another order and so change roundings:\n" +
            gain_text({fmt::format("--micro-batch {}", halved->micro_batch), halved->gain_ns});
  }
  if (!unsure.empty()) text += fmt::format("\nThe machine: {}\n", cost::unsure_text(unsure));
  return text;
}

JsonObject json_of(const simulate::PlanReport& report, const simulate::Explanation& explanation,
                   const std::optional<Halved>& halved, const std::vector<std::string>& unsure) {
  const auto remedies = [](const std::vector<simulate::Remedy>& list) {
    JsonArray json;
    for (const simulate::Remedy& remedy : list) {
      json.add(JsonObject().add("what", remedy.what).add("gain_ms", ms(remedy.gain_ns)));
    }
    return json;
  };
  JsonArray collectives, path;
  for (const simulate::ExposedCollective& exposed : explanation.collectives) {
    const graph::Task& task = report.plan->graph->task(exposed.task);
    collectives.add(JsonObject()
                        .add("name", task.name)
                        .add("kind", graph::kind_name(task.operation))
                        .add("channel", graph::to_string(*graph::channel_of(task.operation)))
                        .add("exposed_ms", ms(exposed.exposed_ns))
                        .add("duration_ms", ms(exposed.duration_ns))
                        .add("alone_ms", ms(exposed.alone_ns))
                        .add("ready_ms", ms(exposed.ready_ns))
                        .add("begin_ms", ms(exposed.begin_ns))
                        .add("cause", simulate::identifier_of(exposed.cause))
                        .add("cause_text", simulate::to_string(exposed.cause))
                        .add("because", exposed.because)
                        .add("remedies", remedies(exposed.remedies)));
  }
  for (const simulate::PathPiece& piece : explanation.path) {
    path.add(JsonObject()
                 .add("kind", piece.kind)
                 .add("phase", graph::to_string(piece.phase))
                 .add("tasks", piece.tasks)
                 .add("first", piece.first)
                 .add("last", piece.last)
                 .add("ms", ms(piece.ns)));
  }
  JsonObject json;
  json.add("policy", report.policy.name)
      .add("step_ms", ms(report.step_ns()))
      .add("bound_ms", ms(report.bounds.best()))
      .add("exposed_ms", ms(static_cast<double>(report.overlap.exposed)))
      .add("collectives", collectives)
      .add("path", path)
      .add("rewrites", remedies(explanation.rewrites));
  if (halved) {
    json.add("halved", JsonObject().add("micro_batch", halved->micro_batch).add("gain_ms", ms(halved->gain_ns)));
  }
  json.add("unsure_numbers", unsure);
  return json;
}

std::optional<Halved> halve(train::ResolvedRun run, const simulate::PlanReport& report) {
  if (run.config.micro_batch % 2 != 0) return std::nullopt;
  run.config.micro_batch /= 2;
  const simulate::PlanReport other = simulate::report_plan(train::planning_problem(run), run.policy);
  if (!other.planned()) return std::nullopt;
  return Halved{run.config.micro_batch, report.step_ns() - other.step_ns()};
}

int explain_step(const ExplainCommand& command) {
  const train::ResolvedRun run = train::resolve(command.config, 0);
  const simulate::PlanningProblem problem = train::planning_problem(run);
  const simulate::PlanReport report = simulate::report_plan(problem, run.policy);
  if (!report.planned()) throw UserError(report.refusal, "", "");
  const simulate::Explanation explanation = simulate::explain(problem, report, command.options);
  const std::optional<Halved> halved = command.options.only.empty() ? halve(run, report) : std::nullopt;
  const std::vector<std::string> unsure =
      run.profile ? std::vector<std::string>() : cost::unsure_numbers(problem.machine);
  if (command.json) {
    say("{}\n", json_of(report, explanation, halved, unsure).text());
  } else {
    say("{}", text_of(report, explanation, halved, unsure));
  }
  return 0;
}

}  // namespace

Command describe_explain() {
  Command command{"explain", "why collectives are exposed, and what would hide them"};
  const auto options = std::make_shared<ExplainCommand>();
  command.add(
      {.names = "--collective", .target = &options->options.only, .value = "NAME", .help = "explain this one alone"});
  command.add({.names = "--most",
               .target = &options->options.most_remedied,
               .value = "N",
               .help = "collectives whose remedies are simulated: the worst of each group, then others",
               .least = 0});
  command.add({.names = "--json", .target = &options->json, .help = "print as JSON"});
  const ConfigOptions config(command);
  command.description = "Remedies are simulated one by one: a gain is what the whole step gets shorter by.";
  command.examples = {{"weft explain --model gpt2-124m --grid y=2,data=2 --machine dgx-h100 --policy axonn"},
                      {"weft explain run.toml --policy program --profile slow.json"},
                      {"weft explain run.toml --collective mb0.L3.mlp.up.bwd.all_reduce_dx --json"}};
  command.run = [options, config] {
    options->config = config.load();
    if (config.dump()) return print_config(options->config);
    return explain_step(*options);
  };
  return command;
}

}  // namespace weft::tools
