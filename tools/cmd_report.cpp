// `weft report`: one page that shows a run, runs beside each other, or policies compared.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/printable.h"
#include "base/text/json_object.h"
#include "base/units.h"
#include "inspect/formats/graph_file.h"
#include "inspect/report/report_page.h"
#include "study/comparison_folder.h"
#include "study/run_page.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"
#include "tools/input/step_input.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

struct ReportOptions {
  std::vector<std::string> inputs, policies;
  std::string output = "report.html";
  OpenFlags open;
  std::vector<cost::NamedFactor> scales;
  bool json = false;
  std::vector<train::Setting> overrides;  // of the configuration: its policy
};

/// Of a configuration or a graph file.
inspect::ReportPage page_of_step(const ReportOptions& options) {
  StepSource source{.scales = options.scales};
  if (inspect::is_graph_file(options.inputs.front())) {
    source.open = OpenSettings{options.inputs.front(), options.open, options.overrides};
  } else {
    train::load_toml(source.config, options.inputs.front());
    train::apply_command_line(source.config, options.overrides);
  }
  source.trust(options.policies);
  if (!options.policies.empty()) train::leave_out_library(source.config);
  StepReader reader(source);
  study::Comparison comparison;
  comparison.steps = reader.steps(options.policies.empty() ? std::vector<std::string>{""} : options.policies);
  for (study::PolicyStep& step : comparison.steps) {
    if (step.report.planned()) plan_step(step);
  }
  const auto planned = std::ranges::find_if(comparison.steps, [](const auto& step) { return step.report.planned(); });
  if (planned == comparison.steps.end()) throw UserError(comparison.steps.front().report.refusal, "", "");
  const std::string& machine = planned->problem.machine.name;
  if (const OpenInput* open = reader.open()) {
    comparison.title = open->title() + (open->has_machine ? " on " + machine : "");
    comparison.summation_note = open->order_note;
  } else {
    const train::RunConfig& config = planned->run->config;
    comparison.title = fmt::format("{} on {} ranks of {}", config.model.name, config.grid.ranks(), machine);
  }
  comparison.source = planned->problem.options.cost_model->source();
  comparison.prove();
  comparison.tells_planning = false;  // which is another thing than what the configuration says
  return study::comparison_page(study::keep_comparison(comparison, [&](const study::PolicyStep& step) {
    return study::other_settings(step, [&](train::ResolvedRun run) {
      study::PolicyStep other = reader.step_of(std::move(run));
      plan_step(other);
      return other;
    });
  }));
}

/// Runs beside each other.
inspect::ReportPage page_of_runs(const ReportOptions& options) {
  if (!options.policies.empty() || !options.overrides.empty()) {
    throw UserError(fmt::format("{} with several runs", options.policies.empty() ? "--policy" : "--policies"),
                    "one input, which is planned", "name one run folder, or leave the flag out");
  }
  for (const std::string& input : options.inputs) {
    const fs::path folder = input;
    if (fs::is_directory(folder) && fs::exists(folder / "config.toml") && !fs::exists(folder / "comparison.json")) {
      continue;
    }
    throw UserError(fmt::format("{} {}", input, fs::exists(folder) ? "is no run folder" : "doesn't exist"),
                    "run folders: several inputs are runs beside each other", "weft train leaves one");
  }
  return study::runs_page(options.inputs);
}

inspect::ReportPage page_of(const ReportOptions& options) {
  const fs::path input = options.inputs.front();
  const bool one_step = options.inputs.size() == 1 && !fs::is_directory(input);
  if (!options.scales.empty() && !one_step) {
    throw UserError("--scale with folders", "a configuration or graph file, whose step is simulated",
                    "leave --scale out: the folders keep what was run or simulated");
  }
  const bool open = one_step && inspect::is_graph_file(input);
  if (!open) refuse_without_graph_file(options.open);
  const bool names_machine = std::ranges::any_of(options.overrides, [](const auto& o) { return o.key == "machine"; });
  if (names_machine && !one_step) {
    throw UserError("--machine with folders", "a configuration or graph file, whose step is simulated",
                    "leave --machine out: the folders keep what was run or simulated");
  }
  if (open) return page_of_step(options);
  if (options.inputs.size() > 1) return page_of_runs(options);
  const bool folder = fs::is_directory(input);
  if (!options.policies.empty() && folder) {
    throw UserError("--policies with a folder", "a configuration file, whose step is simulated",
                    "weft compare CONFIG --policies … -o FOLDER");
  }
  const bool compared = folder && fs::exists(input / "comparison.json");
  if (compared && !options.overrides.empty()) {
    throw UserError("--policy with a folder of weft compare", "a run folder or a configuration file, which are planned",
                    "leave it out: the folder keeps what its policies did");
  }
  if (compared) return study::comparison_page(study::read_comparison(input));
  if (folder && fs::exists(input / "config.toml")) return study::run_page(input, options.overrides);
  if (!folder && fs::exists(input) && input.extension() == ".toml") {
    return page_of_step(options);
  }
  throw UserError(fmt::format("{} {}", input.string(), fs::exists(input) ? "is no such input" : "doesn't exist"),
                  "run folders, a folder of weft compare, a configuration .toml, or a graph file .graph.json",
                  "weft train leaves a run folder, weft compare CONFIG -o FOLDER one with policies");
}

int write_report(const ReportOptions& options) {
  expect_writable(options.output);
  const inspect::ReportPage page = page_of(options);
  const std::string html = inspect::report_html(page);
  write_durable(options.output, html, Named::by_person);
  std::size_t slices = 0;
  std::vector<std::string> views;
  for (const inspect::ReportView& view : page.views) {
    views.push_back(view.name);
    for (const plan::RecordedRank& rank : view.recording.ranks)
      slices += rank.steps.size() * view.recording.tasks.size();
  }
  return print_result(options.json,
                      JsonObject()
                          .add("file", options.output)
                          .add("file_bytes", html.size())
                          .add("inputs", options.inputs)
                          .add("views", views)
                          .add("tasks_drawn", slices),
                      fmt::format("{}: {} tasks drawn, {}\n", options.output, slices, human_bytes(html.size())));
}

}  // namespace

Command describe_report() {
  Command command{"report", "one page that shows a run, runs beside each other, or policies compared"};
  const auto options = std::make_shared<ReportOptions>();
  command.add(
      required(path_option("input", &options->inputs, "",
                           "a run folder, or several to see beside each other; a folder of `weft compare`; or a "
                           "configuration file or graph file")));
  command.add(output_option(options->output, "FILE.html", "the page to write"));
  command.add({.names = "--policies",
               .target = &options->policies,
               .value = "POLICY",
               .help = "of a configuration or graph file: simulate these and draw them together",
               .suggestions = policy_words(),
               .paths = Paths::files});
  command.add(policy_option(options->overrides));
  command.add(path_option(
      "--machine",
      [options](const std::string& value) {
        options->overrides.push_back({"machine", value, "--machine"});
      },
      "NAME|FILE", "of a configuration or graph file: the machine to simulate"));
  for (CommandOption& option : open_options(options->open)) command.add(std::move(option));
  command.add(scale_option(options->scales));
  command.add({.names = "--json", .target = &options->json, .help = "print what was written as one JSON object"});
  command.description =
      "The page is one file that loads nothing: a timeline to zoom, the graph linked to it, tables and curves.";
  command.examples = {{"weft report runs/quickstart -o report.html"},
                      {"weft report runs/serial runs/program -o both.html"},
                      {"weft compare run.toml --policies serial axonn portfolio -o policies; weft report policies"},
                      {"weft report run.toml --policies serial program -o step.html"}};
  command.run = [options] { return write_report(*options); };
  return command;
}

}  // namespace weft::tools
