#include "study/axonn/axonn_study.h"

#include <fmt/format.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/cost/machine_files.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "runtime/simulate/report.h"
#include "study/search/closed_forms.h"
#include "study/search/small_steps.h"
#include "train/config/resolved_run.h"
#include "train/step/planning.h"
#include "train/step/step_config.h"

namespace weft::study {
namespace {

constexpr std::array kInverseEfficiencies = {1.0, 1.4, 2.0, 2.8};
constexpr std::array kCongestions = {0.0, 0.05, 0.15, 0.4};
constexpr const char* kPolicy = "axonn:window=16";

/// A configuration that axonn planned.
struct PlannedGrid {
  train::ResolvedRun run;
  Choice choice;
  std::shared_ptr<const plan::Plan> plan = nullptr;  // null: it does not fit
  std::int64_t memory_bytes = 0;
  double step_ns = 0;  // with the machine's own numbers
};

bool is_power_of_two(std::int64_t n) {
  return std::has_single_bit(static_cast<std::uint64_t>(n));
}

/// A power of two, or three of them.
bool is_of_axonns_kind(std::int64_t size) {
  return is_power_of_two(size) || (size % 3 == 0 && is_power_of_two(size / 3));
}

/// The run of a point, but for its grid and its micro-batch.
train::ResolvedRun run_of(const PublishedPoint& point) {
  train::RunConfig config;
  config.model_name = point.model;
  config.machine = point.machine;
  config.policy = kPolicy;
  config.dtype = config.reduce_dtype = DType::bf16;
  config.recompute = train::Recompute::block;
  config.reshard_after_forward = true;
  config.seq_len = 2048;
  config.global_batch = config.micro_batch = 1;
  train::ResolvedRun run = train::resolve(config, 0);
  run.config.global_batch = point.sequences;
  return run;
}

std::vector<Choice> choices_of_axonn(const train::ResolvedRun& run, const PublishedPoint& point) {
  std::vector<Choice> choices =
      choices_of(run.config, point.ranks, {"axis-order", "recompute", "reshard-after-forward", "zero-1"});
  std::erase_if(choices, [](const Choice& choice) {
    return !is_power_of_two(choice.micro_batch) ||
           std::ranges::any_of(graph::kAxes, [&](auto axis) { return !is_of_axonns_kind(choice.grid.on(axis)); });
  });
  return choices;
}

/// Plans one configuration; no plan if axonn's own order doesn't fit the memory.
PlannedGrid planned_grid(const train::ResolvedRun& run, const Choice& choice) {
  PlannedGrid candidate{.run = run, .choice = choice};
  candidate.run.config = with_choice(run.config, choice);
  const simulate::Report report = simulate::report_plan(train::planning_problem(candidate.run), run.policy);
  if (!report.planned() || !report.order_for_memory().empty()) return candidate;
  candidate.plan = report.first().plan;
  candidate.memory_bytes = report.memory_bytes();
  candidate.step_ns = report.step_ns();
  return candidate;
}

/// A step under axonn, from small steps: its layers are alike and overlap with their neighbours alone.
struct Estimate {
  Choice choice;
  double step_ns = 0;
  std::int64_t memory_bytes = 0;
};

Estimate estimate_of(const train::ResolvedRun& run, const Choice& choice) {
  train::ResolvedRun own = run;
  own.config = with_choice(run.config, choice);
  const std::int64_t micro_batches = train::accumulation(own.config),
                     sequences = own.config.global_batch / micro_batches;
  const SmallSteps sizes(own.config.model.layers, micro_batches);
  std::vector<double> step_ns, bytes;
  for (const SmallSteps::Size& size : sizes.sizes()) {
    own.config.model.layers = size.layers;
    own.config.global_batch = sequences * size.micro_batches;
    simulate::Problem problem = train::planning_problem(own);
    problem.options.memory = problem.options.memory_limit = 0;
    const simulate::Report report = simulate::report_plan(problem, run.policy);
    step_ns.push_back(report.step_ns());
    bytes.push_back(static_cast<double>(report.memory_bytes()));
  }
  return {choice, sizes.extrapolated(step_ns), static_cast<std::int64_t>(sizes.extrapolated(bytes))};
}

/// Estimates the grid's step with the largest micro-batch that fits. `choices`: of one grid, by falling micro-batch.
std::optional<Estimate> largest_that_fits(const train::ResolvedRun& run, const std::vector<Choice>& choices) {
  for (const Choice& choice : choices) {
    const Estimate estimate = estimate_of(run, choice);
    if (static_cast<double>(estimate.memory_bytes) <= run.machine->memory_bytes) return estimate;
  }
  return std::nullopt;
}

/// The choices of one grid that may fit, and a bound on their steps.
struct OpenGrid {
  double least_ns = std::numeric_limits<double>::infinity();
  std::vector<Choice> choices;  // by falling micro-batch
};

std::vector<OpenGrid> open_grids(const train::ResolvedRun& run, const PublishedPoint& point) {
  ClosedForms forms(run.config, *run.machine, point.ranks);
  std::vector<OpenGrid> open;
  std::vector<Choice> choices = choices_of_axonn(run, point);
  std::ranges::reverse(choices);  // choices of a grid are neighbours, by rising micro-batch
  const Choice* last = nullptr;
  for (const Choice& choice : choices) {
    if (forms.least_bytes(choice) > run.machine->memory_bytes) continue;
    if (last == nullptr || last->grid != choice.grid) open.emplace_back();
    last = &choice;
    open.back().choices.push_back(choice);
    open.back().least_ns = std::min(open.back().least_ns, forms.least_ns(choice));
  }
  std::ranges::stable_sort(open, {}, &OpenGrid::least_ns);
  return open;
}

/// Step 1 of study_axonn().
std::vector<PlannedGrid> candidates_of(const PublishedPoint& point, std::size_t most) {
  constexpr std::size_t kAtOnce = 8;  // not the number of threads, on which the result would depend
  const train::ResolvedRun run = run_of(point);
  const std::vector<OpenGrid> open = open_grids(run, point);
  std::vector<Estimate> best;
  for (std::size_t begin = 0; begin < open.size(); begin += kAtOnce) {
    if (best.size() == most && open[begin].least_ns > best.back().step_ns) break;
    const std::size_t count = std::min(kAtOnce, open.size() - begin);
    std::vector<std::optional<Estimate>> found(count);
    tbb::parallel_for(std::size_t{0}, count,
                      [&](std::size_t i) { found[i] = largest_that_fits(run, open[begin + i].choices); });
    for (const std::optional<Estimate>& estimate : found) {
      if (estimate) best.push_back(*estimate);
    }
    std::ranges::stable_sort(best, {}, &Estimate::step_ns);
    if (best.size() > most) best.resize(most);
  }
  std::vector<PlannedGrid> candidates(best.size());
  tbb::parallel_for(std::size_t{0}, best.size(),
                    [&](std::size_t i) { candidates[i] = planned_grid(run, best[i].choice); });
  std::erase_if(candidates, [](const PlannedGrid& candidate) { return candidate.plan == nullptr; });
  std::ranges::stable_sort(candidates, {}, &PlannedGrid::step_ns);
  return candidates;
}

simulate::Report simulated(const PlannedGrid& candidate, const cost::Machine& machine) {
  train::ResolvedRun run = candidate.run;
  run.machine = std::make_shared<const cost::Machine>(machine);
  simulate::Report report;
  report.classes.push_back({.plan = candidate.plan, .rewrites = {}});
  simulate::simulate_again(report, train::planning_problem(run, {candidate.plan->graph}));
  return report;
}

StepSurface surface_of(const PlannedGrid& candidate) {
  std::vector<double> step_ns;
  for (const FittedConstants& constants : StepSurface::places()) {
    step_ns.push_back(simulated(candidate, with_constants(*candidate.run.machine, constants)).step_ns());
  }
  return StepSurface(std::move(step_ns));
}

double fastest_ns(const std::vector<StepSurface>& surfaces, const FittedConstants& constants) {
  double best = std::numeric_limits<double>::infinity();
  for (const StepSurface& surface : surfaces) best = std::min(best, surface.step_ns(constants));
  return best;
}

std::vector<SwitchedStep> switched_steps(const PlannedGrid& candidate, const cost::Machine& machine) {
  std::vector<SwitchedStep> steps;
  for (const char* switches : {"oar=off,ors=off,oag=off", "oar=on,ors=off,oag=off", "oar=off,ors=on,oag=off",
                               "oar=off,ors=off,oag=on", "oar=on,ors=on,oag=on"}) {
    const std::string name = fmt::format("{},{}", kPolicy, switches);
    train::ResolvedRun run = candidate.run;
    run.machine = std::make_shared<const cost::Machine>(machine);
    run.policy = policy::named_policy(name);
    steps.push_back({name, simulate::report_plan(train::planning_problem(run), run.policy).step_ns()});
  }
  return steps;
}

/// The points of one machine, with their candidates.
class RunsOfMachine {
 public:
  RunsOfMachine(const std::string& machine, const AxonnStudyOptions& options, const TellStatus& tell)
      : machine_(cost::find_machine(machine, cost::machine_folders())), options_(options), tell_(tell) {
    for (const PublishedPoint& point : published_points()) {
      if (point.machine == machine) points_.push_back(point);
    }
  }

  AxonnStudy::OfMachine study() {
    const auto steps = std::ssize(points_) * 2;
    for (std::size_t i = 0; i < points_.size(); ++i) {
      tell_({fmt::format("{}: grids", to_string(points_[i])), static_cast<std::int64_t>(2 * i), steps});
      candidates_.push_back(candidates_of(points_[i], options_.candidates));
      tell_({fmt::format("{}: other constants", to_string(points_[i])), static_cast<std::int64_t>(2 * i + 1), steps});
      surfaces_.push_back(surfaces_of(candidates_.back()));
    }
    AxonnStudy::OfMachine result{.machine = machine_,
                                 .constants = fit([](const PublishedPoint& point) { return point.fitted; })};
    for (std::size_t i = 0; i < points_.size(); ++i) {
      tell_({fmt::format("{}: each overlap alone", to_string(points_[i])), steps, steps});
      result.points.push_back(predicted(i, result.constants));
    }
    return result;
  }

 private:
  static std::vector<StepSurface> surfaces_of(const std::vector<PlannedGrid>& candidates) {
    std::vector<StepSurface> surfaces(candidates.size(), StepSurface({}));
    tbb::parallel_for(std::size_t{0}, candidates.size(),
                      [&](std::size_t i) { surfaces[i] = surface_of(candidates[i]); });
    return surfaces;
  }

  template <class Chooses>
  FittedConstants fit(const Chooses& chosen) const {
    std::vector<std::vector<StepSurface>> surfaces;
    std::vector<double> published_ns;
    for (std::size_t i = 0; i < points_.size(); ++i) {
      if (!chosen(points_[i])) continue;
      surfaces.push_back(surfaces_[i]);
      published_ns.push_back(flops(i) / points_[i].petaflops * 1e-6);
    }
    return fit_constants(surfaces, published_ns);
  }

  double flops(std::size_t i) const {
    const train::RunConfig& config = candidates_[i].front().run.config;
    return hardware_flops(config.model, points_[i].sequences, config.seq_len);
  }

  SimulatedPoint predicted(std::size_t i, const FittedConstants& constants) const {
    const auto fastest = [&](const FittedConstants& at) {
      return std::ranges::min_element(surfaces_[i], {}, [&](const StepSurface& each) { return each.step_ns(at); }) -
             surfaces_[i].begin();
    };
    const PlannedGrid& best = candidates_[i].at(static_cast<std::size_t>(fastest(constants)));
    const cost::Machine machine = with_constants(machine_, constants);
    const simulate::Report report = simulated(best, machine);
    const PublishedPoint& own = points_[i];
    const FittedConstants others = fit([&](const PublishedPoint& point) { return point.ranks != own.ranks; });
    return {.published = own,
            .choice = best.choice,
            .step_ns = report.step_ns(),
            .unfitted_ns = candidates_[i].front().step_ns,
            .left_out_ns = fastest_ns(surfaces_[i], others),
            .hardware_flops = flops(i),
            .memory_bytes = best.memory_bytes,
            .compute_ns = static_cast<double>(report.first().overlap.compute),
            .exposed_ns = static_cast<double>(report.first().overlap.exposed),
            .switches = switched_steps(best, machine)};
  }

  cost::Machine machine_;
  const AxonnStudyOptions& options_;
  const TellStatus& tell_;
  std::vector<PublishedPoint> points_;
  std::vector<std::vector<PlannedGrid>> candidates_;  // by point
  std::vector<std::vector<StepSurface>> surfaces_;    // by point and candidate
};

/// The place of a value among rising ones: the index of the last one before it that has one after it, and the share of
/// the way to the next; beyond the ends the outer lines go on.
std::pair<std::size_t, double> place_among(const std::array<double, 4>& values, double value) {
  std::size_t i = 0;
  while (i + 2 < values.size() && values.at(i + 1) < value) ++i;
  return {i, (value - values.at(i)) / (values.at(i + 1) - values.at(i))};
}

}  // namespace

cost::Machine with_constants(cost::Machine machine, const FittedConstants& constants) {
  constexpr int kDoublings = 20;  // more nodes than any machine has
  machine.efficiency = constants.efficiency;
  machine.congestion = {{std::int64_t{1} << kDoublings, 1 + constants.congestion * kDoublings}};
  return machine;
}

const std::vector<FittedConstants>& StepSurface::places() {
  static const std::vector<FittedConstants> all = [] {
    std::vector<FittedConstants> list;
    for (const double inverse : kInverseEfficiencies) {
      for (const double congestion : kCongestions) list.push_back({1 / inverse, congestion});
    }
    return list;
  }();
  return all;
}

StepSurface::StepSurface(std::vector<double> step_ns) : step_ns_(std::move(step_ns)) {}

double StepSurface::step_ns(const FittedConstants& constants) const {
  const auto [row, down] = place_among(kInverseEfficiencies, 1 / constants.efficiency);
  const auto [column, across] = place_among(kCongestions, constants.congestion);
  const auto in_row = [&, column = column, across = across](std::size_t i) {
    const double left = step_ns_.at(i * kCongestions.size() + column),
                 right = step_ns_.at(i * kCongestions.size() + column + 1);
    return left + across * (right - left);
  };
  return in_row(row) + down * (in_row(row + 1) - in_row(row));
}

FittedConstants fit_constants(const std::vector<std::vector<StepSurface>>& surfaces,
                              const std::vector<double>& published_ns) {
  constexpr int kSteps = 200;
  FittedConstants best;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= kSteps; ++i) {
    for (int j = 0; j <= kSteps; ++j) {
      const double share = static_cast<double>(i) / kSteps;
      const FittedConstants constants{1 / (1 + share * (kInverseEfficiencies.back() - 1)),
                                      kCongestions.back() * j / kSteps};
      double sum = 0;
      for (std::size_t p = 0; p < surfaces.size(); ++p) {
        const double difference = std::log(fastest_ns(surfaces[p], constants) / published_ns[p]);
        sum += difference * difference;
      }
      if (sum < least) {
        least = sum;
        best = constants;
      }
    }
  }
  return best;
}

AxonnStudy study_axonn(const AxonnStudyOptions& options, const TellStatus& tell) {
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism,
                                    static_cast<std::size_t>(std::max(1, options.threads)));
  std::vector<std::string> names = options.machines;
  for (const PublishedPoint& point : published_points()) {
    if (options.machines.empty() && std::ranges::find(names, point.machine) == names.end()) {
      names.push_back(point.machine);
    }
  }
  AxonnStudy study;
  for (const std::string& name : names) study.machines.push_back(RunsOfMachine(name, options, tell).study());
  return study;
}

}  // namespace weft::study
