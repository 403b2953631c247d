#include "study/axonn/axonn_study_output.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/text_table.h"
#include "base/text/units.h"
#include "inspect/drawing/chart.h"
#include "runtime/cost/machine_numbers.h"

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

TextTable figures_table(const AxonnStudy& study) {
  TextTable table{.columns = {{.head = "run", .words = true},
                              {.head = "published"},
                              {.head = "simulated"},
                              {.head = "error"},
                              {.head = "published figure", .words = true, .rank = 1},
                              {.head = "left out", .rank = 2}}};
  for (const ComparedFigure& figure : compared_figures(study)) {
    const bool share = figure.unit == "%";
    const auto text = [&](double value) {
      return share ? fmt::format("{:.1f} %", value) : fmt::format("{:.1f} PFLOP/s", value);
    };
    table.rows.push_back({figure.name, text(figure.published), text(figure.simulated), error_text(figure.error()),
                          kind_text(figure),
                          figure.left_out > 0 ? error_text(figure.left_out / figure.published - 1) : ""});
  }
  return table;
}

TextTable steps_table(const AxonnStudy::OfMachine& of_machine) {
  TextTable table{.columns = {{.head = "run", .words = true},
                              {.head = "grid", .words = true},
                              {.head = "micro-batch", .rank = 3},
                              {.head = "step"},
                              {.head = "HFU", .rank = 1},
                              {.head = "exposed", .rank = 2},
                              {.head = "memory", .rank = 2},
                              {.head = "OAR"},
                              {.head = "ORS"},
                              {.head = "OAG"},
                              {.head = "all"}}};
  for (const SimulatedPoint& point : of_machine.points) {
    std::vector<std::string> row = {fmt::format("{}, {}", point.published.model, point.published.ranks),
                                    graph::to_string(point.choice.grid),
                                    fmt::format("{}", point.choice.micro_batch),
                                    format_time(point.step_ns),
                                    fmt::format("{:.1f} %", 100 * hardware_share(point)),
                                    format_time(point.exposed_ns),
                                    human_bytes(static_cast<std::uint64_t>(point.memory_bytes))};
    for (std::size_t i = 1; i < point.switches.size(); ++i) {
      row.push_back(error_text(point.switches[i].step_ns / point.switches.front().step_ns - 1));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
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
  StyledText text = table_text(figures_table(study), width);
  text.add("\n");
  for (const AxonnStudy::OfMachine& of_machine : study.machines) {
    text.add(fmt::format("{}: efficiency of computing {:.2f}, congestion {:.3f} a doubling of nodes\n",
                         of_machine.machine.name, of_machine.constants.efficiency, of_machine.constants.congestion));
    text.add(table_text(steps_table(of_machine), width));
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
  JsonArray points, machines;
  for (const ComparedFigure& figure : compared_figures(study)) {
    JsonObject object;
    object.add("name", figure.name)
        .add("unit", figure.unit)
        .add("published", figure.published)
        .add("simulated", figure.simulated)
        .add("error", figure.error())
        .add("fitted", figure.fitted)
        .add("verified", figure.verified);
    if (figure.left_out > 0) object.add("left_out_error", figure.left_out / figure.published - 1);
    points.add(object);
  }
  for (const AxonnStudy::OfMachine& of_machine : study.machines) {
    JsonArray runs;
    for (const SimulatedPoint& point : of_machine.points) {
      JsonObject switches;
      for (const SwitchedStep& each : point.switches) switches.add(each.policy, each.step_ns * 1e-9);
      runs.add(JsonObject()
                   .add("model", point.published.model)
                   .add("ranks", point.published.ranks)
                   .add("grid", graph::to_string(point.choice.grid))
                   .add("micro_batch", point.choice.micro_batch)
                   .add("step_seconds", point.step_ns * 1e-9)
                   .add("unfitted_seconds", point.unfitted_ns * 1e-9)
                   .add("hfu", hardware_share(point))
                   .add("compute_seconds", point.compute_ns * 1e-9)
                   .add("exposed_seconds", point.exposed_ns * 1e-9)
                   .add("memory_bytes", point.memory_bytes)
                   .add("step_seconds_by_policy", switches));
    }
    machines.add(JsonObject()
                     .add("name", of_machine.machine.name)
                     .add("efficiency", of_machine.constants.efficiency)
                     .add("congestion", of_machine.constants.congestion)
                     .add("unsure_numbers", cost::unsure_numbers(of_machine.machine))
                     .add("runs", runs));
  }
  return JsonObject().add("points", points).add("machines", machines);
}

}  // namespace weft::study
