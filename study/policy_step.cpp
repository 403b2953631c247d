#include "study/policy_step.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/median.h"
#include "base/units.h"
#include "base/utf8.h"
#include "inspect/drawing/pipeline_chart.h"
#include "inspect/drawing/timeline.h"
#include "train/run/model_speed.h"

namespace weft::study {
namespace {

/// "2,2,2,2" layers of each stage; with several stages a rank, as many for each rank: "1+1,1+1".
std::string layers_text(const ops::PipelineLayout& layout, std::size_t rank) {
  std::vector<std::int64_t> layers;
  for (std::int64_t chunk = 0; chunk < layout.chunks.chunks; ++chunk) {
    const std::int64_t stage = layout.chunks.stage_on(static_cast<std::int64_t>(rank), chunk, layout.ranks);
    layers.push_back(layout.layers.at(static_cast<std::size_t>(stage)));
  }
  return fmt::format("{}", fmt::join(layers, "+"));
}

}  // namespace

double MeasuredSteps::quantile(double share) const {
  return weft::quantile(ns, share);
}

double most(std::span<const simulate::ClassTimes> times, double simulate::ClassTimes::*which) {
  double most = 0;
  for (const simulate::ClassTimes& each : times) most = std::max(most, each.*which);
  return most;
}

void expect_noise(double noise, std::int64_t seeds) {
  if (seeds <= 1 || noise != 0) return;
  throw UserError(fmt::format("--seeds {} without noise", seeds), "noise, without which all seeds give the same times",
                  "add --noise 0.1, or leave --seeds out");
}

double PolicyStep::tokens_per_second() const {
  return run ? train::tokens_per_second(run->config, report.step_ns()) : 0;
}

JsonObject bounds_json(const simulate::Bounds& bounds, double scale) {
  return JsonObject()
      .add("critical_path", bounds.critical_path * scale)
      .add("work", bounds.work * scale)
      .add("one_machine", bounds.one_machine * scale)
      .add("energy", bounds.energy * scale)
      .add("contention", bounds.contention * scale)
      .add("windows", bounds.windows * scale);
}

std::string fitted(const std::string& text, std::optional<std::size_t> width) {
  if (!width) return text;
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const std::vector<std::string> parts =
        text_width(line) <= *width ? std::vector<std::string>{line} : wrap(line, *width);
    for (std::size_t i = 0; i < parts.size(); ++i) out += (i > 0 ? "\n" : "") + parts[i];
    if (end < text.size()) out += '\n';
    at = end + 1;
  }
  return out;
}

std::string bounds_text(const simulate::Bounds& bounds, const std::function<std::string(double)>& time) {
  std::string text = fmt::format("critical path {}, work {}, one machine {}", time(bounds.critical_path),
                                 time(bounds.work), time(bounds.one_machine));
  for (const auto& [name, ns] : {std::pair("cores", bounds.energy), std::pair("contention", bounds.contention),
                                 std::pair("windows", bounds.windows)}) {
    if (ns > 0) text += fmt::format(", {} {}", name, time(ns));
  }
  return text;
}

std::vector<JsonObject> times_json(std::span<const simulate::ClassTimes> classes) {
  std::vector<JsonObject> ranks;
  for (const simulate::ClassTimes& times : classes) {
    ranks.push_back(JsonObject()
                        .add("pipe", ranks.size())
                        .add("compute_seconds", in_seconds(times.compute))
                        .add("idle_seconds", in_seconds(times.idle()))
                        .add("warm_up_seconds", in_seconds(times.idle_warm_up))
                        .add("steady_seconds", in_seconds(times.idle_steady))
                        .add("drain_seconds", in_seconds(times.idle_drain))
                        .add("end_seconds", in_seconds(times.idle_end))
                        .add("communication_seconds", in_seconds(times.communication))
                        .add("exposed_seconds", in_seconds(times.exposed)));
  }
  return ranks;
}

void add_stages(JsonObject& json, const PolicyStep& step) {
  const simulate::Report& report = step.report;
  std::vector<JsonObject> ranks = times_json(report.times());
  for (std::size_t k = 0; k < ranks.size(); ++k) {
    if (step.run) ranks[k].add("layers", layers_text(step.run->config.pipeline, k));
    ranks[k].add("memory_bytes", report.classes[k].memory.total());
  }
  if (step.run) {
    const train::RunConfig& config = step.run->config;
    json.add("micro_batches", train::accumulation(config))
        .add("stages", config.pipeline.stages())
        .add("layers", config.pipeline.layers);
  }
  json.add("bound_seconds", in_seconds(report.bounds.best()))
      .add("bubble_share", simulate::bubble_share(report.times()))
      .add("ranks", ranks);
}

void add_step(JsonObject& json, const PolicyStep& step) {
  if (step.run) json.add("model", step.run->config.model.name);
  json.add("machine", step.problem.machine.name)
      .add("grid", graph::to_string(step.problem.grid))
      .add("step_seconds", in_seconds(step.report.step_ns()))
      .add("tokens_per_second", step.tokens_per_second());
  add_stages(json, step);
}

TextTable stages_table(const PolicyStep& step) {
  TextTable table{.columns = {{.head = "rank"},
                              {.head = "layers"},
                              {.head = "computes"},
                              {.head = "idle"},
                              {.head = "warm-up", .rank = 2},
                              {.head = "steady", .rank = 2},
                              {.head = "drain", .rank = 2},
                              {.head = "end", .rank = 2},
                              {.head = "sends, receives", .rank = 3},
                              {.head = "exposed", .rank = 1},
                              {.head = "memory"}}};
  const simulate::Report& report = step.report;
  for (std::size_t k = 0; k < report.classes.size(); ++k) {
    const simulate::ClassTimes& times = report.classes[k].times;
    table.rows.push_back({fmt::format("{}", k), step.run ? layers_text(step.run->config.pipeline, k) : "-",
                          format_time(times.compute), format_time(times.idle()), format_time(times.idle_warm_up),
                          format_time(times.idle_steady), format_time(times.idle_drain), format_time(times.idle_end),
                          format_time(times.communication), format_time(times.exposed),
                          human_bytes(static_cast<std::uint64_t>(report.classes[k].memory.total()))});
  }
  return table;
}

plan::Recording recording_of(const simulate::Report& report, const std::optional<graph::Grid>& grid,
                             std::size_t of_class) {
  std::vector<plan::RankTrace> ranks;
  if (report.classes.size() == 1) {
    for (const simulate::SimulatedRank& rank : report.simulation.ranks) ranks.push_back({rank.rank, rank.steps});
  } else {
    const simulate::SimulatedRank& simulated = report.rank(of_class);
    const auto rank = grid ? graph::rank_of(*grid, {.pipe = static_cast<std::int64_t>(of_class)}) : simulated.rank;
    ranks.push_back({static_cast<int>(rank), simulated.steps});
  }
  return plan::record(*report.classes[of_class].plan, ranks, grid ? static_cast<int>(grid->ranks()) : 1, grid);
}

inspect::Picture picture_of(std::span<const PolicyStep> steps) {
  std::vector<inspect::PipelineChart> charts;
  std::vector<plan::Recording> recordings;
  std::vector<inspect::TimelinePart> parts;
  recordings.reserve(steps.size());  // parts point to them
  for (const PolicyStep& step : steps) {
    const simulate::Report& report = step.report;
    if (!report.planned()) continue;
    if (step.has_stages()) {
      charts.push_back(inspect::pipeline_chart(report, step.problem.grid));
      continue;
    }
    recordings.push_back(recording_of(report, step.run ? std::optional(step.problem.grid) : std::nullopt));
    parts.push_back({"Simulated step, policy " + report.policy.name, &recordings.back(), report.bounds.best()});
  }
  if (!charts.empty()) return inspect::pipeline_picture(charts);
  if (parts.empty()) throw UserError("no policy has plans", "a policy that orders this step", "see the refusals");
  return inspect::timeline_picture(parts);
}

}  // namespace weft::study
