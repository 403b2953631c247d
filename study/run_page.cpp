#include "study/run_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/input_file.h"
#include "base/hash.h"
#include "base/units.h"
#include "inspect/drawing/draw.h"
#include "inspect/drawing/render.h"
#include "inspect/formats/chrome_trace.h"
#include "inspect/formats/recorded_file.h"
#include "inspect/report/report_tables.h"
#include "runtime/simulate/explain.h"
#include "study/expert_tables.h"
#include "study/traced_costs.h"
#include "study/verdict.h"
#include "train/run/run_files.h"
#include "train/step/planning.h"
#include "train/step/step_config.h"

namespace weft::study {
namespace {

/// A number, unless the line has none: null stands for one that isn't finite.
void read_point(const DocumentValue& line, const std::string& key, std::vector<inspect::StepPoint>& points) {
  const auto value = line.find(key.c_str());
  if (value && !value->is_null()) points.push_back({line["step"].integer(0, INT64_MAX), value->number()});
}

}  // namespace

double MetricSeries::median() const {
  if (points.empty()) return 0;
  std::vector<double> values;
  for (const inspect::StepPoint& point : points) values.push_back(point.value);
  std::ranges::sort(values);
  return values[values.size() / 2];
}

const MetricSeries& RunMetrics::of(const std::string& key) const {
  const auto found = std::ranges::find(series, key, &MetricSeries::key);
  if (found == series.end()) throw std::logic_error("no series of metrics is called " + key);
  return *found;
}

RunMetrics read_metrics(const std::filesystem::path& file) {
  RunMetrics metrics;
  metrics.series = {{"loss", "loss", false},
                    {"exposed_comm_ms", "exposed communication, ms"},
                    {"tokens_per_s", "tokens/s"},
                    {"grad_norm", "gradient norm"},
                    {"lr", "learning rate"}};
  metrics.step_ms = {"step_ms", "step, ms"};
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  constexpr const char* kFix = "give a run folder, with the metrics.jsonl that weft train wrote";
  const std::string text = read_text_file(file, "the file", kMostBytes, "the metrics of a run", kFix);
  std::size_t number = 0;
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string name = fmt::format("{} line {}", file.string(), ++number);
    const Document document = read_json(std::string_view(text).substr(at, end - at), name, {.fix = kFix});
    const DocumentValue line = document.root();
    for (const char* key : {"step", "loss", "step_ms"}) (void)line[key];  // each line has these
    for (MetricSeries& series : metrics.series) read_point(line, series.key, series.points);
    if (const auto before = line.find("val_loss_before"); before && !before->is_null() && metrics.held_out.empty())
      metrics.held_out.push_back({line["step"].integer(0, INT64_MAX) - 1, before->number()});
    read_point(line, "val_loss", metrics.held_out);
    metrics.step_ms.points.push_back({line["step"].integer(0, INT64_MAX), line["step_ms"].number()});
  }
  metrics.steps = number;
  return metrics;
}

namespace {

namespace fs = std::filesystem;

/// The plan of the run's configuration, if it is the one that was traced: else why it isn't.
struct Replanned {
  simulate::Problem problem;
  simulate::Report report;
  std::string why_not;
};

bool same_tasks(const plan::Plan& plan, const plan::Recording& recording) {
  if (plan.sequence.size() != recording.tasks.size()) return false;
  for (std::size_t i = 0; i < recording.tasks.size(); ++i) {
    if (plan.graph->task(plan.sequence[i]).name != recording.tasks[i].name) return false;
  }
  return true;
}

Replanned replan(const train::RunConfig& config, const std::vector<plan::Recording>& recordings) {
  Replanned out;
  try {
    const train::ResolvedRun run = train::resolve(config, 0);
    out.problem = train::planning_problem(run);
    simulate::Problem planned = out.problem;
    planned.options = train::policy_options(run);  // as the run had them
    out.report = simulate::report_plan(planned, run.policy);
  } catch (const UserError& error) {  // a policy, a machine or a profile that isn't at hand any more
    out.why_not = error.what();
    return out;
  }
  if (!out.report.planned()) {
    out.why_not = out.report.refusal;
  } else if (!std::ranges::equal(out.report.plans(), recordings, [](const auto* plan, const auto& recording) {
               return same_tasks(*plan, recording);
             })) {
    out.why_not = "config.toml gives another plan now than the one that was traced";
  }
  return out;
}

// More would fill the page with rows that differ little, and the file with megabytes.
constexpr std::size_t kMostRanks = 8, kMostSlices = 600'000;

/// Leaves out ranks, then steps, of one of `runs` runs. Says what.
std::string shorten(plan::Recording& recording, std::size_t runs) {
  const std::size_t most_ranks = std::max<std::size_t>(1, kMostRanks / runs);
  std::string note;
  if (recording.ranks.size() > most_ranks) {
    note = fmt::format("{} of {}. ", most_ranks == 1 ? "Rank 0" : fmt::format("Ranks 0 to {}", most_ranks - 1),
                       recording.ranks.size());
    recording.ranks.resize(most_ranks);
  }
  for (plan::RecordedRank& rank : recording.ranks) {
    const std::size_t all = recording.tasks.size() * recording.ranks.size() * runs;
    const std::size_t most = std::max<std::size_t>(1, kMostSlices / std::max<std::size_t>(1, all));
    if (rank.steps.size() <= most) continue;
    if (&rank == &recording.ranks.front()) {
      note += fmt::format("The last {} of {} traced steps. ", most, rank.steps.size());
    }
    rank.steps.erase(rank.steps.begin(), rank.steps.end() - static_cast<std::ptrdiff_t>(most));
  }
  return note;
}

std::vector<inspect::ReportFact> facts_of(const RunMetrics& metrics, const plan::Recording& recording) {
  std::vector<inspect::ReportFact> facts;
  if (const auto& points = metrics.of("loss").points; !points.empty()) {
    facts.push_back({fmt::format("loss at step {}", points.back().step), fmt::format("{:.4f}", points.back().value)});
  }
  if (!metrics.held_out.empty()) {
    facts.push_back({fmt::format("held out, step {}", metrics.held_out.back().step),
                     fmt::format("{:.4f}", metrics.held_out.back().value)});
  }
  if (metrics.steps > 0) {
    facts.push_back(
        {fmt::format("median of {} steps", metrics.steps), fmt::format("{:.2f} ms", metrics.step_ms.median())});
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

/// A run as its folder has it.
struct ReadRun {
  train::RunConfig config;
  RunMetrics metrics;
  std::string name;
  std::vector<inspect::ReportView> views;  // of each stage
  std::vector<inspect::ReportFact> facts;
  std::vector<inspect::ReportTable> shares, trailing;  // trailing: bandwidth, exposed communication, causes
  std::string shortened;                               // what the views leave out
  std::string graph_svg, graph_note;
  std::vector<std::string> verdict;  // with what this run's tasks took

  const plan::Recording& first() const { return views.front().recording; }

  std::string grid() const { return fmt::format("{} ranks ({})", config.grid.ranks(), graph::to_string(config.grid)); }
  std::string subtitle() const {
    const std::string note = train::summation_note(config);
    return fmt::format("{}, policy {}, {} sequences of {} tokens a step, {}{}{}", grid(), first().policy,
                       config.global_batch, config.seq_len, to_string(config.dtype), note.empty() ? "" : "; ", note);
  }
};

void draw_graph(ReadRun& run, const simulate::Report& report) {
  inspect::DrawingOptions dot;
  dot.grid = run.config.grid;
  dot.title = fmt::format("{}: one step of one rank of {}, policy {}", run.config.model.name, run.config.grid.ranks(),
                          report.policy.name);
  try {
    run.graph_svg = inspect::render_svg(inspect::plan_dot(*report.first().plan, "graph.dot", dot));
  } catch (const UserError& error) {
    run.graph_note = fmt::format("Not drawn: {}", error.what());
  }
}

/// Adds links and a lower bound to each view. Returns why communication is exposed, by view: simulated with what this
/// run's tasks took in `recordings`.
std::vector<inspect::ReportTable> add_plan(ReadRun& run, Replanned replanned,
                                           const std::vector<plan::Recording>& recordings) {
  simulate::Report& report = replanned.report;
  const simulate::Problem problem = with_traced_costs(replanned.problem, report.plans(), recordings);
  simulate::simulate_again(report, problem);
  simulate::ExplainOptions options;
  options.rewrites = false;
  std::vector<inspect::ReportTable> tables;
  for (std::size_t k = 0; k < run.views.size(); ++k) {
    inspect::ReportView& view = run.views[k];
    const graph::Graph& graph = report.classes[k].graph();
    view.links = inspect::links_of(graph, replanned.problem.machine, run.config.grid);
    const simulate::Explanation explained = simulate::explain(problem, report, options, k);
    if (k == 0) run.verdict = lines_of(verdict_of(report, k, explained));
    const Document why = read_json(inspect::causes_json(graph, explained).text(), "the causes");
    inspect::ReportTable& causes = tables.emplace_back(inspect::causes_table(why.root(), view.name));
    const plan::RecordedStep& step = view.recording.ranks.front().steps.back();
    causes.note += fmt::format(
        "{}Simulated with the times that this run's tasks took: {:.2f} ms a step, {:.2f} ms at least. Step {} took "
        "{:.2f} ms.",
        causes.note.empty() ? "" : " ", report.step_ns() * 1e-6, report.bounds.best() * 1e-6, step.step,
        static_cast<double>(step.end - step.begin) * 1e-6);
    view.bounds.push_back({"least with these task times", report.bounds.best()});
  }
  return tables;
}

/// The trace of the folder, and those of a pipeline's further stages.
std::vector<plan::Recording> read_traces(const fs::path& folder) {
  std::vector<plan::Recording> recordings = {inspect::read_recording(inspect::find_trace(folder))};
  const auto next = [&] { return folder / fmt::format("trace.stage{}.json", recordings.size()); };
  while (fs::exists(next())) recordings.push_back(inspect::read_recording(next()));
  for (const plan::Recording& recording : recordings) {
    if (!recording.ranks.empty() && !recording.ranks.front().steps.empty()) continue;
    throw UserError(fmt::format("the trace in {} holds no step", folder.string()), "one at least",
                    "weft train with --trace-steps 3");
  }
  const auto steps = [](const plan::Recording& of) {
    return std::pair(of.ranks.size(), of.ranks.front().steps.size());
  };
  for (const plan::Recording& recording : recordings) {
    if (steps(recording) == steps(recordings.front())) continue;
    throw UserError(fmt::format("the traces in {} hold other ranks or steps of each stage", folder.string()),
                    "those of one run", "weft train again");
  }
  return recordings;
}

/// Adds the tables of a view; one of several has its name before their titles.
void add_tables(ReadRun& run, const inspect::ReportView& view, std::optional<inspect::ReportTable> causes) {
  const auto add = [&](inspect::ReportTable table, std::vector<inspect::ReportTable>& to) {
    if (run.views.size() > 1) table.title = fmt::format("{}: {}", view.name, table.title);
    to.push_back(std::move(table));
  };
  add(inspect::shares_table(view.recording), run.shares);
  add(inspect::bandwidth_table(view.recording, view.links), run.trailing);
  add(inspect::exposed_table(view.recording, view.name), run.trailing);
  if (causes) add(std::move(*causes), run.trailing);
}

/// `runs`: how many share the page. Only a run that is `drawn` gets its graph.
ReadRun read_run(const fs::path& folder, const std::vector<train::Setting>& overrides, std::size_t runs, bool drawn,
                 std::string name) {
  ReadRun run;
  train::load_toml(run.config, (folder / "config.toml").string());
  train::apply_command_line(run.config, overrides);
  train::fill_in(run.config, 0);
  run.metrics = read_metrics(folder / "metrics.jsonl");
  std::vector<plan::Recording> recordings = read_traces(folder);
  run.name = name.empty() ? recordings.front().policy : std::move(name);
  Replanned replanned = replan(run.config, recordings);
  run.facts = facts_of(run.metrics, recordings.front());
  for (std::size_t k = 0; k < recordings.size(); ++k) {
    inspect::ReportView& view = run.views.emplace_back();
    view.name = recordings.size() == 1 ? run.name : fmt::format("{}, stage {}", run.name, k);
    view.recording = recordings[k];
    const std::string shortened = shorten(view.recording, runs * recordings.size());
    if (k == 0) run.shortened = shortened;
  }
  std::vector<inspect::ReportTable> causes;
  if (replanned.why_not.empty()) {
    if (drawn) draw_graph(run, replanned.report);
    causes = add_plan(run, std::move(replanned), recordings);
  } else {
    run.graph_note = "Neither graph nor causes: " + replanned.why_not;
  }
  for (std::size_t k = 0; k < run.views.size(); ++k) {
    add_tables(run, run.views[k], causes.empty() ? std::nullopt : std::optional(std::move(causes[k])));
  }
  if (const fs::path experts = folder / train::kExpertsFile; fs::exists(experts)) {
    auto table = experts_table(train::read_expert_loads(experts), !run.config.replay_routing.empty());
    if (table) run.shares.push_back(std::move(*table));
  }
  return run;
}

std::string number_or_dash(const std::vector<inspect::StepPoint>& points, int digits) {
  return points.empty() ? "-" : fmt::format("{:.{}f}", points.back().value, digits);
}

inspect::ReportTable runs_table(const std::vector<ReadRun>& runs) {
  inspect::ReportTable table{
      .title = "Runs",
      .note =
          "Steps, tokens/s and exposed communication are medians over a run's steps. A run's name opens its tables.",
      .words = 4,
      .trailing_words = 1,
      .heads = {"run", "model", "policy", "grid", "steps", "last loss", "held out", "step ms", "tokens/s", "exposed ms",
                "plan"}};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const ReadRun& run = runs[i];
    inspect::ReportCell name(run.name);
    name.run = i;
    table.rows.push_back({std::move(name),
                          {run.config.model.name},
                          {run.first().policy},
                          {run.grid()},
                          {fmt::format("{}", run.metrics.steps)},
                          {number_or_dash(run.metrics.of("loss").points, 4)},
                          {number_or_dash(run.metrics.held_out, 4)},
                          {fmt::format("{:.2f}", run.metrics.step_ms.median())},
                          {human_count(run.metrics.of("tokens_per_s").median())},
                          {fmt::format("{:.2f}", run.metrics.of("exposed_comm_ms").median())},
                          {hex_fingerprint(run.first().plan_fingerprint)}});
  }
  return table;
}

std::vector<inspect::StepChart> charts_of(const std::vector<ReadRun>& runs) {
  std::vector<inspect::StepChart> charts;
  const auto add = [&](const std::string& title, bool from_zero, const auto& points_of) {
    inspect::StepChart& chart = charts.emplace_back();
    chart.title = title, chart.from_zero = from_zero, chart.named_apart = true;
    for (const ReadRun& run : runs) chart.curves.push_back({run.name, points_of(run.metrics)});
  };
  for (const MetricSeries& series : runs.front().metrics.series) {
    add(series.title, series.from_zero, [&](const RunMetrics& metrics) { return metrics.of(series.key).points; });
    if (series.key == "loss") add("held-out loss", false, [](const RunMetrics& metrics) { return metrics.held_out; });
  }
  return charts;
}

}  // namespace

std::vector<std::string> run_names(const std::vector<std::string>& folders) {
  if (folders.size() > kMostRuns) {
    throw UserError(fmt::format("{} runs", folders.size()), fmt::format("at most {} in one report", kMostRuns),
                    "name fewer of them");
  }
  std::vector<std::string> names, paths;
  for (const std::string& folder : folders) {
    fs::path path = fs::path(folder).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();  // "runs/a/" is "runs/a"
    if (std::ranges::find(paths, path.string()) != paths.end()) {
      throw UserError(fmt::format("{} is named twice", folder), "each run once", "leave one of them out");
    }
    paths.push_back(path.string());
    names.push_back(path.filename().string());
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto same = [&](const std::string& path) {
      return fs::path(path).filename() == fs::path(paths[i]).filename();
    };
    if (std::ranges::count_if(paths, same) > 1) names[i] = paths[i];
  }
  return names;
}

inspect::ReportPage run_page(const fs::path& folder, const std::vector<train::Setting>& overrides) {
  ReadRun run = read_run(folder, overrides, 1, true, "");
  inspect::ReportPage page;
  page.title = fmt::format("{}: {} steps", run.config.model.name, run.metrics.steps);
  page.subtitle = run.subtitle();
  page.verdict = std::move(run.verdict);
  page.facts = std::move(run.facts);
  page.timeline_note = std::move(run.shortened);
  for (MetricSeries& series : run.metrics.series) {
    inspect::StepChart& chart = page.charts.emplace_back();
    chart.title = series.title, chart.from_zero = series.from_zero;
    chart.curves.push_back({series.title, std::move(series.points)});
  }
  page.charts.front().dots_name = "held out";
  page.charts.front().dots = std::move(run.metrics.held_out);
  page.leading = std::move(run.shares);
  page.trailing = std::move(run.trailing);
  page.graph_svg = std::move(run.graph_svg);
  page.graph_note = std::move(run.graph_note);
  page.views = std::move(run.views);
  return page;
}

inspect::ReportPage runs_page(const std::vector<std::string>& folders) {
  const std::vector<std::string> names = run_names(folders);
  std::vector<ReadRun> runs;
  for (std::size_t i = 0; i < folders.size(); ++i) {
    runs.push_back(read_run(folders[i], {}, folders.size(), i == 0, names[i]));
  }
  inspect::ReportPage page;
  page.title = fmt::format("{} runs: {}", runs.size(), join(names));
  page.subtitle = "beside each other";
  page.leading.push_back(runs_table(runs));
  page.charts = charts_of(runs);
  page.timeline_note = "Each run's last steps from the same moment on.";
  page.graph_svg = std::move(runs.front().graph_svg);
  page.graph_view = runs.front().views.front().name;
  page.graph_note = page.graph_svg.empty() ? runs.front().graph_note : fmt::format("Of {}.", names.front());
  for (ReadRun& run : runs) {
    inspect::ReportRun& part = page.runs.emplace_back();
    part.name = run.name;
    part.subtitle = fmt::format("{}, {}", run.config.model.name, run.subtitle());
    part.note = run.shortened + run.graph_note;
    part.facts = std::move(run.facts);
    part.tables = std::move(run.shares);
    std::ranges::move(run.trailing, std::back_inserter(part.tables));
    std::ranges::move(run.views, std::back_inserter(page.views));
  }
  return page;
}

}  // namespace weft::study
