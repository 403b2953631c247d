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

#include "base/units.h"
#include "graph/operations/schema.h"
#include "inspect/drawing/chart.h"
#include "runtime/cost/machine.h"
#include "runtime/cost/machine_numbers.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "runtime/simulate/report.h"
#include "study/search/closed_forms.h"
#include "study/search/step_estimate.h"
#include "train/config/resolved_run.h"
#include "train/step/planning.h"

namespace weft::study {
namespace {

constexpr std::array kInverseEfficiencies = {1.0, 1.4, 2.0, 2.8};
constexpr std::array kCongestions = {0.0, 0.05, 0.15, 0.4};
constexpr const char* kPolicy = "axonn:window=16";
constexpr std::size_t kCandidates = 6;  // configurations of a point that the fit chooses from

/// A configuration that axonn planned.
struct PlannedGrid {
  train::ResolvedRun run;
  StepSetup setup;
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

std::vector<StepSetup> setups_of_axonn(const train::ResolvedRun& run, const PublishedPoint& point) {
  std::vector<StepSetup> choices =
      setups_of(run.config, point.ranks, {"axis-order", "recompute", "reshard-after-forward", "zero-1"});
  std::erase_if(choices, [](const StepSetup& setup) {
    return !is_power_of_two(setup.micro_batch) ||
           std::ranges::any_of(graph::kAxes, [&](auto axis) { return !is_of_axonns_kind(setup.grid.on(axis)); });
  });
  return choices;
}

/// Plans one configuration; no plan if axonn's own order doesn't fit the memory.
PlannedGrid planned_grid(const train::ResolvedRun& run, const StepSetup& setup) {
  PlannedGrid candidate{.run = run, .setup = setup};
  candidate.run.config = with_setup(run.config, setup);
  const simulate::Report report = simulate::report_plan(train::planning_problem(candidate.run), run.policy);
  if (!report.planned() || !report.order_for_memory().empty()) return candidate;
  candidate.plan = report.first().plan;
  candidate.memory_bytes = report.memory_bytes();
  candidate.step_ns = report.step_ns();
  return candidate;
}

/// A step under axonn, from small steps: its layers overlap with their neighbours alone.
struct Estimate {
  StepSetup setup;
  EstimatedStep step;
};

/// Estimates the grid's step with the largest micro-batch that fits. `choices`: of one grid, by falling micro-batch.
std::optional<Estimate> largest_that_fits(const train::ResolvedRun& run, const std::vector<StepSetup>& choices) {
  for (const StepSetup& setup : choices) {
    train::ResolvedRun own = run;
    own.config = with_setup(run.config, setup);
    const StepSizes sizes(own.config.model.layers, train::accumulation(own.config));
    const Estimate estimate{setup, step_by(run.policy, std::move(own), sizes).value()};
    if (static_cast<double>(estimate.step.bytes) <= run.machine->memory_bytes) return estimate;
  }
  return std::nullopt;
}

/// The choices of one grid that may fit, and a bound on their steps.
struct OpenGrid {
  double least_ns = std::numeric_limits<double>::infinity();
  std::vector<StepSetup> choices;  // by falling micro-batch
};

std::vector<OpenGrid> open_grids(const train::ResolvedRun& run, const PublishedPoint& point) {
  ClosedForms forms(run.config, *run.machine, point.ranks);
  std::vector<OpenGrid> open;
  std::vector<StepSetup> choices = setups_of_axonn(run, point);
  std::ranges::reverse(choices);  // choices of a grid are neighbours, by rising micro-batch
  const StepSetup* last = nullptr;
  for (const StepSetup& setup : choices) {
    if (forms.least_bytes(setup) > run.machine->memory_bytes) continue;
    if (last == nullptr || last->grid != setup.grid) open.emplace_back();
    last = &setup;
    open.back().choices.push_back(setup);
    open.back().least_ns = std::min(open.back().least_ns, forms.least_ns(setup));
  }
  std::ranges::stable_sort(open, {}, &OpenGrid::least_ns);
  return open;
}

/// Step 1 of study_axonn().
std::vector<PlannedGrid> candidates_of(const PublishedPoint& point) {
  constexpr std::size_t kAtOnce = 8;  // not the number of threads, on which the result would depend
  const train::ResolvedRun run = run_of(point);
  const std::vector<OpenGrid> open = open_grids(run, point);
  std::vector<Estimate> best;
  for (std::size_t begin = 0; begin < open.size(); begin += kAtOnce) {
    if (best.size() == kCandidates && open[begin].least_ns > best.back().step.ns) break;
    const std::size_t count = std::min(kAtOnce, open.size() - begin);
    std::vector<std::optional<Estimate>> found(count);
    tbb::parallel_for(std::size_t{0}, count,
                      [&](std::size_t i) { found[i] = largest_that_fits(run, open[begin + i].choices); });
    for (const std::optional<Estimate>& estimate : found) {
      if (estimate) best.push_back(*estimate);
    }
    std::ranges::stable_sort(best, {}, [](const Estimate& each) { return each.step.ns; });
    if (best.size() > kCandidates) best.resize(kCandidates);
  }
  std::vector<PlannedGrid> candidates(best.size());
  tbb::parallel_for(std::size_t{0}, best.size(),
                    [&](std::size_t i) { candidates[i] = planned_grid(run, best[i].setup); });
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
  RunsOfMachine(const std::string& machine, const TellStatus& tell)
      : machine_(cost::find_machine(machine, cost::machine_folders())), tell_(tell) {
    for (const PublishedPoint& point : published_points()) {
      if (point.machine == machine) points_.push_back(point);
    }
  }

  AxonnStudy::OfMachine study() {
    const auto steps = std::ssize(points_) * 2;
    for (std::size_t i = 0; i < points_.size(); ++i) {
      tell_({fmt::format("{}: grids", to_string(points_[i])), static_cast<std::int64_t>(2 * i), steps});
      candidates_.push_back(candidates_of(points_[i]));
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
            .setup = best.setup,
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

std::string error_text(double error) {
  return fmt::format("{:+.1f} %", 100 * error);
}

double rate_of_rank(const SimulatedPoint& point) {
  return point.petaflops(point.step_ns) / static_cast<double>(point.published.ranks);
}

/// The hardware FLOPs utilization.
double hardware_share(const SimulatedPoint& point) {
  constexpr double kTerasOfPeta = 1000;
  return rate_of_rank(point) * kTerasOfPeta / advertised_teraflops(point.published.machine);
}

std::string kind_text(const ComparedFigure& figure) {
  if (figure.fitted) return "fitted";
  return figure.verified ? "verified" : "cited";
}

/// Of JSON and the table.
Columns<ComparedFigure> figure_columns() {
  const auto shown = [](double ComparedFigure::*member) {
    return [member](const ComparedFigure& figure) { return fmt::format("{:.1f} {}", figure.*member, figure.unit); };
  };
  Columns<ComparedFigure> columns;
  columns.add("name", &ComparedFigure::name, {.head = "run", .words = true});
  columns.add("unit", &ComparedFigure::unit);
  columns.add("published", &ComparedFigure::published).shown({.head = "published"}, shown(&ComparedFigure::published));
  columns.add("simulated", &ComparedFigure::simulated).shown({.head = "simulated"}, shown(&ComparedFigure::simulated));
  columns.add("error", &ComparedFigure::error, {.head = "error"}, error_text);
  columns.add("fitted", &ComparedFigure::fitted);
  columns.add("verified", &ComparedFigure::verified);
  columns.show({.head = "published figure", .words = true, .rank = 1}, kind_text);
  const auto left_out = [](const ComparedFigure& figure) {
    return figure.left_out > 0 ? std::optional(figure.left_out / figure.published - 1) : std::nullopt;
  };
  columns.add("left_out_error", left_out, {.head = "left out", .rank = 2},
              [](const std::optional<double>& error) { return error ? error_text(*error) : ""; });
  return columns;
}

/// Of JSON and the table.
Columns<SimulatedPoint> run_columns() {
  const auto in_seconds = [](double SimulatedPoint::*ns) {
    return [ns](const SimulatedPoint& point) { return point.*ns * 1e-9; };
  };
  const auto time = [](double SimulatedPoint::*ns) {
    return [ns](const SimulatedPoint& point) { return format_time(point.*ns); };
  };
  Columns<SimulatedPoint> columns;
  columns.show({.head = "run", .words = true}, [](const SimulatedPoint& point) {
    return fmt::format("{}, {}", point.published.model, point.published.ranks);
  });
  columns.add("model", [](const SimulatedPoint& point) { return point.published.model; });
  columns.add("ranks", [](const SimulatedPoint& point) { return point.published.ranks; });
  columns.add("grid", [](const SimulatedPoint& point) { return graph::to_string(point.setup.grid); },
              {.head = "grid", .words = true});
  columns.add("micro_batch", [](const SimulatedPoint& point) { return point.setup.micro_batch; },
              {.head = "micro-batch", .rank = 3});
  columns.add("step_seconds", in_seconds(&SimulatedPoint::step_ns))
      .shown({.head = "step"}, time(&SimulatedPoint::step_ns));
  columns.add("unfitted_seconds", in_seconds(&SimulatedPoint::unfitted_ns));
  columns.add("hfu", hardware_share, {.head = "HFU", .rank = 1}, percent_text);
  columns.add("compute_seconds", in_seconds(&SimulatedPoint::compute_ns));
  columns.add("exposed_seconds", in_seconds(&SimulatedPoint::exposed_ns))
      .shown({.head = "exposed", .rank = 2}, time(&SimulatedPoint::exposed_ns));
  columns.add("memory_bytes", &SimulatedPoint::memory_bytes, {.head = "memory", .rank = 2}, bytes_text);
  columns.add("step_seconds_by_policy", [](const SimulatedPoint& point) {
    JsonObject switches;
    for (const SwitchedStep& each : point.switches) switches.add(each.policy, each.step_ns * 1e-9);
    return Cell("", switches);
  });
  constexpr std::array kSwitches = {"OAR", "ORS", "OAG", "all"};
  for (std::size_t i = 0; i < kSwitches.size(); ++i) {
    columns.show({.head = kSwitches[i]}, [i](const SimulatedPoint& point) {
      return error_text(point.switches.at(i + 1).step_ns / point.switches.front().step_ns - 1);
    });
  }
  return columns;
}

StyledText axonn_study_text(const AxonnStudy& study, std::optional<std::size_t> width) {
  StyledText text = table_text(figure_columns().table(compared_figures(study)), width);
  text.add("\n");
  for (const AxonnStudy::OfMachine& of_machine : study.machines) {
    text.add(fmt::format("{}: efficiency of computing {:.2f}, congestion {:.3f} a doubling of nodes\n",
                         of_machine.machine.name, of_machine.constants.efficiency, of_machine.constants.congestion));
    text.add(table_text(run_columns().table(of_machine.points), width));
    text.add("\n");
  }
  text.add(
      "fitted: the two constants of a machine are fitted to these runs; cited: read in a source that cites the paper.\n"
      "left out: the error with constants fitted to the machine's other runs.\n"
      "OAR, ORS, OAG, all: how each overlap alone, and all three, change the step without overlap.\n"
      "HFU: with recomputation and all of attention's scores counted, masked ones too, as a share of the data sheet's "
      "rate.\n");
  return text;
}

inspect::Picture axonn_picture(const AxonnStudy& study) {
  constexpr double kPeta = 1e15;
  inspect::SeriesChart chart{.title = "AxoNN's published runs and their simulation",
                             .x = {.title = "ranks", .scale = inspect::ChartScale::logarithmic, .at_points = true},
                             .y = {.title = "with recomputation",
                                   .unit = inspect::ChartUnit::operations_a_second,
                                   .scale = inspect::ChartScale::logarithmic}};
  for (std::size_t i = 0; i < study.machines.size(); ++i) {
    const AxonnStudy::OfMachine& of_machine = study.machines[i];
    const std::string color(inspect::chart_color(i));
    inspect::ChartSeries published{.name = of_machine.machine.name + ", published", .color = color, .line = false};
    inspect::ChartSeries simulated{
        .name = of_machine.machine.name + ", simulated", .color = color, .dashed = true, .radius = 0};
    for (const SimulatedPoint& point : of_machine.points) {
      const double ranks = static_cast<double>(point.published.ranks), rate = point.petaflops(point.step_ns);
      const std::string tooltip =
          fmt::format("{}: {:.1f} PFLOP/s published, {:.1f} simulated{}", to_string(point.published),
                      point.published.petaflops, rate, point.published.fitted ? ", fitted" : "");
      published.points.push_back({.x = ranks, .y = point.published.petaflops * kPeta, .tooltip = tooltip});
      simulated.points.push_back({.x = ranks, .y = rate * kPeta, .tooltip = tooltip});
    }
    chart.series.push_back(std::move(published));
    chart.series.push_back(std::move(simulated));
  }
  return inspect::chart_picture(chart);
}

JsonObject axonn_study_json(const AxonnStudy& study) {
  JsonArray machines;
  for (const AxonnStudy::OfMachine& of_machine : study.machines) {
    machines.add(JsonObject()
                     .add("name", of_machine.machine.name)
                     .add("efficiency", of_machine.constants.efficiency)
                     .add("congestion", of_machine.constants.congestion)
                     .add("unsure_numbers", cost::unsure_numbers(of_machine.machine))
                     .add("runs", run_columns().json(of_machine.points)));
  }
  return JsonObject()
      .add("points", figure_columns().json(compared_figures(study), Absent::left_out))
      .add("machines", machines);
}

}  // namespace

const std::vector<PublishedPoint>& published_points() {
  // 8192 sequences can't be shared evenly by the 6,144 ranks of Alps; 6144 can.
  static const std::vector<PublishedPoint> points = {
      {.machine = "perlmutter", .model = "gpt-10b", .ranks = 1024, .petaflops = 197.8, .fitted = true},
      {.machine = "perlmutter", .model = "gpt-20b", .ranks = 2048, .petaflops = 352.5, .fitted = true},
      {.machine = "perlmutter", .model = "gpt-40b", .ranks = 4096, .petaflops = 620.1, .verified = true},
      {.machine = "frontier", .model = "gpt-5b", .ranks = 512, .petaflops = 40.4, .fitted = true},
      {.machine = "frontier", .model = "gpt-10b", .ranks = 1024, .petaflops = 77.3, .fitted = true},
      {.machine = "frontier", .model = "gpt-20b", .ranks = 2048, .petaflops = 145.7, .fitted = true},
      {.machine = "frontier", .model = "gpt-40b", .ranks = 4096, .petaflops = 295.9, .fitted = true},
      {.machine = "frontier", .model = "gpt-80b", .ranks = 8192, .petaflops = 571.4, .efficiency = 0.883},
      {.machine = "frontier", .model = "gpt-160b", .ranks = 16384, .petaflops = 1019.9, .efficiency = 0.790},
      {.machine = "frontier",
       .model = "gpt-320b",
       .ranks = 32768,
       .petaflops = 1381.0,
       .verified = true,
       .efficiency = 0.535},
      {.machine = "alps", .model = "gpt-10b", .ranks = 1024, .petaflops = 310.0, .fitted = true},
      {.machine = "alps", .model = "gpt-20b", .ranks = 2048, .petaflops = 621.6, .fitted = true},
      {.machine = "alps", .model = "gpt-40b", .ranks = 4096, .petaflops = 1095.8},
      {.machine = "alps", .model = "gpt-60b", .ranks = 6144, .sequences = 6144, .petaflops = 1423.1, .verified = true}};
  return points;
}

std::string to_string(const PublishedPoint& point) {
  return fmt::format("{} on {} ranks of {}", point.model, point.ranks, point.machine);
}

double advertised_teraflops(const std::string& machine) {
  if (machine == "perlmutter") return 312;  // A100
  if (machine == "frontier") return 191.5;  // one of the two devices of an MI250X
  return 989;                               // GH200
}

double hardware_flops(const ops::ModelConfig& model, std::int64_t sequences, std::int64_t seq_len) {
  const double tokens = graph::as_double(sequences * seq_len), layers = graph::as_double(model.layers),
               hidden = graph::as_double(model.hidden);
  return 96 * tokens * layers * hidden * hidden *
         (1 + graph::as_double(seq_len) / (6 * hidden) + graph::as_double(model.vocab) / (16 * layers * hidden));
}

cost::Machine with_constants(cost::Machine machine, const FittedConstants& constants) {
  constexpr int kDoublings = 20;  // more nodes than any machine has
  machine.efficiency = machine.sustained = constants.efficiency;
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
  for (const std::string& name : names) study.machines.push_back(RunsOfMachine(name, tell).study());
  return study;
}

std::vector<ComparedFigure> compared_figures(const AxonnStudy& study) {
  constexpr double kPercent = 100;
  std::vector<ComparedFigure> figures;
  for (const AxonnStudy::OfMachine& of_machine : study.machines) {
    for (const SimulatedPoint& point : of_machine.points) {
      const PublishedPoint& published = point.published;
      figures.push_back({.name = to_string(published),
                         .unit = "PFLOP/s",
                         .published = published.petaflops,
                         .simulated = point.petaflops(point.step_ns),
                         .left_out = point.petaflops(point.left_out_ns),
                         .fitted = published.fitted,
                         .verified = published.verified});
      if (published.efficiency <= 0) continue;
      figures.push_back({.name = to_string(published) + ", efficiency",
                         .unit = "%",
                         .published = kPercent * published.efficiency,
                         .simulated = kPercent * rate_of_rank(point) / rate_of_rank(of_machine.points.front()),
                         .verified = true});
    }
  }
  return figures;
}

Results results_of(const AxonnStudy& study) {
  return {.text = [&study](std::optional<std::size_t> width) { return axonn_study_text(study, width); },
          .json = [&study] { return axonn_study_json(study); },
          .picture = [&study] { return axonn_picture(study); }};
}

}  // namespace weft::study
