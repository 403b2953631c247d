#include "tools/pipeline/pipeline_step.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "inspect/drawing/pipeline_chart.h"
#include "runtime/simulate/bubbles.h"
#include "runtime/simulate/certify/window_bounds.h"
#include "study/step_figures.h"
#include "train/step/planning.h"

namespace weft::tools {
namespace {

double in_seconds(double ns) {
  return ns * 1e-9;
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

/// "2,2,2,2" layers of each stage; with several stages a rank, as many for each rank: "1+1,1+1".
std::string layers_text(const ops::PipelineLayout& layout, std::int64_t rank) {
  std::vector<std::int64_t> layers;
  for (std::int64_t chunk = 0; chunk < layout.chunks.chunks; ++chunk) {
    layers.push_back(layout.layers.at(static_cast<std::size_t>(layout.chunks.stage_on(rank, chunk, layout.ranks))));
  }
  return fmt::format("{}", fmt::join(layers, "+"));
}

std::string title_of(const PipelineStep& step) {
  const train::RunConfig& config = step.run.config;
  return fmt::format("{} on {} ranks ({}) of {}, policy {}: {} micro-batches through {} stages", config.model.name,
                     config.grid.ranks(), graph::to_string(config.grid), step.problem.machine.name,
                     step.report.policy.name, train::accumulation(config), config.pipeline.stages());
}

TextTable stages_table(const PipelineStep& step) {
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
    table.rows.push_back({fmt::format("{}", k), layers_text(step.run.config.pipeline, static_cast<std::int64_t>(k)),
                          format_time(times.compute), format_time(times.idle()), format_time(times.idle_warm_up),
                          format_time(times.idle_steady), format_time(times.idle_drain), format_time(times.idle_end),
                          format_time(times.communication), format_time(times.exposed),
                          human_bytes(static_cast<std::uint64_t>(report.classes[k].memory.total()))});
  }
  return table;
}

std::vector<JsonObject> ranks_json(const std::vector<simulate::ClassTimes>& stages) {
  std::vector<JsonObject> ranks;
  for (const simulate::ClassTimes& times : stages) {
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

/// Gaps in order of length, at most so many.
std::vector<simulate::BubbleGap> longest(std::vector<simulate::BubbleGap> gaps, std::size_t most) {
  std::ranges::stable_sort(gaps, std::ranges::greater(), &simulate::BubbleGap::ns);
  if (gaps.size() > most) gaps.resize(most);
  return gaps;
}

TextTable comparison_table(const std::vector<PipelineStep>& steps) {
  TextTable table{.columns = {{.head = "policy", .words = true},
                              {.head = "stages a rank", .rank = 2},
                              {.head = "step"},
                              {.head = "gap"},
                              {.head = "bubble"},
                              {.head = "exposed", .rank = 1},
                              {.head = "peak memory"},
                              {.head = "planning", .rank = 3}}};
  const bool measured = std::ranges::any_of(steps, [](const PipelineStep& step) { return step.measured.has_value(); });
  const bool disturbed = steps.front().disturbed.has_value();
  if (disturbed) {
    table.columns.insert(table.columns.end(),
                         {{.head = "noisy"}, {.head = "95th %"}, {.head = "slow rank", .rank = 1}});
  }
  if (measured) {
    table.columns.insert(table.columns.end(), {{.head = "measured"},
                                               {.head = "spread", .rank = 4},
                                               {.head = "off", .emphasis = Emphasis::bad},
                                               {.head = "bubble there", .rank = 2}});
  }
  double best = 0;
  for (const PipelineStep& step : steps) {
    const simulate::Report& report = step.report;
    if (!report.planned()) {
      constexpr std::size_t kMost = 200;  // the cycle of a deadlock may name many tasks
      const std::string reason = report.refusal.substr(0, report.refusal.find('\n'));
      table.rows.push_back({report.policy.name, reason.size() > kMost ? reason.substr(0, kMost) + "…" : reason});
      continue;
    }
    const double ns = step.measured ? step.measured->steps.median() : report.step_ns();
    if (!table.best || ns < best) {
      table.best = table.rows.size();
      best = ns;
    }
    table.rows.push_back(
        {report.policy.name, fmt::format("{}", step.run.config.pipeline.chunks.chunks), format_time(report.step_ns()),
         percent(report.gap()), percent(simulate::bubble_share(report.times())),
         format_time(study::figures_of(report).exposed_ns),
         human_bytes(static_cast<std::uint64_t>(report.memory_bytes())), format_time(report.planning_ms * 1e6)});
    if (disturbed) {
      for (const double noisy : {step.disturbed->median_ns, step.disturbed->p95_ns, step.disturbed->slow_rank_ns})
        table.rows.back().push_back(format_time(noisy));
    }
    if (step.measured) {
      const study::MeasuredSteps& steps_there = step.measured->steps;
      std::vector<std::string>& row = table.rows.back();
      row.insert(row.end(),
                 {format_time(ns), percent((steps_there.quantile(0.75) - steps_there.quantile(0.25)) / ns),
                  fmt::format("{:+.1f} %", 100 * (report.step_ns() / ns - 1)), percent(step.measured->bubble_share())});
    }
  }
  return table;
}

constexpr std::string_view kComparisonNote =
    "\ngap: how far the step is above the bound of the policy's own graphs. bubble: the share of all ranks' time "
    "without "
    "a computation.\nexposed, peak memory: of the rank that has most.\n";

constexpr std::string_view kMeasuredNote =
    "measured: median of the steps; spread: between their quartiles. off: how much longer the simulated step is. "
    "bubble "
    "there: of the measured steps.\n";

/// What follows the table.
std::string comparison_notes(const std::vector<PipelineStep>& steps) {
  std::string text(kComparisonNote);
  std::vector<double> simulated, measured;
  for (const PipelineStep& step : steps) {
    if (!step.measured) continue;
    simulated.push_back(step.report.step_ns());
    measured.push_back(step.measured->steps.median());
  }
  if (measured.empty()) return text;
  constexpr double kDiffers = 0.03;
  return text + std::string(kMeasuredNote) +
         fmt::format(
             "Of the pairs of policies whose measured medians differ by more than 3 %, {:.0f} % are ranked "
             "alike by the simulator.\n",
             100 * study::ranked_alike(simulated, measured, kDiffers));
}

std::string comparison_title(const std::vector<PipelineStep>& steps) {
  const PipelineStep& first = steps.front();
  const train::RunConfig& config = first.run.config;
  return fmt::format("{}, {} ranks ({}), {} sequences of {} tokens a step in {} micro-batches, on {}\n\n",
                     config.model.name, config.grid.ranks(), graph::to_string(config.grid), config.global_batch,
                     config.seq_len, train::accumulation(config), first.problem.machine.name);
}

}  // namespace

double MeasuredPipeline::bubble_share() const {
  return simulate::bubble_share(times);
}

double PipelineStep::tokens_per_second() const {
  return static_cast<double>(run.config.global_batch * run.config.seq_len) / in_seconds(report.step_ns());
}

bool is_pipeline(const train::RunConfig& config) {
  return config.grid.pipe > 1;
}

PipelineStep simulate_pipeline(train::RunConfig config, const std::string& policy, const PipelineQuestion& question) {
  PipelineStep step;
  step.run = policy.empty() ? train::resolve(std::move(config), 0) : train::resolve_with(std::move(config), policy);
  simulate::Problem& problem = step.problem;
  problem = train::planning_problem(step.run);
  std::vector<cost::CorePool> pools = std::move(problem.simulation.core_pools);
  problem.simulation = question.simulation;
  problem.simulation.core_pools = std::move(pools);
  problem.simulation.seed = step.run.config.seed;
  if (!question.scales.empty()) {
    problem.options.cost_model = cost::scaled_costs(problem.options.cost_model, question.scales);
  }
  step.report = simulate::report_plan(problem, step.run.policy);
  simulate::prove_windows(problem, {&step.report, 1});
  return step;
}

std::string pipeline_text(const PipelineStep& step, std::optional<std::size_t> width) {
  const simulate::Report& report = step.report;
  std::string text = title_of(step) + "\n";
  text += fmt::format("step          {}, {} tokens/s\n", format_time(report.step_ns()),
                      human_count(step.tokens_per_second()));
  text += fmt::format("bound         {}; the step is {} above it\n", format_time(report.bounds.best()),
                      percent(report.gap()));
  text += fmt::format("bubble        {} of the ranks' time is without a computation\n",
                      percent(simulate::bubble_share(report.times())));
  text += fmt::format("peak memory   {} of a rank\n\n", human_bytes(static_cast<std::uint64_t>(report.memory_bytes())));
  text += table_text(stages_table(step), width).plain() + "\n";
  constexpr std::size_t kColumns = 100, kLeast = 60;
  const std::size_t columns = std::clamp(width.value_or(kColumns), kLeast, kColumns);
  return text + inspect::pipeline_text(inspect::pipeline_chart(report), static_cast<int>(columns));
}

JsonObject pipeline_json(const PipelineStep& step) {
  const simulate::Report& report = step.report;
  const train::RunConfig& config = step.run.config;
  JsonObject json;
  json.add("policy", report.policy.name);
  if (!report.planned()) return json.add("refused", report.refusal);
  std::vector<JsonObject> ranks = ranks_json(report.times());
  for (std::size_t k = 0; k < ranks.size(); ++k) {
    ranks[k]
        .add("layers", layers_text(config.pipeline, static_cast<std::int64_t>(k)))
        .add("memory_bytes", report.classes[k].memory.total());
  }
  if (step.disturbed) {
    json.add("disturbed", JsonObject()
                              .add("median_seconds", in_seconds(step.disturbed->median_ns))
                              .add("p95_seconds", in_seconds(step.disturbed->p95_ns))
                              .add("slow_rank_seconds", in_seconds(step.disturbed->slow_rank_ns)));
  }
  if (step.measured) {
    const study::MeasuredSteps& steps = step.measured->steps;
    json.add("measured", JsonObject()
                             .add("steps", steps.ns.size())
                             .add("median_seconds", in_seconds(steps.median()))
                             .add("lower_quartile_seconds", in_seconds(steps.quantile(0.25)))
                             .add("upper_quartile_seconds", in_seconds(steps.quantile(0.75)))
                             .add("simulated_error", report.step_ns() / steps.median() - 1)
                             .add("bubble_share", step.measured->bubble_share())
                             .add("ranks", ranks_json(step.measured->times)));
  }
  return json.add("model", config.model.name)
      .add("machine", step.problem.machine.name)
      .add("grid", graph::to_string(config.grid))
      .add("micro_batches", train::accumulation(config))
      .add("stages", config.pipeline.stages())
      .add("layers", config.pipeline.layers)
      .add("step_seconds", in_seconds(report.step_ns()))
      .add("bound_seconds", in_seconds(report.bounds.best()))
      .add("gap", report.gap())
      .add("bubble_share", simulate::bubble_share(report.times()))
      .add("tokens_per_second", step.tokens_per_second())
      .add("memory_bytes", report.memory_bytes())
      .add("ranks", ranks);
}

StyledText pipeline_comparison(const std::vector<PipelineStep>& steps, std::optional<std::size_t> width) {
  StyledText text;
  text.add(comparison_title(steps));
  text.add(table_text(comparison_table(steps), width));
  text.add(comparison_notes(steps));
  return text;
}

std::string pipeline_comparison_markdown(const std::vector<PipelineStep>& steps) {
  return comparison_title(steps) + table_markdown(comparison_table(steps)) + comparison_notes(steps);
}

std::string bubble_text(const PipelineStep& step, std::size_t most, std::optional<std::size_t> width) {
  const simulate::Report& report = step.report;
  const std::vector<simulate::BubbleGap> gaps = simulate::bubble_gaps(report);
  TextTable table{.columns = {{.head = "rank"}, {.head = "idle"}}};
  for (std::size_t cause = 0; cause < simulate::kBubbleCauses; ++cause) {
    table.columns.push_back(
        {.head = std::string(to_string(static_cast<simulate::BubbleCause>(cause))), .rank = static_cast<int>(cause)});
  }
  table.columns.push_back({.head = "could be filled"});
  const std::vector<simulate::BubbleSums> sums = simulate::bubble_sums(gaps, report.classes.size());
  for (std::size_t k = 0; k < sums.size(); ++k) {
    std::vector<std::string>& cells = table.rows.emplace_back();
    cells = {fmt::format("{}", k), format_time(report.classes[k].times.idle())};
    for (const double ns : sums[k].ns) cells.push_back(format_time(ns));
    cells.push_back(format_time(sums[k].fill_ns));
  }
  std::string text =
      fmt::format("{}\nstep {}, bubble {}: for what a rank waits while it doesn't compute\n\n", title_of(step),
                  format_time(report.step_ns()), percent(simulate::bubble_share(report.times())));
  text += table_text(table, width).plain() + "\nThe longest gaps:\n";
  for (const simulate::BubbleGap& gap : longest(gaps, most)) text += "  " + simulate::to_string(gap, report) + "\n";
  return text;
}

JsonObject bubble_json(const PipelineStep& step, std::size_t most) {
  const simulate::Report& report = step.report;
  const std::vector<simulate::BubbleGap> gaps = simulate::bubble_gaps(report);
  std::vector<JsonObject> ranks, told;
  for (const simulate::BubbleSums& sums : simulate::bubble_sums(gaps, report.classes.size())) {
    JsonObject causes;
    for (std::size_t cause = 0; cause < simulate::kBubbleCauses; ++cause) {
      causes.add(std::string(to_string(static_cast<simulate::BubbleCause>(cause))), in_seconds(sums.ns.at(cause)));
    }
    ranks.push_back(JsonObject().add("idle_seconds", causes).add("fill_seconds", in_seconds(sums.fill_ns)));
  }
  for (const simulate::BubbleGap& gap : longest(gaps, most)) {
    told.push_back(JsonObject()
                       .add("rank", gap.stage)
                       .add("begin_seconds", in_seconds(gap.begin_ns))
                       .add("seconds", in_seconds(gap.ns()))
                       .add("cause", to_string(gap.cause))
                       .add("fill_seconds", in_seconds(gap.fill_ns))
                       .add("text", simulate::to_string(gap, report)));
  }
  return pipeline_json(step).add("bubbles", ranks).add("longest_gaps", told);
}

inspect::Picture picture_of(const std::vector<PipelineStep>& steps) {
  std::vector<inspect::PipelineChart> charts;
  for (const PipelineStep& step : steps) {
    if (step.report.planned()) charts.push_back(inspect::pipeline_chart(step.report));
  }
  if (charts.empty()) throw UserError("no policy has plans", "a policy that orders this pipeline", "see the refusals");
  return inspect::pipeline_picture(charts);
}

}  // namespace weft::tools
