#include "study/axonn/axonn_study_output.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "base/units.h"
#include "inspect/drawing/chart.h"
#include "runtime/cost/machine_numbers.h"
#include "study/columns.h"

namespace weft::study {
namespace {

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
  columns.add("grid", [](const SimulatedPoint& point) { return graph::to_string(point.choice.grid); },
              {.head = "grid", .words = true});
  columns.add("micro_batch", [](const SimulatedPoint& point) { return point.choice.micro_batch; },
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

}  // namespace

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
      "HFU: with recomputation counted, as a share of the data sheet's rate.\n");
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

}  // namespace weft::study
