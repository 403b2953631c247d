#include "study/search/search_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "base/units.h"
#include "inspect/drawing/chart.h"
#include "runtime/cost/cost_model.h"
#include "runtime/cost/machine_numbers.h"
#include "study/policy_step.h"
#include "study/search/closed_forms.h"
#include "study/search/step_setup.h"
#include "train/run/model_speed.h"

namespace weft::study {
namespace {

double seconds_of(const Configuration& configuration) {
  return configuration.step_ns * 1e-9;
}

/// Where a step's time goes: computing, and what every channel adds to it.
struct Limit {
  std::string name;
  double ns = 0;
};

/// Whether rank classes wait for each other's messages, so that their times alone don't make up the step.
bool has_messages(const Configuration& configuration) {
  return configuration.report->classes.size() > 1;
}

/// The greatest part of a finalist's step that isn't its computations at full speed; of classes that wait for each
/// other the mean idle time of their ranks, which messages may cause too.
Limit limit_of(const Configuration& configuration) {
  const simulate::Report& report = *configuration.report;
  if (has_messages(configuration)) return {"bubble", simulate::bubble_share(report.times()) * report.step_ns()};
  Limit greatest{"contention", report.simulation.ranks.front().contention_ns};
  for (const simulate::ChannelTimes& channel : report.first().channels) {
    if (channel.exposed_ns > greatest.ns) greatest = {channel.stream, channel.exposed_ns};
  }
  return greatest;
}

std::string limit_text(const Configuration& configuration) {
  if (!configuration.exact) return "";
  const Limit limit = limit_of(configuration);
  const double share = limit.ns / configuration.step_ns;
  if (share < 0.02) return "computing";
  return fmt::format("{} {:.0f} %", limit.name, 100 * share);
}

double exposed_ns(const simulate::Report& report) {
  return report.most_exposed().times.exposed;
}

/// Of the mean rank, while it waits for messages of other classes.
double idle_ns(const Configuration& configuration) {
  return has_messages(configuration) ? limit_of(configuration).ns : 0;
}

/// The rewrites that the policy chose for its memory.
std::string rewrites_for_memory(const Configuration& configuration) {
  return configuration.report ? configuration.report->rewrites_for_memory() : "";
}

// The setup's options, and the rewrites that its policy chose for its memory.
std::string options_of(const Configuration& configuration) {
  std::string text = options_text(configuration.setup);
  const std::string rewrites = configuration.exact ? rewrites_for_memory(configuration) : "";
  if (!rewrites.empty()) text += (text.empty() ? "" : ", ") + rewrites;
  return text;
}

/// The place of each configuration, from 1, in the order of AxoNN's own model (axonn_seconds()); equal seconds share a
/// place.
std::vector<std::size_t> axonn_places(const SearchResult& result) {
  std::vector<double> seconds;
  for (const Configuration& each : result.configurations) {
    const graph::Grid& grid = each.setup.grid;
    const AxonnStep step{result.config.model,
                         grid,
                         result.config.global_batch,
                         result.config.seq_len,
                         result.config.global_batch / (grid.batch_ranks() * each.setup.micro_batch),
                         each.setup.recompute == train::Recompute::block};
    seconds.push_back(axonn_seconds(step, [&](graph::Axis axis) {
      constexpr std::array kChannels = {graph::Channel::x, graph::Channel::y, graph::Channel::z_gather,
                                        graph::Channel::data};
      return cost::group_bandwidth(
          result.machine, cost::group_span(result.machine, grid, kChannels.at(static_cast<std::size_t>(axis))));
    }));
  }
  std::vector<double> sorted = seconds;
  std::ranges::sort(sorted);
  std::vector<std::size_t> places;
  for (const double each : seconds) {
    places.push_back(1 + static_cast<std::size_t>(std::ranges::lower_bound(sorted, each) - sorted.begin()));
  }
  return places;
}

/// A configuration with its places, by its step and by AxoNN's model.
struct RankedConfiguration {
  const Configuration& of;
  std::size_t number = 1, axonn_place = 1;
};

/// The number of the included grid's best configuration, from 1; 0: there is none.
std::size_t included_number(const SearchResult& result) {
  if (!result.included || !result.included->setup) return 0;
  const auto found = std::ranges::find(result.configurations, *result.included->setup, &Configuration::setup);
  return static_cast<std::size_t>(found - result.configurations.begin()) + 1;
}

std::vector<RankedConfiguration> ranked(const SearchResult& result, std::size_t most) {
  const std::vector<std::size_t> places = axonn_places(result);
  std::vector<RankedConfiguration> rows;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const bool asked = included_number(result) == i + 1;
    if (i < most || asked) rows.push_back({result.configurations[i], i + 1, places[i]});
  }
  return rows;
}

/// What stands before a step that wasn't planned.
std::string mark_of(Known known) {
  return known == Known::plan ? "" : known == Known::bound ? "≥ " : "~";
}

/// Of JSON and the table.
Columns<RankedConfiguration> columns_of(const SearchResult& result) {
  using Row = RankedConfiguration;
  const auto of_finalist = [](auto value) {
    return [value](const Row& row) { return row.of.exact ? Cell(value(row.of)) : Cell(); };
  };
  const auto about = [](const Row& row, const std::string& text) { return (row.of.exact ? "" : "~") + text; };
  const auto step_text = [](const Row& row) { return mark_of(row.of.known()) + format_time(row.of.step_ns); };
  Columns<Row> columns;
  columns.show({.head = "#"}, [](const Row& row) { return fmt::format("{}", row.number); });
  add_setup(
      columns, [](const Row& row) { return row.of.setup; },
      [](const StepSetup& setup) { return Cell("", axis_order(setup)); }, 1);
  columns.show({.head = "with", .words = true}, [](const Row& row) { return options_of(row.of); });
  columns.add("policy", [](const Row& row) { return row.of.policy; }, {.head = "policy", .words = true, .rank = 2});
  columns.add("step_ms", [](const Row& row) { return row.of.step_ns * 1e-6; }).shown({.head = "step"}, step_text);
  columns.add("step_seconds", [](const Row& row) { return seconds_of(row.of); });
  columns.add(
      "tokens_per_s", [&](const Row& row) { return train::tokens_per_second(result.config, row.of.step_ns); },
      {.head = "tokens/s", .rank = 3}, human_count);
  columns.add(
      "mfu",
      [&](const Row& row) {
        return train::model_flops_share(result.config, row.of.setup.grid.ranks(), result.machine, row.of.step_ns);
      },
      {.head = "MFU", .rank = 3}, percent_text);
  columns.add("memory_bytes", [](const Row& row) { return row.of.memory_bytes; })
      .shown({.head = "memory"}, [about](const Row& row) { return about(row, bytes_text(row.of.memory_bytes)); });
  columns.add("fits", [](const Row&) { return true; });
  columns.add("estimated", [](const Row& row) { return !row.of.exact; });
  columns.add("step_is_bound", [](const Row& row) { return row.of.known() == Known::bound; });
  columns.show({.head = "exposed", .rank = 2},
               [](const Row& row) { return row.of.exact ? format_time(exposed_ns(*row.of.report)) : ""; });
  columns.show({.head = "limited by", .words = true, .rank = 2}, [](const Row& row) { return limit_text(row.of); });
  columns.add("bound_ms", [](const Row& row) { return row.of.least_ns * 1e-6; })
      .shown({.head = "bound", .rank = 4}, [](const Row& row) { return format_time(row.of.least_ns); });
  columns.add("axonn_place", [](const Row& row) { return row.axonn_place; }, {.head = "AxoNN's place", .rank = 4});
  columns.add("exposed_ms", of_finalist([](const Configuration& each) { return exposed_ns(*each.report) * 1e-6; }));
  columns.add("limited_by", of_finalist([](const Configuration& each) { return limit_of(each).name; }));
  columns.add("rewrites_for_memory", of_finalist(rewrites_for_memory));
  return columns;
}

/// The times of one part of two finalists' steps.
struct StepPart {
  std::string name;
  double first_ns = 0, second_ns = 0;

  double difference_ns() const { return second_ns - first_ns; }
  double distance_ns() const { return std::abs(difference_ns()); }
};

constexpr std::string_view kExposed = " exposed", kAllExposed = "communication exposed";

constexpr double kNothing = 50;  // nanoseconds, which print as 0.0 us

std::string difference_text(const StepPart& part) {
  const double difference = part.difference_ns();
  if (part.distance_ns() < kNothing) return "0";
  return fmt::format("{}{}", difference < 0 ? "-" : "+", format_time(part.distance_ns()));
}

/// The parts that together make a step, or nearly so.
std::vector<StepPart> parts_of(const simulate::Report& one, const simulate::Report& other) {
  return {{"computing alone", one.first().alone.compute_ns, other.first().alone.compute_ns},
          {"slowed down by communication", one.simulation.ranks.front().contention_ns,
           other.simulation.ranks.front().contention_ns},
          {std::string(kAllExposed), exposed_ns(one), exposed_ns(other)}};
}

/// The exposed and the whole time of each channel that one of the steps has, by turns.
std::vector<StepPart> channels_of(const simulate::Report& one, const simulate::Report& other) {
  std::vector<StepPart> parts;
  const auto channel_in = [](const simulate::Report& report, const std::string& stream) {
    const auto found = std::ranges::find(report.first().channels, stream, &simulate::ChannelTimes::stream);
    return found == report.first().channels.end() ? simulate::ChannelTimes{} : *found;
  };
  const auto add = [&](const std::string& stream) {
    const simulate::ChannelTimes first = channel_in(one, stream), second = channel_in(other, stream);
    parts.push_back({stream + std::string(kExposed), first.exposed_ns, second.exposed_ns});
    parts.push_back({stream + " busy", first.busy_ns, second.busy_ns});
  };
  for (const simulate::ChannelTimes& channel : one.first().channels) add(channel.stream);
  for (const simulate::ChannelTimes& channel : other.first().channels) {
    if (std::ranges::find(one.first().channels, channel.stream, &simulate::ChannelTimes::stream) ==
        one.first().channels.end()) {
      add(channel.stream);
    }
  }
  return parts;
}

/// The best configuration on another grid than the first, or else with other options; nullptr: there is only one.
const Configuration* runner_up(const SearchResult& result) {
  const std::vector<Configuration>& all = result.configurations;
  if (all.size() < 2) return nullptr;
  graph::Grid chosen = all.front().setup.grid;
  const auto other = std::ranges::find_if(all, [&](const Configuration& each) {
    chosen.order = each.setup.grid.order;  // an order isn't another grid
    return each.setup.grid != chosen;
  });
  return other == all.end() ? &all[1] : &*other;
}

/// "x=1,y=1,z=1,data=2, micro-batch 4: +793.4 us (0.2 %), 68.2 MiB a rank; computing alone +815.7 us".
std::string loss_text(const Configuration& best, const Configuration& other) {
  if (!best.exact || !other.exact) {
    return fmt::format("{}: estimated, {} and {} a rank", to_string(other.setup), format_time(other.step_ns),
                       bytes_text(other.memory_bytes));
  }
  const StepPart step{"", best.step_ns, other.step_ns};
  std::string text = fmt::format("{}: {} ({:.1f} %), {} a rank", to_string(other.setup), difference_text(step),
                                 100 * step.difference_ns() / best.step_ns, bytes_text(other.memory_bytes));
  if (has_messages(best) || has_messages(other)) return text;
  std::vector<StepPart> channels = channels_of(*best.report, *other.report);
  std::erase_if(channels, [](const StepPart& part) { return !part.name.ends_with(kExposed); });
  const auto most = std::ranges::max_element(channels, {}, &StepPart::distance_ns);
  std::vector<std::string> parts;
  for (const StepPart& part : parts_of(*best.report, *other.report)) {
    if (part.distance_ns() < kNothing) continue;
    parts.push_back(part.name + " " + difference_text(part));
    if (part.name != kAllExposed || most == channels.end() || most->distance_ns() < kNothing) continue;
    const std::string channel = most->name.substr(0, most->name.size() - kExposed.size());
    parts.back() += fmt::format(" ({} {})", channel, difference_text(*most));
  }
  return parts.empty() ? text : fmt::format("{}; {}", text, fmt::join(parts, ", "));
}

/// Why the included grid isn't the first.
std::string included_text(const SearchResult& result) {
  const std::string grid = graph::to_string(result.included->grid);
  const std::size_t number = included_number(result);
  if (number == 0) return fmt::format("{} has no configuration: {}", grid, result.included->reason);
  const Configuration &best = result.configurations.front(), &own = result.configurations[number - 1];
  if (number == 1) return fmt::format("{} is the fastest", grid);
  return fmt::format("{} is number {}: {}", grid, number, loss_text(best, own));
}

/// What became of the choices.
std::vector<std::string> counts_of(const SearchResult& result) {
  std::vector<std::string> counts = {
      fmt::format("{} take too much memory", result.too_large),
      fmt::format("{} are slower than the best by their bounds", result.too_slow),
      fmt::format("{} by one schedule of small steps", result.skimmed),
      fmt::format("{} were estimated from small steps (~; ≥: a bound that is above the estimate)", result.estimated)};
  if (result.dominated > 0) {
    counts.push_back(fmt::format("{} save memory that isn't short", result.dominated));
  }
  return counts;
}

StyledText search_text(const SearchResult& result, std::size_t most, const std::string& reasons,
                       std::optional<std::size_t> width) {
  StyledText text = table_text(columns_of(result).table(ranked(result, most)), width);
  const std::size_t shown = std::min(most, result.configurations.size());
  std::string notes = "\n";
  if (shown < result.configurations.size()) {
    notes += fmt::format("… and {} more: --top {} shows all\n", result.configurations.size() - shown,
                         result.configurations.size());
  }
  notes += fmt::format("{} choices: {}\n", result.choices, join(counts_of(result)));
  if (result.not_examined + result.not_planned > 0) {
    notes += fmt::format(
        "the time was over: {} choices weren't looked at, {} of the best estimates weren't planned whole; --max-time "
        "gives more\n",
        result.not_examined, result.not_planned);
  }
  if (result.included) notes += included_text(result) + "\n";
  if (!reasons.empty()) notes += "\n" + reasons;
  text.add(notes);
  return text;
}

JsonObject search_json(const SearchResult& result, std::size_t most) {
  JsonObject included;
  if (result.included) {
    included.add("grid", graph::to_string(result.included->grid)).add("number", included_number(result));
    included.add("why", included_text(result));
  }
  return JsonObject()
      .add("configurations", columns_of(result).json(ranked(result, most), Absent::left_out))
      .add("model", result.config.model.name)
      .add("machine", result.machine.name)
      .add("ranks", result.configurations.front().setup.grid.ranks())
      .add("choices", result.choices)
      .add("too_large", result.too_large)
      .add("too_slow", result.too_slow)
      .add("skimmed", result.skimmed)
      .add("dominated", result.dominated)
      .add("not_examined", result.not_examined)
      .add("not_planned", result.not_planned)
      .add("estimated", result.estimated)
      .add("included", included)
      .add("unsure_numbers", cost::unsure_numbers(result.machine));
}

inspect::Picture pareto_picture(const SearchResult& result) {
  constexpr double kFar = 3;  // times the best step: far from anything that would be chosen
  const double most = kFar * result.configurations.front().step_ns;
  const auto point = [](const Configuration& each) {
    return inspect::ChartPoint{
        .x = static_cast<double>(each.memory_bytes),
        .y = seconds_of(each),
        .tooltip = fmt::format("{}, {}: {}, {}{}", to_string(each.setup), each.policy, format_time(each.step_ns),
                               bytes_text(each.memory_bytes), each.exact ? "" : ", estimated")};
  };
  inspect::ChartSeries estimated{.name = "estimated", .color = "#b0c4de", .line = false},
      whole{.name = "planned whole", .color = "#1f77b4", .line = false},
      front{.name = "nothing beats it", .color = "#d62728", .radius = 5};
  for (const Configuration& each : result.configurations) {
    if (each.step_ns <= most) (each.exact ? whole : estimated).points.push_back(point(each));
  }
  for (const Configuration& each : pareto_front(result.configurations)) {
    if (each.step_ns <= most) front.points.push_back(point(each));
  }
  return inspect::chart_picture(
      {.title = fmt::format("{} on {} ranks of {}: step time against memory", result.config.model.name,
                            result.configurations.front().setup.grid.ranks(), result.machine.name),
       .x = {.title = "memory of a rank", .unit = inspect::ChartUnit::bytes},
       .y = {.title = "step", .unit = inspect::ChartUnit::seconds},
       .series = {estimated, whole, front}});
}

}  // namespace

std::string why_text(const SearchResult& result, std::size_t a, std::size_t b) {
  for (const std::size_t number : {a, b}) {
    const bool exists = number >= 1 && number <= result.configurations.size();
    if (exists && result.configurations[number - 1].exact) continue;
    throw UserError(
        fmt::format("--why names configuration {}, which {}", number, exists ? "was only estimated" : "doesn't exist"),
        "two numbers of the table's first rows, whose steps were planned whole",
        "more --finalists, or numbers of rows without ~");
  }
  const Configuration &first = result.configurations[a - 1], &second = result.configurations[b - 1];
  TextTable table{.columns = {{.head = "", .words = true},
                              {.head = fmt::format("{}", a)},
                              {.head = fmt::format("{}", b)},
                              {.head = "difference"}}};
  const auto row = [&](const std::string& name, const StepPart& part) {
    table.rows.push_back({name, format_time(part.first_ns), format_time(part.second_ns), difference_text(part)});
  };
  row("step", {"", first.step_ns, second.step_ns});
  if (has_messages(first) || has_messages(second)) {
    row(std::string(kAllExposed), {"", exposed_ns(*first.report), exposed_ns(*second.report)});
    row("idle for other stages", {"", idle_ns(first), idle_ns(second)});
  } else {
    const simulate::Report &one = *first.report, &other = *second.report;
    for (const StepPart& part : parts_of(one, other)) row(part.name, part);
    for (const StepPart& part : channels_of(one, other)) row("  " + part.name, part);
  }
  table.rows.push_back({"memory", bytes_text(first.memory_bytes), bytes_text(second.memory_bytes), ""});
  return fmt::format("{}: {}\n{}: {}\n\n{}", a, to_string(first.setup), b, to_string(second.setup),
                     table_text(table).plain());
}

StyledText setup_text(const SearchResult& result, const std::set<std::string, std::less<>>& kept,
                      std::optional<std::size_t> width) {
  std::vector<std::string> chosen;
  for (const std::string& key : searched_keys()) {
    if (!kept.contains(key)) chosen.push_back(key);
  }
  const std::vector<std::string> set_before(kept.begin(), kept.end());
  // The empty third column lets sentences take the rest of a line.
  TextTable table{.columns = {{.words = true}, {.words = true}, {}}, .heads = false};
  const auto add = [&](std::string_view name, const std::string& text) {
    table.rows.push_back({fmt::format("{:<9}", name), text});
  };
  const Configuration& best = result.configurations.front();
  const std::string about = best.exact ? "" : "~";
  add("grid", fmt::format("{}: {}{} a step and {}{} a rank by policy {}, predicted for {}", to_string(best.setup),
                          about, format_time(best.step_ns), about, bytes_text(best.memory_bytes), result.config.policy,
                          result.config.machine.empty() ? "a " + result.machine.name + ", as no machine is named"
                                                        : result.machine.name));
  if (const Configuration* other = runner_up(result)) add("", "next best " + loss_text(best, *other));
  add("", fmt::format("the best of {} choices of {}{}", result.choices, join(chosen),
                      kept.empty() ? "" : "; set: " + join(set_before)));
  return table_text(table, width);
}

Results results_of(const SearchResult& result, std::size_t most, const std::string& reasons) {
  return {.text = [&result, most,
                   reasons](std::optional<std::size_t> width) { return search_text(result, most, reasons, width); },
          .json = [&result, most, reasons] { return search_json(result, most).add("why", reasons); },
          .picture = [&result] { return pareto_picture(result); }};
}

}  // namespace weft::study
