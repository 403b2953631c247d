#include "study/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/median.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "runtime/cost/machine_numbers.h"

namespace weft::study {
namespace {

std::string ms(double ns) {
  return fmt::format("{:.2f}", ns * 1e-6);
}

std::string percent(double share) {
  const std::string text = fmt::format("{:.1f}", 100 * share);
  return text == "-0.0" ? "0.0" : text;
}

std::vector<std::string> channels_of(const Comparison& comparison) {
  std::vector<std::string> names;
  for (const simulate::Report& report : comparison.reports) {
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
std::vector<TableColumn> policy_columns(const std::vector<std::string>& channels, bool disturbed, bool measured) {
  std::vector<TableColumn> columns = {
      {.head = "policy", .words = true}, {.head = "step ms"},
      {.head = "speed-up", .rank = 2},   {.head = "gap %", .rank = 4},
      {.head = "hidden %", .rank = 3},   {.head = "exposed ms", .emphasis = Emphasis::bad},
      {.head = "overlap %", .rank = 5},  {.head = "contention ms", .rank = 6},
      {.head = "memory", .rank = 1},     {.head = "planning ms", .rank = 7}};
  for (const std::string& channel : channels) columns.push_back({.head = "exp. " + channel, .rank = 8});
  if (disturbed) {
    columns.insert(columns.end(), {{.head = "noisy ms"}, {.head = "95th % ms"}, {.head = "slow rank ms", .rank = 1}});
  }
  if (measured) {
    columns.insert(columns.end(), {{.head = "measured ms"},
                                   {.head = "spread %", .rank = 5},
                                   {.head = "error %", .rank = 1},
                                   {.head = "hidden %", .rank = 3}});
  }
  return columns;
}

TextTable policies_table(const Comparison& comparison) {
  std::vector<std::string> channels = channels_of(comparison);
  if (channels.size() < 2) channels.clear();  // the column would equal "exposed ms"
  const bool disturbed = !comparison.disturbed.empty(), measured = !comparison.measured.empty();
  TextTable table{.columns = policy_columns(channels, disturbed, measured)};
  const simulate::Report* serial = comparison.serial();
  const double bound = comparison.bound_ns();
  double least = INFINITY;
  for (std::size_t i = 0; i < comparison.reports.size(); ++i) {
    const simulate::Report& r = comparison.reports[i];
    if (!r.planned()) continue;
    std::vector<std::string>& row = table.rows.emplace_back();
    row = {r.policy.name,
           ms(r.step_ns()),
           serial != nullptr ? fmt::format("{:.3f}", serial->step_ns() / r.step_ns()) : "-",
           percent(r.gap()),
           serial != nullptr ? percent(simulate::hidden_share(r.step_ns(), serial->step_ns(), bound)) : "-",
           ms(r.most_exposed().times.exposed),
           percent(r.most_exposed().times.overlap_fraction()),
           ms(r.simulation.ranks.front().contention_ns),
           human_bytes(static_cast<std::uint64_t>(r.memory_bytes())),
           fmt::format("{:.1f}", r.planning_ms)};
    for (const std::string& channel : channels) row.push_back(ms(exposed_on(r, channel)));
    if (disturbed) {
      const simulate::Robustness& d = comparison.disturbed[i];
      row.insert(row.end(), {ms(d.median_ns), ms(d.p95_ns), ms(d.slow_rank_ns)});
    }
    double step = r.step_ns();
    if (measured) {
      const MeasuredSteps& steps = comparison.measured[i];
      step = steps.median();
      const auto serial_at = static_cast<std::size_t>(serial == nullptr ? 0 : serial - comparison.reports.data());
      row.insert(
          row.end(),
          {ms(step), percent((steps.quantile(0.75) - steps.quantile(0.25)) / step), percent(r.step_ns() / step - 1),
           serial != nullptr ? percent(simulate::hidden_share(step, comparison.measured[serial_at].median(), bound))
                             : "-"});
    }
    if (step < least) least = step, table.best = table.rows.size() - 1;
  }
  return table;
}

constexpr const char* kFrontTitle = "\nTime against memory: plans that no other plan beats in both.\n\n";

TextTable front_table(const std::vector<LimitedPlan>& limited) {
  TextTable table{.columns = {{.head = "policy", .words = true}, {.head = "memory"}, {.head = "step ms"}}};
  for (const LimitedPlan& plan : limited) {
    table.rows.push_back({plan.policy, human_bytes(static_cast<std::uint64_t>(plan.memory_bytes)), ms(plan.step_ns)});
  }
  return table;
}

std::string bounds_text(const Comparison& comparison) {
  const simulate::Bounds& b = comparison.problem.bounds;
  if (b.best() <= 0) return "";
  std::string text = fmt::format(
      "No order can take less than {} ms (critical path {}, work {}, one machine {}{}{}{}); "
      "computing alone takes {} ms, communicating alone {} ms.\n",
      ms(b.best()), ms(b.critical_path), ms(b.work), ms(b.one_machine),
      b.energy > 0 ? fmt::format(", cores {}", ms(b.energy)) : "",
      b.contention > 0 ? fmt::format(", contention {}", ms(b.contention)) : "",
      b.windows > 0 ? fmt::format(", windows {}", ms(b.windows)) : "", ms(comparison.problem.alone.compute_ns),
      ms(comparison.problem.alone.communication_ns));
  for (const simulate::Report& report : comparison.reports) {
    if (!report.planned() || report.bounds.best() >= b.best()) continue;
    text += fmt::format("{} rewrites the graph, after which no order takes less than {} ms.\n", report.policy.name,
                        ms(report.bounds.best()));
  }
  return text;
}

std::string stale_text(const Comparison& comparison) {
  std::string text;
  for (std::size_t i = 0; i < comparison.measured.size(); ++i) {
    const simulate::Report& report = comparison.reports[i];
    if (!report.planned() || comparison.measured[i].median() >= report.bounds.best()) continue;
    text += fmt::format("profile stale: {} was measured {} ms, below its bound of {} ms\n", report.policy.name,
                        ms(comparison.measured[i].median()), ms(report.bounds.best()));
  }
  return text;
}

}  // namespace

double MeasuredSteps::quantile(double share) const {
  return weft::quantile(ns, share);
}

const simulate::Report* Comparison::serial() const {
  const auto found =
      std::ranges::find_if(reports, [](const simulate::Report& r) { return r.policy.name == "serial" && r.planned(); });
  return found == reports.end() ? nullptr : &*found;
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
  for (std::size_t i = 0; i < comparison.measured.size(); ++i) {
    if (!comparison.reports[i].planned()) continue;
    simulated.push_back(comparison.reports[i].step_ns());
    measured.push_back(comparison.measured[i].median());
  }
  return ranked_alike(simulated, measured, least);
}

std::vector<LimitedPlan> pareto_front(std::vector<LimitedPlan> plans) {
  std::ranges::sort(plans, [](const LimitedPlan& a, const LimitedPlan& b) {
    return std::pair(a.memory_bytes, a.step_ns) < std::pair(b.memory_bytes, b.step_ns);
  });
  std::vector<LimitedPlan> front;
  for (LimitedPlan& plan : plans) {
    if (front.empty() || plan.step_ns < front.back().step_ns) front.push_back(std::move(plan));
  }
  return front;
}

namespace {

/// `table` gives a table's text.
template <class Table>
StyledText described(const Comparison& comparison, const Table& table) {
  StyledText text(fmt::format("{}\nCosts: {}{}{}.\n{}\n", comparison.title, comparison.source,
                              comparison.unsure.empty() ? "" : "; ", cost::unsure_text(comparison.unsure),
                              comparison.summation_note.empty() ? "" : "Note: " + comparison.summation_note + ".\n"));
  text.add(table(policies_table(comparison))).add("\n" + bounds_text(comparison));
  if (!comparison.measured.empty()) {
    text.add(fmt::format(
        "Of the pairs of policies whose measured medians differ by more than 3 %, {:.0f} % are ranked alike "
        "by the simulator.\n",
        100 * ranked_alike(comparison, 0.03)));
    text.add(stale_text(comparison), Emphasis::warning);
  }
  for (const simulate::Report& report : comparison.reports) {
    if (!report.planned()) {
      text.add(fmt::format("{}: no plan: {}\n", report.policy.name, report.refusal));
      continue;
    }
    if (const std::string rewrites = report.rewrites_for_memory(); !rewrites.empty()) {
      text.add(fmt::format("{} rewrites the graph to fit the memory: {}\n", report.policy.name, rewrites));
    }
    if (const std::string order = report.order_for_memory(); !order.empty()) {
      text.add(fmt::format("{}: its own order takes too much memory; the figures are of another order: {}\n",
                           report.policy.name, order));
    }
  }
  if (comparison.limited.empty()) return text;
  return text.add(kFrontTitle).add(table(front_table(comparison.limited)));
}

}  // namespace

StyledText styled_comparison(const Comparison& comparison, std::optional<std::size_t> width) {
  return described(comparison, [&](const TextTable& table) { return table_text(table, width); });
}

std::string comparison_text(const Comparison& comparison, TableStyle style) {
  if (style == TableStyle::terminal) return styled_comparison(comparison, std::nullopt).plain();
  return described(comparison, [](const TextTable& table) { return StyledText(table_markdown(table)); }).plain();
}

namespace {

double in_ms(double ns) {
  return ns * 1e-6;
}

JsonObject measured_json(const MeasuredSteps& steps, double simulated_ns) {
  return JsonObject()
      .add("steps", steps.ns.size())
      .add("median_ms", in_ms(steps.median()))
      .add("lower_quartile_ms", in_ms(steps.quantile(0.25)))
      .add("upper_quartile_ms", in_ms(steps.quantile(0.75)))
      .add("exposed_ms", in_ms(steps.exposed_ns))
      .add("communication_ms", in_ms(steps.communication_ns))
      .add("simulated_error", simulated_ns / steps.median() - 1);
}

JsonObject bounds_json(const simulate::Bounds& bounds) {
  return JsonObject()
      .add("critical_path", in_ms(bounds.critical_path))
      .add("work", in_ms(bounds.work))
      .add("one_machine", in_ms(bounds.one_machine))
      .add("energy", in_ms(bounds.energy))
      .add("contention", in_ms(bounds.contention))
      .add("windows", in_ms(bounds.windows));
}

JsonObject disturbed_json(const simulate::Robustness& disturbed) {
  return JsonObject()
      .add("median_ms", in_ms(disturbed.median_ns))
      .add("p95_ms", in_ms(disturbed.p95_ns))
      .add("slow_rank_ms", in_ms(disturbed.slow_rank_ns));
}

}  // namespace

std::vector<JsonObject> policies_json(const Comparison& comparison) {
  const simulate::Report* serial = comparison.serial();
  std::vector<JsonObject> policies;
  for (std::size_t i = 0; i < comparison.reports.size(); ++i) {
    const simulate::Report& r = comparison.reports[i];
    JsonObject& entry = policies.emplace_back();
    entry.add("policy", r.policy.name);
    if (!r.planned()) {
      entry.add("refused", r.refusal);
      continue;
    }
    if (const std::string order = r.order_for_memory(); !order.empty()) entry.add("order_for_memory", order);
    if (const std::string rewrites = r.rewrites_for_memory(); !rewrites.empty())
      entry.add("rewrites_for_memory", rewrites);
    entry.add("step_ms", in_ms(r.step_ns())).add("gap", r.gap()).add("bounds_ms", bounds_json(r.bounds));
    if (serial != nullptr) {
      entry.add("speed_up", serial->step_ns() / r.step_ns())
          .add("hidden", simulate::hidden_share(r.step_ns(), serial->step_ns(), comparison.bound_ns()));
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
    if (!comparison.disturbed.empty()) entry.add("disturbed", disturbed_json(comparison.disturbed[i]));
    if (!comparison.measured.empty()) entry.add("measured", measured_json(comparison.measured[i], r.step_ns()));
  }
  return policies;
}

StyledText front_text(const std::vector<LimitedPlan>& front, std::optional<std::size_t> width) {
  if (front.empty()) return {};
  return StyledText(kFrontTitle).add(table_text(front_table(front), width));
}

JsonArray front_json(const std::vector<LimitedPlan>& front) {
  JsonArray json;
  for (const LimitedPlan& plan : front) {
    json.add(JsonObject()
                 .add("policy", plan.policy)
                 .add("memory_bytes", plan.memory_bytes)
                 .add("step_ms", in_ms(plan.step_ns)));
  }
  return json;
}

JsonObject comparison_json(const Comparison& comparison) {
  JsonObject json;
  json.add("title", comparison.title).add("costs", comparison.source).add("unsure_numbers", comparison.unsure);
  json.add("summation_note", comparison.summation_note);
  json.add("bound_ms", in_ms(comparison.bound_ns()));
  json.add("policies", policies_json(comparison));
  if (!comparison.measured.empty()) json.add("ranked_alike", ranked_alike(comparison, 0.03));
  if (!comparison.limited.empty()) json.add("pareto", front_json(comparison.limited));
  return json;
}

}  // namespace weft::study
