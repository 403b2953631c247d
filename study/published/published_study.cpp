#include "study/published/published_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "inspect/drawing/chart.h"
#include "runtime/simulate/report.h"
#include "study/columns.h"
#include "train/config/resolved_run.h"
#include "train/step/planning.h"

namespace weft::study {
namespace {

constexpr double kNearError = 0.2;  // the error within which a run is counted
constexpr double kSameRate = 0.03;  // published rates that differ by less aren't ranked
constexpr double kNanosecondsOfOne = 1e9;

double middle_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

struct PublishedStep {
  double ns = 0;
  std::int64_t memory_bytes = 0;
};

PublishedStep published_step(train::ResolvedRun run, cost::Machine machine) {
  run.machine = std::make_shared<const cost::Machine>(std::move(machine));
  const simulate::Report report = simulate::report_plan(train::planning_problem(run), run.policy);
  if (!report.planned()) throw UserError(report.refusal, "a plan", "change the run's keys");
  return {report.step_ns(), report.memory_bytes()};
}

std::string signed_percent(double error) {
  return fmt::format("{:+.1f} %", 100 * error);
}

std::string tokens_text(double tokens) {
  return fmt::format("{:.{}f}", tokens, tokens < 10 ? 2 : tokens < 1000 ? 1 : 0);
}

/// Rates of the rows that could be simulated.
struct ComparedRates {
  std::vector<double> published, tokens, plain;

  void add(const PublishedRow& row, double factor = 1) {
    if (!row.possible()) return;
    published.push_back(row.run.tokens);
    tokens.push_back(row.tokens);
    plain.push_back(row.plain * factor);
  }
};

template <class Chosen>
ComparedRates rates_of_rows(const std::vector<PublishedRow>& rows, const Chosen& chosen, double factor = 1) {
  ComparedRates rates;
  for (const PublishedRow& row : rows) {
    if (chosen(row)) rates.add(row, factor);
  }
  return rates;
}

/// A half of the list, by one way of prediction.
struct HalfSummary {
  Half half = Half::learn;
  std::string way;
  ErrorSummary errors;
};

struct GroupSummary {
  std::string name;
  Half half = Half::learn;
  ErrorSummary errors;
  Ranking ranking;
};

struct PublishedSummary {
  double factor = 1;
  std::vector<HalfSummary> halves = {};
  std::vector<GroupSummary> groups = {};
};

PublishedSummary summary_of(const std::vector<PublishedRow>& rows) {
  const auto in = [](Half half) { return [half](const PublishedRow& row) { return row.run.half == half; }; };
  PublishedSummary summary;
  const ComparedRates learnt = rates_of_rows(rows, in(Half::learn));
  summary.factor = fitted_factor(learnt.plain, learnt.published);
  std::vector<std::string> groups;
  for (const PublishedRow& row : rows) {
    if (std::ranges::find(groups, row.run.group) == groups.end()) groups.push_back(row.run.group);
  }
  for (const Half half : {Half::learn, Half::judge}) {
    const ComparedRates rates = rates_of_rows(rows, in(half)), scaled = rates_of_rows(rows, in(half), summary.factor);
    if (rates.published.empty()) continue;
    summary.halves.push_back({half, "machine files", study::summary_of(rates.tokens, rates.published)});
    summary.halves.push_back({half, "without rates by shape", study::summary_of(rates.plain, rates.published)});
    summary.halves.push_back(
        {half, fmt::format("these times {:.3f}", summary.factor), study::summary_of(scaled.plain, scaled.published)});
    for (const std::string& group : groups) {
      const ComparedRates own =
          rates_of_rows(rows, [&](const PublishedRow& row) { return row.run.half == half && row.run.group == group; });
      if (own.published.empty()) continue;
      summary.groups.push_back(
          {group, half, study::summary_of(own.tokens, own.published), ranking_of(own.tokens, own.published)});
    }
  }
  return summary;
}

Columns<PublishedRow> published_columns() {
  Columns<PublishedRow> columns;
  columns.add("name", [](const PublishedRow& row) { return row.run.name; }, {.head = "run", .words = true});
  columns.add("half", [](const PublishedRow& row) { return std::string(to_string(row.run.half)); },
              {.head = "half", .words = true});
  columns.add("group", [](const PublishedRow& row) { return row.run.group; });
  columns.add("source", [](const PublishedRow& row) { return row.run.source; });
  columns.add("where", [](const PublishedRow& row) { return row.run.where; });
  columns.add("machine", [](const PublishedRow& row) { return row.run.machine; });
  columns.add("ranks", [](const PublishedRow& row) { return row.run.ranks; });
  columns.add(
      "published_tokens_per_s", [](const PublishedRow& row) { return row.run.tokens; }, {.head = "published"},
      tokens_text);
  columns.figure("simulated_tokens_per_s", &PublishedRow::tokens, {.head = "simulated"}, tokens_text);
  columns.figure(
      "error", [](const PublishedRow& row) { return row.error(); }, {.head = "error"}, signed_percent);
  columns.figure("plain_tokens_per_s", &PublishedRow::plain);
  columns.figure(
      "plain_error", [](const PublishedRow& row) { return row.plain / row.run.tokens - 1; },
      {.head = "without rates by shape", .rank = 1}, signed_percent);
  columns.figure("memory_bytes", &PublishedRow::memory_bytes, {.head = "memory", .rank = 2}, bytes_text);
  columns.figure("fits",
                 [](const PublishedRow& row) { return static_cast<double>(row.memory_bytes) <= row.device_bytes; });
  columns.add("reason", &PublishedRow::reason);
  return columns;
}

template <class Row>
void add_errors(Columns<Row>& columns) {
  columns.add("runs", [](const Row& row) { return row.errors.runs; }, {.head = "runs"});
  columns.add(
      "median_error", [](const Row& row) { return row.errors.median; }, {.head = "median |error|"}, percent_text);
  columns.add(
      "bias", [](const Row& row) { return row.errors.bias; }, {.head = "median error"}, signed_percent);
  columns.add(
      "within_20_percent", [](const Row& row) { return row.errors.within_20; }, {.head = "within 20 %"}, percent_text);
}

Columns<HalfSummary> half_columns() {
  Columns<HalfSummary> columns;
  columns.add("half", [](const HalfSummary& row) { return std::string(to_string(row.half)); },
              {.head = "half", .words = true});
  columns.add("predicted_by", &HalfSummary::way, {.head = "predicted by", .words = true});
  add_errors(columns);
  return columns;
}

Columns<GroupSummary> group_columns() {
  Columns<GroupSummary> columns;
  columns.add("group", &GroupSummary::name, {.head = "group", .words = true});
  columns.add("half", [](const GroupSummary& row) { return std::string(to_string(row.half)); },
              {.head = "half", .words = true});
  add_errors(columns);
  columns.add("pairs", [](const GroupSummary& row) { return row.ranking.pairs; }, {.head = "pairs"});
  columns.add("pairs_right", [](const GroupSummary& row) { return row.ranking.right; }, {.head = "ranked right"});
  return columns;
}

inspect::Picture published_picture(const std::vector<PublishedRow>& rows) {
  inspect::SeriesChart chart{
      .title = "Published runs and their simulation",
      .x = {.title = "published tokens a second and rank", .scale = inspect::ChartScale::logarithmic},
      .y = {.title = "simulated", .scale = inspect::ChartScale::logarithmic}};
  std::map<std::pair<std::string, Half>, inspect::ChartSeries> series;
  double least = 1e300, most = 0;
  for (const PublishedRow& row : rows) {
    if (!row.possible()) continue;
    least = std::min(least, row.run.tokens);
    most = std::max(most, row.run.tokens);
    inspect::ChartSeries& own = series[{row.run.group, row.run.half}];
    own.name = fmt::format("{}{}", row.run.group, row.run.half == Half::learn ? " (learnt)" : "");
    own.line = false;
    own.radius = row.run.half == Half::learn ? 2 : 3.5;
    own.points.push_back({.x = row.run.tokens,
                          .y = row.tokens,
                          .tooltip = fmt::format("{}: {} published, {} simulated", row.run.name,
                                                 tokens_text(row.run.tokens), tokens_text(row.tokens))});
  }
  std::map<std::string, std::string> colors;
  for (auto& [key, each] : series) {
    each.color = colors.try_emplace(key.first, inspect::chart_color(colors.size())).first->second;
    chart.series.push_back(std::move(each));
  }
  for (const double factor : {1 - kNearError, 1.0, 1 + kNearError}) {
    if (most <= 0) continue;
    chart.series.push_back({.name = factor == 1 ? "equal, and 20 % off" : "",
                            .points = {{.x = least, .y = factor * least}, {.x = most, .y = factor * most}},
                            .color = "#888888",
                            .dashed = factor != 1,
                            .radius = 0});
  }
  return inspect::chart_picture(chart);
}

StyledText published_text(const std::vector<PublishedRow>& rows, const PublishedSummary& summary,
                          std::optional<std::size_t> width) {
  StyledText text = table_text(published_columns().table(rows), width);
  text.add("\n");
  text.add(table_text(half_columns().table(summary.halves), width));
  text.add("\n");
  text.add(table_text(group_columns().table(summary.groups), width));
  text.add(
      "\nTokens a second and rank. learn: constants of machine files were chosen by these runs; judge: they weren't.\n"
      "Pairs: of runs whose published rates differ by 3 % or more. The factor is fitted to the runs that are learnt "
      "from.\n");
  return text;
}

}  // namespace

PublishedRow simulated_run(const PublishedRun& run, const std::vector<std::string>& numbers) {
  const train::ResolvedRun resolved = train::resolve(config_of(run), 0);
  const cost::Machine machine = machine_of(run, numbers);
  const PublishedStep step = published_step(resolved, machine),
                      plain = published_step(resolved, without_rates_by_shape(machine));
  const double tokens =
      static_cast<double>(resolved.config.global_batch * resolved.config.seq_len) / static_cast<double>(run.ranks);
  if (const std::int64_t ranks = resolved.config.grid.ranks(); ranks != run.ranks) {
    throw UserError(fmt::format("{}: a grid of {} ranks", run.name, ranks), fmt::format("{}", run.ranks),
                    "mend the list of runs");
  }
  return {.run = run,
          .tokens = tokens / step.ns * kNanosecondsOfOne,
          .plain = tokens / plain.ns * kNanosecondsOfOne,
          .memory_bytes = step.memory_bytes,
          .device_bytes = machine.memory_bytes};
}

std::vector<PublishedRow> study_published(const PublishedStudyOptions& options, const TellStatus& tell) {
  Experiment<PublishedRow> experiment{.threads = std::max(1, options.threads)};
  for (PublishedRun& run : published_runs(cost::machine_folders())) {
    if (options.half && run.half != *options.half) continue;
    if (!options.groups.empty() && std::ranges::find(options.groups, run.group) == options.groups.end()) continue;
    experiment.points.push_back({.run = std::move(run)});
  }
  experiment.name = [](const PublishedRow& row) { return std::vector{row.run.name}; };
  experiment.compute = [&](std::span<PublishedRow> rows, const TellStatus&) {
    for (PublishedRow& row : rows) {
      try {
        row = simulated_run(row.run, options.numbers);
      } catch (const UserError& error) {
        row.reason = error.what();
      }
    }
    return true;
  };
  return run(experiment, {}, {}, tell);
}

ErrorSummary summary_of(std::span<const double> predicted, std::span<const double> published) {
  std::vector<double> errors, sizes;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    errors.push_back(predicted[i] / published[i] - 1);
    sizes.push_back(std::abs(errors.back()));
  }
  const auto near = std::ranges::count_if(sizes, [](double size) { return size <= kNearError; });
  return {.runs = errors.size(),
          .median = middle_of(sizes),
          .bias = middle_of(errors),
          .within_20 = errors.empty() ? 0 : static_cast<double>(near) / static_cast<double>(errors.size())};
}

double fitted_factor(std::span<const double> predicted, std::span<const double> published) {
  double sum = 0;
  for (std::size_t i = 0; i < predicted.size(); ++i) sum += std::log(published[i] / predicted[i]);
  return predicted.empty() ? 1 : std::exp(sum / static_cast<double>(predicted.size()));
}

Ranking ranking_of(std::span<const double> predicted, std::span<const double> published) {
  Ranking ranking;
  for (std::size_t i = 0; i < published.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double ratio = published[i] / published[j];
      if (std::max(ratio, 1 / ratio) < 1 + kSameRate) continue;
      ++ranking.pairs;
      if ((ratio > 1) == (predicted[i] > predicted[j])) ++ranking.right;
    }
  }
  return ranking;
}

Results results_of(const std::vector<PublishedRow>& rows) {
  return {.text = [&rows](std::optional<std::size_t> width) { return published_text(rows, summary_of(rows), width); },
          .json =
              [&rows] {
                const PublishedSummary summary = summary_of(rows);
                return JsonObject()
                    .add("factor", summary.factor)
                    .add("runs", published_columns().json(rows))
                    .add("halves", half_columns().json(summary.halves))
                    .add("groups", group_columns().json(summary.groups));
              },
          .csv = [&rows] { return published_columns().csv(rows); },
          .picture = [&rows] { return published_picture(rows); }};
}

}  // namespace weft::study
