#include "study/scaling/scaling.h"

#include <fmt/format.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/median.h"
#include "base/text/first_line.h"
#include "base/text/parse_number.h"
#include "runtime/cost/machine_files.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/simulate/report.h"
#include "study/step_figures.h"
#include "train/config/resolved_run.h"
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
  Choice choice = {};
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
  step.choice = best.choice;
  step.report = *best.report;
  return step;
}

PlannedStep given_step(const ScalingStudy& study, const Series& series, const ScalingPoint& point) {
  PlannedStep step{.run = train::resolve(config_of(study, series, point), 0)};
  if (series.policy != nullptr) step.run.policy = *series.policy;
  const train::RunConfig& config = step.run.config;
  step.choice = {config.grid, config.micro_batch, config.recompute, config.reshard_after_forward, config.zero1};
  step.report = simulate::report_plan(train::planning_problem(step.run), step.run.policy);
  if (!step.report.planned()) throw UserError(step.report.refusal, "", "");
  return step;
}

void enter(const ScalingStudy& study, const PlannedStep& step, ScalingRow& row) {
  const train::RunConfig& config = step.run.config;
  const simulate::Report& report = step.report;
  const simulate::Problem problem = train::planning_problem(step.run, report.graphs());
  const auto seeds = static_cast<std::size_t>(study.seeds);
  std::vector<double> steps(seeds, report.step_ns() * 1e-6);
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
    steps[i] = again.step_ns() * 1e-6;
    exposed[i] = static_cast<double>(again.first().overlap.exposed) * 1e-6;
  });
  row.policy = report.policy.name;
  row.choice = step.choice;
  row.global_batch = config.global_batch;
  row.step_ms = quantile(steps, 0.5);
  row.low_ms = quantile(steps, 0.05);
  row.high_ms = quantile(steps, 0.95);
  row.exposed_ms = quantile(exposed, 0.5);
  row.memory_bytes = report.memory_bytes();
  row.flops = config.model.train_flops_per_token(config.seq_len) *
              static_cast<double>(config.global_batch * config.seq_len) / (row.step_ms * 1e-3);
  row.mfu = row.flops / static_cast<double>(row.ranks) / problem.machine.flops(config.dtype);
}

ScalingRow row_of(const ScalingStudy& study, const Series& series, const ScalingPoint& point, const TellStatus& tell) {
  ScalingRow row;
  row.ranks = point.ranks;
  const train::RunConfig config = config_of(study, series, point);
  row.model = config.model_name;
  row.machine = config.machine.empty() ? "laptop" : config.machine;
  row.policy = series.policy == nullptr ? "" : series.policy->name;
  try {
    enter(study, point.file.empty() ? searched_step(study, series, point, tell) : given_step(study, series, point),
          row);
  } catch (const UserError& error) {
    row.reason = first_line(error.what());
  }
  return row;
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

std::size_t series_count(const ScalingStudy& study) {
  return series_of(study).size();
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
  std::vector<ScalingRow> rows;
  const std::vector<Series> all = series_of(study);
  const auto total = static_cast<std::int64_t>(all.size() * study.points.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const ScalingPoint& point : study.points) {
      const auto done = std::ssize(rows);
      const std::string where = fmt::format("[{}/{}] {} ranks", done + 1, total, point.ranks);
      tell({where, done, total});
      // The search's own shares would begin the bar anew with each point.
      rows.push_back(row_of(study, all[i], point, [&](const Status& status) {
        tell({fmt::format("{}: {}", where, status.text), done, total});
      }));
      rows.back().series = i;
    }
    set_efficiency(std::span(rows).last(study.points.size()));
  }
  return rows;
}

}  // namespace weft::study
