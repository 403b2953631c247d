// `weft report`: one page that shows a run, or policies compared.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/durable_file.h"
#include "base/files/text_file.h"
#include "base/text/printable.h"
#include "base/text/units.h"
#include "inspect/drawing/draw.h"
#include "inspect/drawing/render.h"
#include "inspect/formats/recorded_file.h"
#include "inspect/formats/trace_file.h"
#include "inspect/report/bandwidth.h"
#include "inspect/report/report_page.h"
#include "inspect/report/report_tables.h"
#include "inspect/report/step_shares.h"
#include "runtime/policy/policy.h"
#include "runtime/simulate/explain.h"
#include "study/comparison_folder.h"
#include "study/traced_costs.h"
#include "tools/commands.h"
#include "tools/config_options.h"
#include "train/step/planning.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

struct ReportOptions {
  std::string input, output = "report.html";
  std::vector<std::string> policies;
  std::vector<train::Setting> overrides;  // of the configuration: its policy
};

/// What metrics.jsonl holds of a series, under its name there.
struct Series {
  const char* key;
  inspect::StepChart chart;
};

struct Metrics {
  std::size_t steps = 0;
  std::vector<Series> series = {{"loss", {.title = "loss", .dots_name = "held out", .from_zero = false}},
                                {"exposed_comm_ms", {.title = "exposed communication, ms"}},
                                {"tokens_per_s", {.title = "tokens/s"}},
                                {"grad_norm", {.title = "gradient norm"}},
                                {"lr", {.title = "learning rate"}}};
  std::vector<double> step_ms;

  const inspect::StepChart& losses() const { return series.front().chart; }
};

/// A number, unless the line has none: null stands for one that isn't finite.
void read_point(const DocumentValue& line, const char* key, std::vector<inspect::StepPoint>& points) {
  const auto value = line.find(key);
  if (value && !value->is_null()) points.push_back({line["step"].integer(0, INT64_MAX), value->number()});
}

/// A last line without an end is what a kill leaves.
Metrics read_metrics(const fs::path& file) {
  Metrics metrics;
  for (Series& series : metrics.series) series.chart.curves.push_back({series.chart.title, {}});
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  constexpr const char* kFix = "give a run folder, with the metrics.jsonl that weft train wrote";
  const std::string text = read_text_file(file, "the file", kMostBytes, "the metrics of a run", kFix);
  std::size_t number = 0;
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string name = fmt::format("{} line {}", file.string(), ++number);
    const Document document = read_json(std::string_view(text).substr(at, end - at), name, {.fix = kFix});
    const DocumentValue line = document.root();
    for (const char* key : {"step", "loss", "step_ms"}) (void)line[key];  // each line has these
    for (Series& series : metrics.series) read_point(line, series.key, series.chart.curves.front().points);
    read_point(line, "val_loss", metrics.series.front().chart.dots);
    metrics.step_ms.push_back(line["step_ms"].number());
  }
  metrics.steps = number;
  return metrics;
}

/// The plan of the run's configuration, if it is the one that was traced: else why it isn't.
struct Replanned {
  simulate::PlanningProblem problem;
  simulate::PlanReport report;
  std::string why_not;
};

bool same_tasks(const plan::Plan& plan, const plan::Recording& recording) {
  if (plan.sequence.size() != recording.tasks.size()) return false;
  for (std::size_t i = 0; i < recording.tasks.size(); ++i) {
    if (plan.graph->task(plan.sequence[i]).name != recording.tasks[i].name) return false;
  }
  return true;
}

Replanned replan(const train::RunConfig& config, const plan::Recording& recording) {
  Replanned out;
  try {
    const train::ResolvedRun run = train::resolve(config, 0);
    out.problem = train::planning_problem(run);
    out.report = simulate::report_plan(out.problem, run.policy);
  } catch (const UserError& error) {  // a policy, a machine or a profile that isn't at hand any more
    out.why_not = error.what();
    return out;
  }
  if (!out.report.planned()) {
    out.why_not = out.report.refusal;
  } else if (!same_tasks(*out.report.plan, recording)) {
    out.why_not = "config.toml gives another plan now than the one that was traced";
  }
  return out;
}

// More would fill the page with rows that differ little, and the file with megabytes.
constexpr std::size_t kMostRanks = 8, kMostSlices = 600'000;

/// Leaves out ranks, then steps. Says what.
std::string shorten(plan::Recording& recording) {
  std::string note;
  if (recording.ranks.size() > kMostRanks) {
    note = fmt::format("Ranks 0 to {} of {}. ", kMostRanks - 1, recording.ranks.size());
    recording.ranks.resize(kMostRanks);
  }
  for (plan::RecordedRank& rank : recording.ranks) {
    const std::size_t all = recording.tasks.size() * recording.ranks.size();
    const std::size_t most = std::max<std::size_t>(1, kMostSlices / std::max<std::size_t>(1, all));
    if (rank.steps.size() <= most) continue;
    if (&rank == &recording.ranks.front()) {
      note += fmt::format("The last {} of {} traced steps. ", most, rank.steps.size());
    }
    rank.steps.erase(rank.steps.begin(), rank.steps.end() - static_cast<std::ptrdiff_t>(most));
  }
  return note;
}

std::vector<inspect::ReportFact> facts_of(const Metrics& metrics, const plan::Recording& recording) {
  std::vector<inspect::ReportFact> facts;
  const inspect::StepChart& losses = metrics.losses();
  if (const auto& points = losses.curves.front().points; !points.empty()) {
    facts.push_back({fmt::format("loss at step {}", points.back().step), fmt::format("{:.4f}", points.back().value)});
  }
  if (!losses.dots.empty()) {
    facts.push_back(
        {fmt::format("held out, step {}", losses.dots.back().step), fmt::format("{:.4f}", losses.dots.back().value)});
  }
  if (!metrics.step_ms.empty()) {
    std::vector<double> sorted = metrics.step_ms;
    std::ranges::sort(sorted);
    facts.push_back(
        {fmt::format("median of {} steps", sorted.size()), fmt::format("{:.2f} ms", sorted[sorted.size() / 2])});
  }
  const plan::RecordedStep& step = recording.ranks.front().steps.back();
  const plan::OverlapSummary sums = plan::summarize(recording, step);
  facts.push_back({fmt::format("exposed in step {}", step.step),
                   fmt::format("{:.2f} ms", static_cast<double>(sums.exposed) * 1e-6)});
  facts.push_back({"of communication overlapped", fmt::format("{:.0f} %", 100 * sums.overlap_fraction())});
  const std::vector<plan::MemoryPoint> memory = plan::memory_curve(recording, step);
  const auto peak = std::ranges::max_element(memory, {}, &plan::MemoryPoint::bytes);
  if (peak != memory.end() && peak->bytes > 0) {
    facts.push_back({"scratch at its peak", human_bytes(static_cast<std::uint64_t>(peak->bytes))});
    facts.push_back({"state of a rank", human_bytes(static_cast<std::uint64_t>(recording.state_bytes))});
  }
  return facts;
}

/// Adds the graph, the links and a lower bound. Returns why communication is exposed: simulated with what this run's
/// tasks took.
inspect::ReportTable add_plan(inspect::ReportPage& page, const train::RunConfig& config, Replanned replanned) {
  simulate::PlanReport& report = replanned.report;
  const plan::Recording& recording = page.views.front().recording;
  page.views.front().links = inspect::links_of(*report.plan->graph, replanned.problem.machine, config.grid);
  const simulate::PlanningProblem problem =
      study::with_traced_costs(std::move(replanned.problem), *report.plan, recording);
  simulate::simulate_again(report, problem);
  const std::string& view = page.views.front().name;
  inspect::DrawingOptions dot;
  dot.grid = config.grid;
  dot.title = fmt::format("{}: one step of one rank of {}, policy {}", config.model.name, config.grid.ranks(),
                          report.policy.name);
  try {
    page.graph_svg = inspect::render_svg(inspect::plan_dot(*report.plan, "graph.dot", dot));
  } catch (const UserError& error) {
    page.graph_note = fmt::format("Not drawn: {}", error.what());
  }
  simulate::ExplainOptions options;
  options.rewrites = false;
  const Document why(inspect::causes_json(*report.plan->graph, simulate::explain(problem, report, options)),
                     "the causes", "");
  inspect::ReportTable causes = inspect::causes_table(why.root(), view);
  const plan::RecordedStep& step = recording.ranks.front().steps.back();
  causes.note += fmt::format(
      "{}Simulated with the times that this run's tasks took: {:.2f} ms a step, {:.2f} ms at least. Step {} took "
      "{:.2f} ms.",
      causes.note.empty() ? "" : " ", report.step_ns() * 1e-6, report.bounds.best() * 1e-6, step.step,
      static_cast<double>(step.end - step.begin) * 1e-6);
  page.views.front().bounds.push_back({"least with these task times", report.bounds.best()});
  return causes;
}

inspect::ReportPage page_of_run(const fs::path& folder, const std::vector<train::Setting>& overrides) {
  train::RunConfig config;
  train::load_toml(config, (folder / "config.toml").string());
  train::apply_command_line(config, overrides);
  train::fill_in(config, 0);
  const Metrics metrics = read_metrics(folder / "metrics.jsonl");
  plan::Recording recording = inspect::read_recording(inspect::find_trace(folder));
  if (recording.ranks.empty() || recording.ranks.front().steps.empty()) {
    throw UserError(fmt::format("the trace in {} holds no step", folder.string()), "one at least",
                    "weft train with --trace-steps 3");
  }
  Replanned replanned = replan(config, recording);
  inspect::ReportPage page;
  page.title = fmt::format("{}: {} steps", config.model.name, metrics.steps);
  page.subtitle = fmt::format("{} ranks ({}), policy {}, {} sequences of {} tokens a step, {}", config.grid.ranks(),
                              graph::to_string(config.grid), recording.policy, config.global_batch, config.seq_len,
                              to_string(config.dtype));
  page.facts = facts_of(metrics, recording);
  page.timeline_note = shorten(recording);
  for (const Series& series : metrics.series) page.charts.push_back(series.chart);
  page.views.push_back({recording.policy, std::move(recording), {}});
  const inspect::ReportView& view = page.views.front();
  const std::string why_not = replanned.why_not;
  std::vector<inspect::ReportTable> causes;
  if (why_not.empty()) {
    causes.push_back(add_plan(page, config, std::move(replanned)));
  } else {
    page.graph_note = "Neither graph nor causes: " + why_not;
  }
  page.leading.push_back(inspect::shares_table(view.recording));
  page.trailing.push_back(inspect::bandwidth_table(view.recording, view.links));
  page.trailing.push_back(inspect::exposed_table(view.recording, view.name));
  std::ranges::move(causes, std::back_inserter(page.trailing));
  return page;
}

inspect::ReportPage page_of_config(const ReportOptions& options) {
  train::RunConfig config;
  train::load_toml(config, options.input);
  train::apply_command_line(config, options.overrides);
  for (const std::string& policy : options.policies) config.libraries.trust(policy);
  if (!options.policies.empty()) train::leave_out_library(config);
  std::vector<policy::NamedPolicy> policies;
  for (const std::string& policy : options.policies) policies.push_back(policy::named_policy(policy, config.libraries));
  const train::ResolvedRun run = train::resolve(std::move(config), 0);
  if (policies.empty()) policies = {run.policy};
  const simulate::PlanningProblem problem = train::planning_problem(run);
  study::Comparison comparison;
  comparison.title =
      fmt::format("{} on {} ranks of {}", run.config.model.name, run.config.grid.ranks(), problem.machine.name);
  comparison.source = problem.options.cost_model->source();
  for (const policy::NamedPolicy& policy : policies)
    comparison.reports.push_back(simulate::report_plan(problem, policy));
  study::KeptComparison kept = study::keep_comparison(problem, comparison, {});
  if (kept.views.empty()) throw UserError(comparison.reports.front().refusal, "", "");
  // How long planning took is another thing than what the configuration says.
  for (nlohmann::json& entry : kept.comparison.at("policies")) entry.erase("planning_ms");
  return study::comparison_page(std::move(kept));
}

inspect::ReportPage page_of(const ReportOptions& options) {
  const fs::path input = options.input;
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
  if (folder && fs::exists(input / "config.toml")) return page_of_run(input, options.overrides);
  if (!folder && fs::exists(input) && input.extension() == ".toml") {
    return page_of_config(options);
  }
  throw UserError(fmt::format("{} {}", options.input, fs::exists(input) ? "is no such input" : "doesn't exist"),
                  "a run folder, a folder of weft compare, or a configuration .toml",
                  "weft train leaves a run folder, weft compare CONFIG -o FOLDER one with policies");
}

int write_report(const ReportOptions& options) {
  expect_writable(options.output);
  const inspect::ReportPage page = page_of(options);
  const std::string html = inspect::report_html(page);
  write_durable(options.output, html, Named::by_person);
  std::size_t slices = 0;
  for (const inspect::ReportView& view : page.views) {
    for (const plan::RecordedRank& rank : view.recording.ranks)
      slices += rank.steps.size() * view.recording.tasks.size();
  }
  say("{}: {} tasks drawn, {}\n", options.output, slices, human_bytes(html.size()));
  return 0;
}

}  // namespace

Command describe_report() {
  Command command{"report", "one page that shows a run, or policies compared"};
  const auto options = std::make_shared<ReportOptions>();
  command.add({.names = "input",
               .target = &options->input,
               .help = "a run folder, a folder of `weft compare`, or a configuration file",
               .paths = Paths::files,
               .required = true});
  command.add({.names = "-o,--output",
               .target = &options->output,
               .value = "FILE.html",
               .help = "the page to write",
               .paths = Paths::files});
  command.add({.names = "--policies",
               .target = &options->policies,
               .value = "POLICY",
               .help = "of a configuration file: simulate these and draw them together",
               .suggestions = policy_words(),
               .paths = Paths::files});
  command.add(policy_option(options->overrides));
  command.description =
      "The page is one file that loads nothing: a timeline to zoom, the graph linked to it, tables and curves.";
  command.examples = {{"weft report runs/quickstart -o report.html"},
                      {"weft compare run.toml --policies serial axonn portfolio -o policies; weft report policies"},
                      {"weft report run.toml --policies serial program -o step.html"}};
  command.run = [options] { return write_report(*options); };
  return command;
}

}  // namespace weft::tools
