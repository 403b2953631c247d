#include "study/scaling/scaling.h"

#include <fmt/format.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/median.h"
#include "base/units.h"
#include "inspect/drawing/chart.h"
#include "runtime/cost/machine.h"
#include "runtime/simulate/report.h"
#include "study/policy_step.h"
#include "train/config/resolved_run.h"
#include "train/run/model_speed.h"
#include "train/step/planning.h"

namespace weft::study {
namespace {

constexpr double kMostPointRanks = 1e9;

/// A series is told from the others by these; "" and nullptr: the configuration's.
struct Series {
  std::string model, machine;
  const policy::NamedPolicy* policy = nullptr;
};

std::vector<Series> series_of(const ScalingStudy& study) {
  std::vector<Series> list;
  const std::vector<std::string> own = {""};
  std::vector<const policy::NamedPolicy*> policies;
  for (const policy::NamedPolicy& policy : study.policies) policies.push_back(&policy);
  if (policies.empty()) policies.push_back(nullptr);
  for (const std::string& model : study.models.empty() ? own : study.models) {
    for (const std::string& machine : study.machines.empty() ? own : study.machines) {
      for (const policy::NamedPolicy* policy : policies) list.push_back({model, machine, policy});
    }
  }
  return list;
}

bool own_models(const ScalingStudy& study) {
  return std::ranges::any_of(study.points, [](const ScalingPoint& point) { return !point.model.empty(); });
}

/// The configuration of a point, not resolved: the file's keys, those of the point's file, the command line's.
train::RunConfig config_of(const ScalingStudy& study, const Series& series, const ScalingPoint& point) {
  train::RunConfig config = study.base;
  if (!point.file.empty()) train::load_toml(config, point.file);
  std::vector<train::Setting> settings = study.settings;
  const std::string& model = point.model.empty() ? series.model : point.model;
  if (!model.empty()) settings.push_back({"model", model, point.model.empty() ? "--models" : "--points"});
  if (!series.machine.empty()) settings.push_back({"machine", series.machine, "--machines"});
  train::apply_command_line(config, std::move(settings));
  if (series.policy != nullptr) train::leave_out_library(config);
  return config;
}

/// The batch of a point without a file.
std::int64_t batch_of(const ScalingStudy& study, std::int64_t batch, const ScalingPoint& point) {
  if (study.kind == ScalingKind::strong || own_models(study)) return batch;
  const std::int64_t first = study.points.front().ranks;
  if (batch * point.ranks % first == 0) return batch * point.ranks / first;
  throw UserError(
      fmt::format("a global batch of {} on {} ranks is no whole number of sequences on {}", batch, first, point.ranks),
      "a batch that grows with the ranks", fmt::format("--global-batch {}", first));
}

/// A step that was planned and simulated once.
struct PlannedStep {
  train::ResolvedRun run;
  simulate::Report report = {};
};

PlannedStep searched_step(const ScalingStudy& study, const Series& series, const ScalingPoint& point,
                          const TellStatus& tell) {
  train::RunConfig config = config_of(study, series, point);
  config.global_batch = batch_of(study, config.global_batch, point);
  config.ranks = point.ranks;
  PlannedStep step{.run = open_search(config)};
  SearchOptions options = study.search;
  options.ranks = point.ranks;
  if (series.policy != nullptr) {
    options.policies = {*series.policy};
    options.searching.reset();
  }
  const SearchResult result = search_configurations(step.run, options, tell);
  const Configuration& best = result.configurations.front();
  if (!best.exact) {
    throw UserError(fmt::format("no policy plans one of the {} best estimates within the memory", options.finalists),
                    "a plan that fits", "more --finalists, or more --memory");
  }
  step.run.config = study::config_of(result, best);
  step.report = *best.report;
  return step;
}

PlannedStep given_step(const ScalingStudy& study, const Series& series, const ScalingPoint& point) {
  PlannedStep step{.run = train::resolve(config_of(study, series, point), 0)};
  if (series.policy != nullptr) step.run.policy = *series.policy;
  step.report = simulate::report_plan(train::planning_problem(step.run), step.run.policy);
  if (!step.report.planned()) throw UserError(step.report.refusal, "", "");
  return step;
}

void enter(const ScalingStudy& study, const PlannedStep& step, ScalingRow& row) {
  const train::RunConfig& config = step.run.config;
  const simulate::Report& report = step.report;
  const simulate::Problem problem = train::planning_problem(step.run, report.graphs());
  const auto seeds = static_cast<std::size_t>(study.seeds);
  std::vector<double> steps(seeds, report.step_ns());
  std::vector<double> exposed(seeds, static_cast<double>(report.first().overlap.exposed) * 1e-6);
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism,
                                    static_cast<std::size_t>(std::max(1, study.search.threads)));
  tbb::parallel_for(std::size_t{0}, study.noise > 0 ? seeds : 0, [&](std::size_t i) {
    simulate::Problem noisy = problem;
    noisy.simulation.noise = study.noise;
    noisy.simulation.traced_ranks = 1;
    noisy.simulation.seed = config.seed + i;
    simulate::Report again = report;
    simulate::simulate_again(again, noisy);
    steps[i] = again.step_ns();
    exposed[i] = static_cast<double>(again.first().overlap.exposed) * 1e-6;
  });
  row.policy = report.policy.name;
  row.setup = setup_of(config);
  row.global_batch = config.global_batch;
  const double step_ns = quantile(steps, 0.5);
  row.step_ms = step_ns * 1e-6;
  row.low_ms = quantile(steps, 0.05) * 1e-6;
  row.high_ms = quantile(steps, 0.95) * 1e-6;
  row.exposed_ms = quantile(exposed, 0.5);
  row.memory_bytes = report.memory_bytes();
  row.flops = train::model_flops_per_second(config, step_ns);
  row.mfu = train::model_flops_share(config, row.ranks, problem.machine, step_ns);
}

/// Of a series, which it belongs to.
ScalingRow unplanned_row(const ScalingStudy& study, const Series& series, const ScalingPoint& point) {
  const train::RunConfig config = config_of(study, series, point);
  return {.ranks = point.ranks,
          .model = config.model_name,
          .machine = config.machine.empty() ? "laptop" : config.machine,
          .policy = series.policy == nullptr ? "" : series.policy->name};
}

/// Against the first point with a step.
void set_efficiency(std::span<ScalingRow> rows) {
  const auto first = std::ranges::find_if(rows, &ScalingRow::possible);
  for (ScalingRow& row : rows) {
    if (row.possible()) {
      row.efficiency = row.flops / static_cast<double>(row.ranks) / (first->flops / static_cast<double>(first->ranks));
    }
  }
}

/// Reads a point of a series as far as it can be read before a search.
void check_point(const ScalingStudy& study, const Series& series, const ScalingPoint& point) {
  const train::RunConfig config = config_of(study, series, point);
  if (point.file.empty()) {
    (void)batch_of(study, config.global_batch, point);
    (void)open_search(config);
    return;
  }
  (void)train::read_texts(config);
  const std::int64_t ranks = std::max(config.ranks, config.grid.ranks());
  if (ranks == point.ranks) return;
  throw UserError(fmt::format("--points {}:{}, whose grid {} has {} ranks", point.ranks, point.file,
                              graph::to_string(config.grid), ranks),
                  "the ranks of the file", fmt::format("{}:{}", ranks, point.file));
}

const char* kind_name(const ScalingStudy& study) {
  return study.kind == ScalingKind::strong ? "strong" : "weak";
}

/// What differs between rows, and so has a column or stands in names of series.
struct Differences {
  bool models = false, machines = false;
};

Differences differences_of(std::span<const ScalingRow> rows) {
  const auto differ = [&](std::string ScalingRow::*member) {
    return std::ranges::any_of(rows, [&](const ScalingRow& row) { return row.*member != rows.front().*member; });
  };
  return {differ(&ScalingRow::model), differ(&ScalingRow::machine)};
}

/// A text in CSV, null in JSON where it is empty.
auto text_of(std::string ScalingRow::*member) {
  return [member](const ScalingRow& row) { return (row.*member).empty() ? Cell() : Cell(row.*member); };
}

/// Of files and tables.
Columns<ScalingRow> columns_of(const ScalingStudy& study, std::span<const ScalingRow> rows) {
  const Differences differ = differences_of(rows);
  const bool noisy = study.seeds > 1;
  Columns<ScalingRow> columns;
  if (differ.models) columns.show({.head = "model", .words = true}, &ScalingRow::model, false);
  if (differ.machines) columns.show({.head = "machine", .words = true}, &ScalingRow::machine, false);
  columns.add("ranks", &ScalingRow::ranks, {.head = "ranks"});
  columns.add("model", text_of(&ScalingRow::model));
  columns.add("machine", text_of(&ScalingRow::machine));
  columns.add("policy", text_of(&ScalingRow::policy));
  add_setup(
      columns, &ScalingRow::setup, [](const StepSetup& setup) { return Cell(join(axis_order(setup), ",")); }, 2);
  columns.show({.head = "with", .words = true, .rank = 1},
               [](const ScalingRow& row) { return options_text(row.setup); });
  columns.show({.head = "policy", .words = true, .rank = 3}, &ScalingRow::policy);
  columns.figure("global_batch", &ScalingRow::global_batch, {.head = "batch", .rank = 4});
  columns.figure("step_ms", &ScalingRow::step_ms, {.head = noisy ? "median step" : "step"}, ms_text);
  columns.figure("step_low_ms", &ScalingRow::low_ms);
  columns.figure("step_high_ms", &ScalingRow::high_ms);
  if (noisy) {
    columns.show({.head = "5 to 95 %", .rank = 2},
                 [](const ScalingRow& row) { return ms_range_text(row.low_ms, row.high_ms); });
  }
  columns.figure("flops_per_s", &ScalingRow::flops, {.head = "total"},
                 [](double flops) { return with_prefix(flops, "flop/s"); });
  columns.figure("efficiency", &ScalingRow::efficiency, {.head = "efficiency"}, percent_text);
  columns.figure("mfu", &ScalingRow::mfu, {.head = "MFU", .rank = 3}, percent_text);
  columns.figure("memory_bytes", &ScalingRow::memory_bytes, {.head = "memory", .rank = 2}, bytes_text);
  columns.figure("exposed_ms", &ScalingRow::exposed_ms, {.head = "exposed", .rank = 3}, ms_text);
  columns.add("reason", &ScalingRow::reason);
  return columns;
}

/// "perlmutter, gpt-5b, axonn": of the words, those that differ between series.
std::string series_name(const ScalingStudy& study, const ScalingRow& row, const Differences& differ) {
  std::vector<std::string> words;
  if (differ.machines) words.push_back(row.machine);
  if (study.models.size() > 1) words.push_back(row.model);
  if (!study.policies.empty()) words.push_back(row.policy);
  return words.empty() ? row.machine : join(words);
}

inspect::ChartPoint chart_point(const ScalingRow& row, bool noisy) {
  const double arithmetic = row.flops * row.step_ms;
  inspect::ChartPoint point{.x = static_cast<double>(row.ranks), .y = row.flops};
  point.tooltip = fmt::format("{} on {} ranks of {}: {}, {:.1f} % efficient; {}, {}, {}", row.model, row.ranks,
                              row.machine, with_prefix(row.flops, "flop/s"), 100 * row.efficiency, to_string(row.setup),
                              row.policy, ms_text(row.step_ms));
  if (noisy) point.low = arithmetic / row.high_ms, point.high = arithmetic / row.low_ms;
  return point;
}

inspect::Picture scaling_picture(const ScalingStudy& study, std::span<const ScalingRow> rows) {
  constexpr const char* kIdealColor = "#808080";
  constexpr auto kLogarithmic = inspect::ChartScale::logarithmic;
  const Differences differ = differences_of(rows);
  inspect::SeriesChart chart{.title = fmt::format("{} scaling", kind_name(study)),
                             .x = {.title = "ranks", .scale = kLogarithmic, .at_points = true},
                             .y = {.title = "model flop/s of all ranks",
                                   .unit = inspect::ChartUnit::operations_a_second,
                                   .scale = kLogarithmic}};
  if (!differ.models) chart.title += " of " + rows.front().model;
  if (!differ.machines) chart.title += " on " + rows.front().machine;
  std::vector<inspect::ChartSeries> ideal;
  const std::size_t points = study.points.size();
  for (std::size_t begin = 0; begin + points <= rows.size(); begin += points) {
    const std::span<const ScalingRow> series = rows.subspan(begin, points);
    const std::string color(inspect::chart_color(begin / points));
    inspect::ChartSeries line{.name = series_name(study, series.front(), differ), .color = color};
    for (const ScalingRow& row : series) {
      if (row.possible()) line.points.push_back(chart_point(row, study.seeds > 1));
    }
    if (!line.points.empty()) {
      const inspect::ChartPoint first = line.points.front();
      std::ranges::stable_sort(line.points, {}, &inspect::ChartPoint::x);
      inspect::ChartSeries from_first{.color = color, .dashed = true, .radius = 0};
      for (const inspect::ChartPoint& point : {line.points.front(), line.points.back()}) {
        from_first.points.push_back({.x = point.x, .y = first.y * point.x / first.x});
      }
      ideal.push_back(std::move(from_first));
    }
    chart.series.push_back(std::move(line));
  }
  chart.series.insert(chart.series.begin(), ideal.begin(), ideal.end());
  chart.series.push_back(
      {.name = "ideal: each rank as fast as at the first point", .color = kIdealColor, .dashed = true, .radius = 0});
  return inspect::chart_picture(chart);
}

}  // namespace

ScalingPoint scaling_point(std::string_view text) {
  const std::size_t colon = text.find(':');
  ScalingPoint point;
  point.ranks =
      parse_number<std::int64_t>(text.substr(0, colon), fmt::format("--points {}: ranks", text), 1, kMostPointRanks);
  if (colon == std::string_view::npos) return point;
  const std::string name(text.substr(colon + 1));
  if (name.empty()) {
    throw UserError(fmt::format("--points {} names nothing after the colon", text), "RANKS:MODEL or RANKS:FILE.toml",
                    fmt::format("--points {}", point.ranks));
  }
  (name.ends_with(".toml") ? point.file : point.model) = name;
  return point;
}

void check_scaling(const ScalingStudy& study) {
  for (const train::Setting& setting : study.settings) {
    if (setting.key == "ranks") {
      throw UserError(fmt::format("{} {} beside --points, which have the ranks", setting.source, setting.value),
                      "one of them", "leave it out");
    }
  }
  expect_noise(study.noise, study.seeds);
  for (std::size_t i = 0; i < study.points.size(); ++i) {
    const ScalingPoint& point = study.points[i];
    if (std::find(study.points.begin(), study.points.begin() + static_cast<std::ptrdiff_t>(i), point) !=
        study.points.begin() + static_cast<std::ptrdiff_t>(i)) {
      throw UserError(fmt::format("--points has the point of {} ranks twice", point.ranks), "each point once",
                      "leave one out");
    }
    if (own_models(study) && point.model.empty() && point.file.empty()) {
      throw UserError(fmt::format("--points {} names no model, while others do", point.ranks),
                      "a model for every point, or for none", fmt::format("{}:MODEL", point.ranks));
    }
  }
  if (own_models(study) && !study.models.empty()) {
    throw UserError("--models beside points that name models", "one of them",
                    "leave --models out, or the models of --points");
  }
  for (const Series& series : series_of(study)) {
    for (const ScalingPoint& point : study.points) check_point(study, series, point);
  }
}

std::vector<ScalingRow> run_scaling(const ScalingStudy& study, const TellStatus& tell) {
  Experiment<ScalingRow> experiment;
  const std::vector<Series> all = series_of(study);
  const std::size_t points = study.points.size();
  for (std::size_t i = 0; i < all.size() * points; ++i) {
    experiment.points.push_back(unplanned_row(study, all[i / points], study.points[i % points]));
    experiment.points.back().series = i / points;
    experiment.points.back().point = i % points;
  }
  experiment.name = [](const ScalingRow& row) {
    return std::vector{fmt::format("{} ranks", row.ranks),
                       fmt::format("(series {}, point {})", row.series + 1, row.point + 1)};
  };
  experiment.compute = [&](std::span<ScalingRow> rows, const TellStatus& tell_row) {
    ScalingRow& row = rows.front();
    const ScalingPoint& point = study.points[row.point];
    try {
      enter(study,
            point.file.empty() ? searched_step(study, all[row.series], point, tell_row)
                               : given_step(study, all[row.series], point),
            row);
    } catch (const UserError& error) {
      row.reason = first_line(error.what());
    }
    return true;
  };
  std::vector<ScalingRow> rows = run(experiment, {}, {}, tell);
  for (std::size_t begin = 0; begin < rows.size(); begin += points)
    set_efficiency(std::span(rows).subspan(begin, points));
  return rows;
}

Results results_of(const ScalingStudy& study, std::span<const ScalingRow> rows) {
  return {
      .text = [&study, rows](
                  std::optional<std::size_t> width) { return table_text(columns_of(study, rows).table(rows), width); },
      .json =
          [&study, rows] {
            return JsonObject().add("kind", kind_name(study)).add("rows", columns_of(study, rows).json(rows));
          },
      .csv = [&study, rows] { return columns_of(study, rows).csv(rows); },
      .picture = [&study, rows] { return scaling_picture(study, rows); }};
}

}  // namespace weft::study
