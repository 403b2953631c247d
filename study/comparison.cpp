#include "study/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/durable_file.h"
#include "base/text/escape.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "inspect/report/report_tables.h"
#include "runtime/cost/machine_numbers.h"
#include "runtime/simulate/certify/window_bounds.h"
#include "study/columns.h"
#include "study/comparison_folder.h"

namespace weft::study {
namespace {

std::string ms(double ns) {
  return fmt::format("{:.2f}", ns * 1e-6);
}

std::string step_ms(double ns) {
  return inspect::step_ms_text(ns * 1e-6);
}

std::string percent(double share) {
  const std::string text = fmt::format("{:.1f}", 100 * share);
  return text == "-0.0" ? "0.0" : text;
}

std::vector<std::string> channels_of(const Comparison& comparison) {
  std::vector<std::string> names;
  for (const PolicyStep& step : comparison.steps) {
    const simulate::Report& report = step.report;
    if (!report.planned()) continue;
    for (const simulate::ChannelTimes& channel : report.most_exposed().channels) {
      if (std::ranges::find(names, channel.stream) == names.end()) names.push_back(channel.stream);
    }
  }
  return names;
}

double exposed_on(const simulate::Report& report, const std::string& channel) {
  const auto found = std::ranges::find(report.most_exposed().channels, channel, &simulate::ChannelTimes::stream);
  return found == report.most_exposed().channels.end() ? 0 : found->exposed_ns;
}

/// The policies' table. The ranks of its columns say what a reader can do without first.
std::vector<TableColumn> policy_columns(const Comparison& comparison, const std::vector<std::string>& channels) {
  std::vector<TableColumn> columns = {
      {.head = "policy", .words = true}, {.head = "step ms"},
      {.head = "speed-up", .rank = 2},   {.head = "gap %", .rank = 4},
      {.head = "hidden %", .rank = 3},   {.head = "exposed ms", .emphasis = Emphasis::bad},
      {.head = "overlap %", .rank = 5},  {.head = "contention ms", .rank = 6},
      {.head = "memory", .rank = 1},     {.head = "planning ms", .rank = 7}};
  if (comparison.has_stages()) {
    columns.insert(columns.begin() + 1, {{.head = "stages a rank", .rank = 3}, {.head = "bubble %"}});
  }
  for (const std::string& channel : channels) columns.push_back({.head = "exp. " + channel, .rank = 8});
  if (comparison.disturbed()) {
    columns.insert(columns.end(), {{.head = "noisy ms"}, {.head = "95th % ms"}, {.head = "slow rank ms", .rank = 1}});
  }
  if (comparison.measured()) {
    columns.insert(columns.end(), {{.head = "measured ms"},
                                   {.head = "spread %", .rank = 5},
                                   {.head = "error %", .rank = 1},
                                   {.head = "hidden %", .rank = 3}});
    if (comparison.has_stages()) columns.push_back({.head = "bubble there %", .rank = 2});
  }
  return columns;
}

/// Of the policy's own graph; without one that is known, of the configured one.
double bound_of(const Comparison& comparison, const simulate::Report& report) {
  return report.bounds.best() > 0 ? report.bounds.best() : comparison.bound_ns();
}

/// Whether the policy orders another graph than the configured one.
bool rewrites_graph(const Comparison& comparison, const PolicyStep& step) {
  const auto more = [&](const simulate::ClassReport& each) {
    return each.rewrites.size() > step.problem.rewrites.size() || !each.messages.empty();
  };
  return step.report.bounds.best() < comparison.bound_ns() || std::ranges::any_of(step.report.classes, more);
}

/// What the policy saves of the time between the serial step and the bound; "-" without a serial step.
std::string hidden_text(double step_ns, const std::optional<double>& serial_ns, double bound_ns) {
  return serial_ns ? percent(simulate::hidden_share(step_ns, *serial_ns, bound_ns)) : "-";
}

TextTable policies_table(const Comparison& comparison) {
  std::vector<std::string> channels = channels_of(comparison);
  if (channels.size() < 2) channels.clear();  // the column would equal "exposed ms"
  TextTable table{.columns = policy_columns(comparison, channels)};
  const PolicyStep* serial = comparison.serial();
  std::optional<double> serial_ns, serial_measured_ns;
  if (serial != nullptr) serial_ns = serial->report.step_ns(), serial_measured_ns = serial->measured.median();
  double least = INFINITY;
  for (const PolicyStep& each : comparison.steps) {
    const simulate::Report& r = each.report;
    if (!r.planned()) continue;
    std::vector<std::string>& row = table.rows.emplace_back();
    const double bound = bound_of(comparison, r);
    row = {r.policy.name + (rewrites_graph(comparison, each) ? " *" : ""),
           step_ms(r.step_ns()),
           serial_ns ? fmt::format("{:.3f}", *serial_ns / r.step_ns()) : "-",
           percent(r.gap()),
           hidden_text(r.step_ns(), serial_ns, bound),
           ms(r.most_exposed().times.exposed),
           percent(r.most_exposed().times.overlap_fraction()),
           ms(r.simulation.ranks.front().contention_ns),
           human_bytes(static_cast<std::uint64_t>(r.memory_bytes())),
           fmt::format("{:.1f}", r.planning_ms)};
    if (comparison.has_stages()) {
      const std::string stages = each.run ? fmt::format("{}", each.run->config.pipeline.chunks.chunks) : "-";
      row.insert(row.begin() + 1, {stages, percent(simulate::bubble_share(r.times()))});
    }
    for (const std::string& channel : channels) row.push_back(ms(exposed_on(r, channel)));
    if (const auto& d = each.disturbed) {
      row.insert(row.end(), {ms(d->median_ns), ms(d->p95_ns), ms(d->slow_rank_ns)});
    }
    double step = r.step_ns();
    if (comparison.measured()) {
      const MeasuredSteps& steps = each.measured;
      step = steps.median();
      row.insert(row.end(), {ms(step), percent((steps.quantile(0.75) - steps.quantile(0.25)) / step),
                             percent(r.step_ns() / step - 1), hidden_text(step, serial_measured_ns, bound)});
      if (comparison.has_stages()) row.push_back(percent(simulate::bubble_share(steps.times)));
    }
    if (step < least) least = step, table.best = table.rows.size() - 1;
  }
  return table;
}

constexpr const char* kFrontTitle = "\nTime against memory: plans that no other plan beats in both.\n\n";

Columns<LimitedPlan> front_columns() {
  Columns<LimitedPlan> columns;
  columns.add("policy", &LimitedPlan::policy, {.head = "policy", .words = true});
  columns.add("memory_bytes", &LimitedPlan::memory_bytes, {.head = "memory"}, bytes_text);
  columns.add("step_ms", [](const LimitedPlan& plan) { return plan.step_ns * 1e-6; })
      .shown({.head = "step ms"}, [](const LimitedPlan& plan) { return ms(plan.step_ns); });
  return columns;
}

std::string bounds_text(const Comparison& comparison) {
  const simulate::Bounds& b = comparison.problem.bounds;
  if (b.best() <= 0) return "";
  std::string text =
      fmt::format("No order can take less than {} ms ({}); computing alone takes {} ms, communicating alone {} ms.\n",
                  step_ms(b.best()), study::bounds_text(b, step_ms), ms(comparison.problem.alone.compute_ns),
                  ms(comparison.problem.alone.communication_ns));
  bool marked = false;
  for (const PolicyStep& step : comparison.steps) {
    const simulate::Report& report = step.report;
    if (!report.planned() || !rewrites_graph(comparison, step)) continue;
    marked = true;
    if (report.bounds.best() >= b.best()) continue;
    text += fmt::format("{} rewrites the graph, after which no order takes less than {} ms.\n", report.policy.name,
                        ms(report.bounds.best()));
  }
  if (marked)
    text += "*: of a graph that the policy rewrote; its gap and hidden % are against that graph's own bound.\n";
  return text;
}

std::string stale_text(const Comparison& comparison) {
  std::string text;
  for (const auto& [run, problem, report, measured, disturbed, note] : comparison.steps) {
    if (!report.planned() || measured.median() >= report.bounds.best()) continue;
    text += fmt::format("profile stale: {} was measured {} ms, below its bound of {} ms\n", report.policy.name,
                        ms(measured.median()), ms(report.bounds.best()));
  }
  return text;
}

}  // namespace

const PolicyStep* Comparison::serial() const {
  const auto found = std::ranges::find_if(
      steps, [](const PolicyStep& s) { return s.report.policy.name == "serial" && s.report.planned(); });
  return found == steps.end() ? nullptr : &*found;
}

bool Comparison::measured() const {
  return std::ranges::any_of(steps, [](const PolicyStep& step) { return !step.measured.ns.empty(); });
}

bool Comparison::disturbed() const {
  return std::ranges::any_of(steps, [](const PolicyStep& step) { return step.disturbed.has_value(); });
}

bool Comparison::has_stages() const {
  return std::ranges::any_of(steps, &PolicyStep::has_stages);
}

void Comparison::prove() {
  const auto first = std::ranges::find_if(steps, [](const PolicyStep& s) { return !s.problem.classes.empty(); });
  if (first == steps.end()) return;
  problem = simulate::bounds_of(first->problem);
  std::vector<simulate::Report> reports;
  for (PolicyStep& step : steps) reports.push_back(std::move(step.report));
  simulate::prove_windows(first->problem, reports, &problem);
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i].report = std::move(reports[i]);
}

double ranked_alike(std::span<const double> simulated, std::span<const double> measured, double least) {
  int pairs = 0, alike = 0;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    for (std::size_t j = i + 1; j < measured.size(); ++j) {
      const double x = measured[i], y = measured[j];
      if (std::abs(x - y) <= least * std::min(x, y)) continue;
      ++pairs;
      if (x < y ? simulated[i] < simulated[j] : simulated[i] > simulated[j]) ++alike;
    }
  }
  return pairs == 0 ? 1 : static_cast<double>(alike) / pairs;
}

double ranked_alike(const Comparison& comparison, double least) {
  std::vector<double> simulated, measured;
  for (const PolicyStep& step : comparison.steps) {
    if (!step.report.planned()) continue;
    simulated.push_back(step.report.step_ns());
    measured.push_back(step.measured.median());
  }
  return ranked_alike(simulated, measured, least);
}

namespace {

/// `table` gives a table's text.
template <class Table>
StyledText described(const Comparison& comparison, std::optional<std::size_t> width, const Table& table) {
  const auto prose = [&](const std::string& of) { return fitted(of, width); };
  StyledText text(
      prose(fmt::format("{}\nCosts: {}{}{}.\n{}\n", comparison.title, comparison.source,
                        comparison.unsure.empty() ? "" : "; ", cost::unsure_text(comparison.unsure),
                        comparison.summation_note.empty() ? "" : "Note: " + comparison.summation_note + ".\n")));
  text.add(table(policies_table(comparison))).add(prose("\n" + bounds_text(comparison)));
  if (comparison.measured()) {
    text.add(prose(fmt::format(
        "Of the pairs of policies whose measured medians differ by more than 3 %, {:.0f} % are ranked alike "
        "by the simulator.\n",
        100 * ranked_alike(comparison, 0.03))));
    text.add(prose(stale_text(comparison)), Emphasis::warning);
  }
  for (const PolicyStep& step : comparison.steps) {
    const simulate::Report& report = step.report;
    if (!report.planned()) {
      constexpr std::size_t kMost = 200;  // the cycle of a deadlock may name many tasks
      const std::string reason = report.refusal.substr(0, report.refusal.find('\n'));
      text.add(prose(fmt::format("{}: no plan: {}{}\n", report.policy.name, reason.substr(0, kMost),
                                 reason.size() > kMost ? "…" : "")));
      continue;
    }
    if (const std::string rewrites = report.rewrites_for_memory(); !rewrites.empty()) {
      text.add(prose(fmt::format("{} rewrites the graph to fit the memory: {}\n", report.policy.name, rewrites)));
    }
    if (const std::string_view proof = to_string(report.proof()); !proof.empty())
      text.add(prose(fmt::format("{}: {}\n", report.policy.name, proof)));
    if (const std::string order = report.order_for_memory(); !order.empty()) {
      text.add(prose(fmt::format("{}: its own order takes too much memory; the figures are of another order: {}\n",
                                 report.policy.name, order)));
    }
  }
  if (comparison.limited.empty()) return text;
  return text.add(prose(kFrontTitle)).add(table(front_columns().table(comparison.limited)));
}

}  // namespace

StyledText styled_comparison(const Comparison& comparison, std::optional<std::size_t> width) {
  return described(comparison, width, [&](const TextTable& table) { return table_text(table, width); });
}

std::string comparison_text(const Comparison& comparison, TableStyle style) {
  if (style == TableStyle::terminal) return styled_comparison(comparison, std::nullopt).plain();
  return described(comparison, std::nullopt, [](const TextTable& table) { return StyledText(table_markdown(table)); })
      .plain();
}

namespace {

double in_ms(double ns) {
  return ns * 1e-6;
}

JsonObject measured_json(const PolicyStep& step) {
  const MeasuredSteps& steps = step.measured;
  JsonObject json;
  json.add("steps", steps.ns.size())
      .add("median_ms", in_ms(steps.median()))
      .add("lower_quartile_ms", in_ms(steps.quantile(0.25)))
      .add("upper_quartile_ms", in_ms(steps.quantile(0.75)))
      .add("exposed_ms", in_ms(most(steps.times, &simulate::ClassTimes::exposed)))
      .add("communication_ms", in_ms(most(steps.times, &simulate::ClassTimes::communication)))
      .add("simulated_error", step.report.step_ns() / steps.median() - 1);
  if (!step.has_stages()) return json;
  return json.add("median_seconds", in_seconds(steps.median()))
      .add("lower_quartile_seconds", in_seconds(steps.quantile(0.25)))
      .add("upper_quartile_seconds", in_seconds(steps.quantile(0.75)))
      .add("bubble_share", simulate::bubble_share(steps.times))
      .add("ranks", times_json(steps.times));
}

JsonObject disturbed_json(const PolicyStep& step) {
  const simulate::Robustness& disturbed = *step.disturbed;
  JsonObject json;
  json.add("median_ms", in_ms(disturbed.median_ns))
      .add("p95_ms", in_ms(disturbed.p95_ns))
      .add("slow_rank_ms", in_ms(disturbed.slow_rank_ns));
  if (!step.has_stages()) return json;
  return json.add("median_seconds", in_seconds(disturbed.median_ns))
      .add("p95_seconds", in_seconds(disturbed.p95_ns))
      .add("slow_rank_seconds", in_seconds(disturbed.slow_rank_ns));
}

/// By policy, the members that comparison_json() has of it.
std::vector<JsonObject> policies_json(const Comparison& comparison) {
  const PolicyStep* serial = comparison.serial();
  std::vector<JsonObject> policies;
  for (const PolicyStep& step : comparison.steps) {
    const simulate::Report& r = step.report;
    JsonObject& entry = policies.emplace_back();
    entry.add("policy", r.policy.name);
    if (!r.planned()) {
      entry.add("refused", r.refusal);
      continue;
    }
    if (const std::string order = r.order_for_memory(); !order.empty()) entry.add("order_for_memory", order);
    if (const std::string rewrites = r.rewrites_for_memory(); !rewrites.empty())
      entry.add("rewrites_for_memory", rewrites);
    if (const std::string_view proof = to_string(r.proof()); !proof.empty()) entry.add("proof", proof);
    entry.add("step_ms", in_ms(r.step_ns())).add("gap", r.gap()).add("bounds_ms", bounds_json(r.bounds, 1e-6));
    if (serial != nullptr) {
      const double serial_ns = serial->report.step_ns();
      entry.add("speed_up", serial_ns / r.step_ns())
          .add("hidden", simulate::hidden_share(r.step_ns(), serial_ns, bound_of(comparison, r)));
    }
    entry.add("exposed_ms", in_ms(r.most_exposed().times.exposed))
        .add("communication_ms", in_ms(r.most_exposed().times.communication))
        .add("overlap", r.most_exposed().times.overlap_fraction())
        .add("contention_ms", in_ms(r.simulation.ranks.front().contention_ns))
        .add("memory_bytes", r.memory_bytes());
    if (comparison.tells_planning) entry.add("planning_ms", r.planning_ms);
    JsonObject channels;
    for (const simulate::ChannelTimes& channel : r.most_exposed().channels) {
      channels.add(channel.stream,
                   JsonObject().add("busy_ms", in_ms(channel.busy_ns)).add("exposed_ms", in_ms(channel.exposed_ns)));
    }
    entry.add("channels", channels);
    if (step.disturbed) entry.add("disturbed", disturbed_json(step));
    if (comparison.measured()) entry.add("measured", measured_json(step));
    if (step.has_stages()) add_step(entry, step);
  }
  return policies;
}

}  // namespace

JsonObject comparison_json(const Comparison& comparison) {
  JsonObject json;
  json.add("title", comparison.title).add("costs", comparison.source).add("unsure_numbers", comparison.unsure);
  json.add("summation_note", comparison.summation_note);
  json.add("bound_ms", in_ms(comparison.bound_ns()));
  json.add("policies", policies_json(comparison));
  if (comparison.measured()) json.add("ranked_alike", ranked_alike(comparison, 0.03));
  if (!comparison.limited.empty()) json.add("pareto", front_columns().json(comparison.limited));
  return json;
}

namespace {

using Cells = std::vector<std::pair<std::string, std::string>>;  // by heading

/// The heading of a number: shares have no unit in JSON, but a table's reader expects to see what the number is.
std::string heading_of(const std::string& parent, const std::string& key) {
  if (parent == "bounds_ms") return key + "_bound_ms";
  const bool is_share = key == "gap" || key == "hidden" || key == "overlap" || key == "simulated_error";
  return (parent.empty() || parent == "channels" ? "" : parent + "_") + key + (is_share ? "_fraction" : "");
}

/// The text of a cell for a value of JSON.
std::string cell_of(const std::string& json) {
  if (json == "null") return "";
  return json.starts_with('"') ? read_json(json, "a cell").root().text() : json;
}

void flatten(std::string_view object, const std::string& parent, Cells& cells) {
  for (const auto& [key, value] : json_members(object)) {
    const std::string heading = heading_of(parent, key);
    if (value.starts_with('[')) continue;
    if (value.starts_with('{')) {
      flatten(value, key == "bounds_ms" || key == "channels" ? key : heading, cells);
    } else {
      cells.emplace_back(heading, cell_of(value));
    }
  }
}

}  // namespace

ComparisonFile comparison_file_of(const std::string& output) {
  const std::filesystem::path path = output;
  if (names_folder(path)) return ComparisonFile::folder;
  if (written_at_once(path)) return ComparisonFile::as_printed;
  const std::string ending = path.extension().string();
  if (ending == ".csv") return ComparisonFile::csv;
  if (ending == ".md") return ComparisonFile::markdown;
  if (ending == ".json") return ComparisonFile::json;
  if (ending == ".svg") return ComparisonFile::svg;
  throw UserError(fmt::format("the format of {} is unknown", output),
                  "a file that ends in .csv, .md, .json or .svg, or a folder, whose name has no ending",
                  "-o policies.csv");
}

std::string comparison_csv(const Comparison& comparison) {
  std::vector<std::string> headings;
  std::vector<Cells> rows;
  for (const JsonObject& entry : policies_json(comparison)) {
    flatten(entry.text(), "", rows.emplace_back());
    // A heading that is new stands after the one before it in its row.
    auto after = headings.begin();
    for (const auto& [heading, value] : rows.back()) {
      const auto known = std::ranges::find(headings, heading);
      after = std::next(known == headings.end() ? headings.insert(after, heading) : known);
    }
  }
  std::string text = csv_line(headings);
  for (const Cells& row : rows) {
    CsvRow cells;
    for (const std::string& heading : headings) {
      const auto cell = std::ranges::find(row, heading, &Cells::value_type::first);
      cells.push_back(cell == row.end() ? "" : cell->second);
    }
    text += csv_line(cells);
  }
  return text;
}

std::string comparison_file(const Comparison& comparison, ComparisonFile format) {
  switch (format) {
    case ComparisonFile::csv:
      return comparison_csv(comparison);
    case ComparisonFile::markdown:
      return comparison_text(comparison, TableStyle::markdown);
    case ComparisonFile::json:
      return indented_json(comparison_json(comparison).text(), 1) + "\n";
    case ComparisonFile::svg:
      return picture_of(comparison.steps).svg();
    case ComparisonFile::folder:
    case ComparisonFile::as_printed:
      break;
  }
  throw std::logic_error("a comparison isn't a file of that format");
}

}  // namespace weft::study
