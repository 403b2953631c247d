#include "tools/explanation_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "runtime/cost/machine_numbers.h"
#include "runtime/simulate/bubbles.h"

namespace weft::tools {
namespace {

// Paragraphs of a text before it only counts.
constexpr std::size_t kMostParagraphs = 12;
constexpr double kLeastShown = 1000;  // as ExplainOptions::least_ns

double ms(double ns) {
  return ns * 1e-6;
}

/// "-0.013 ms": by how much a step changes. Less than can be printed is no gain.
std::string gain_text(double gain_ns) {
  return gain_ns >= simulate::kLeastGain ? fmt::format("{:+.3f} ms", -ms(gain_ns)) : "no gain";
}

std::string bytes_text(std::int64_t bytes) {
  return (bytes < 0 ? "-" : "+") + human_bytes(static_cast<std::uint64_t>(std::abs(bytes)));
}

/// Rows of a label and a text that continues below itself.
StyledText lines(std::vector<std::vector<std::string>> rows, std::optional<std::size_t> width) {
  return table_text({.columns = {{.words = true}, {.words = true}, {}}, .rows = std::move(rows), .heads = false},
                    width);
}

/// Rows of a number to choose a remedy by, its gain, and what it changes.
StyledText remedy_lines(std::vector<std::vector<std::string>> rows, std::optional<std::size_t> width) {
  return table_text({.columns = {{}, {}, {.words = true}, {}}, .rows = std::move(rows), .heads = false}, width);
}

/// `members`, `exposed_ns`: of its group.
std::string remedy_text(const simulate::Remedy& remedy, std::size_t members, double exposed_ns) {
  std::string text = remedy.what;
  if (remedy.kind == simulate::RemedyKind::no_time) {
    text = remedy.collectives == 1 ? "if it took no time at all" : "if they took no time at all";
  }
  if (remedy.kind == simulate::RemedyKind::rewrite) text = fmt::format("--rewrites \"{}\"", remedy.what);
  std::vector<std::string> notes;
  if (members > 1) {
    const std::string count = remedy.collectives == members ? fmt::format("all {}", members)
                                                            : fmt::format("{} of {}", remedy.collectives, members);
    const bool gains = remedy.gains() || remedy.alone_ns >= simulate::kLeastGain;
    notes.push_back(remedy.collectives > 1 && gains
                        ? fmt::format("{}; {} for the worst alone", count, gain_text(remedy.alone_ns))
                        : count);
  }
  const bool can_be_had = remedy.kind != simulate::RemedyKind::no_time;
  if (members > 0 && can_be_had && remedy.gain_ns > 1.05 * exposed_ns) {
    notes.emplace_back("more than is exposed here, since others gain too");
  }
  if (remedy.computations > 1) notes.push_back(fmt::format("{} computations move", remedy.computations));
  if (std::abs(remedy.memory_bytes) >= 1 << 20) notes.emplace_back(bytes_text(remedy.memory_bytes) + " of memory");
  if (!remedy.fits && !remedy.moves.empty()) notes.emplace_back("more than the plan may take");
  return notes.empty() ? text : fmt::format("{} ({})", text, join(notes, "; "));
}

std::vector<std::string> remedy_row(const simulate::Remedy& remedy, std::size_t members = 0, double exposed_ns = 0) {
  return {remedy.number > 0 ? fmt::format("{:>3}", remedy.number) : "   ", gain_text(remedy.gain_ns),
          remedy_text(remedy, members, exposed_ns)};
}

StyledText paragraph(const ExplainedStep& step, const simulate::ExposureGroup& group,
                     std::optional<std::size_t> width) {
  const simulate::ExposedCollective& worst = step.explanation.collectives[group.members.front()];
  const graph::Graph& graph = step.own().graph();
  const graph::Task& task = graph.task(worst.task);
  const std::string kind =
      fmt::format("{} on {}", graph::kind_name(task.operation), graph.channel_name(*graph::channel_of(task.operation)));
  const bool one = group.members.size() == 1;
  StyledText text;
  text.add("\n").add(group.name, Emphasis::heading);
  text.add(fmt::format(" ({}{}): {:.3f} ms exposed\n", kind, one ? "" : fmt::format(", ×{}", group.members.size()),
                       ms(group.exposed_ns)));
  text.add(
      lines({{"    cause", std::string(simulate::to_string(worst.cause))},
             {one ? "    time" : "    worst", fmt::format("{}{:.3f} of {:.3f} ms exposed", one ? "" : task.name + ", ",
                                                          ms(worst.exposed_ns), ms(worst.duration_ns))},
             {"    why", worst.because}},
            width));
  if (const std::string_view purpose = simulate::purpose_of(task.operation); !purpose.empty()) {
    text.add(lines({{"    what", std::string(purpose)},
                    {"    also",
                     "another policy (weft compare), a smaller expert or context of the grid, or faster "
                     "links may shorten it"}},
                   width));
  }
  std::vector<std::vector<std::string>> rows;
  for (const simulate::Remedy& remedy : group.remedies) {
    rows.push_back(remedy_row(remedy, group.members.size(), group.exposed_ns));
  }
  if (rows.empty()) {
    return text.add(
        lines({{"    tried", "no remedies yet: raise --most, or ask for this group with --collective"}}, width));
  }
  return text.add(remedy_lines(std::move(rows), width));
}

/// By phase, and in it by kind of task, the longest first.
StyledText path_text(const std::vector<simulate::PathPiece>& path, std::optional<std::size_t> width) {
  std::vector<std::vector<std::string>> rows;
  for (const graph::Phase phase : {graph::Phase::forward, graph::Phase::backward, graph::Phase::update}) {
    std::vector<simulate::PathPiece> kinds;
    double sum = 0;
    for (const simulate::PathPiece& piece : path) {
      if (piece.phase != phase) continue;
      auto known = std::ranges::find(kinds, piece.kind, &simulate::PathPiece::kind);
      if (known == kinds.end()) known = kinds.insert(kinds.end(), {piece.kind, phase, piece.first, "", 0, 0});
      known->tasks += piece.tasks;
      known->ns += piece.ns;
      sum += piece.ns;
    }
    if (kinds.empty()) continue;
    std::ranges::stable_sort(kinds, std::greater{}, &simulate::PathPiece::ns);
    std::string text;
    for (const simulate::PathPiece& kind : kinds) {
      text += fmt::format("{}{:.3f} in {} {}", text.empty() ? "" : ", ", ms(kind.ns), kind.tasks, kind.kind);
    }
    rows.push_back({fmt::format("  {}", graph::to_string(phase)), fmt::format("{:.3f} ms", ms(sum)), text});
  }
  return table_text({.columns = {{.words = true}, {}, {.words = true}, {}}, .rows = std::move(rows), .heads = false},
                    width);
}

StyledText totals(const ExplainedStep& step, std::optional<std::size_t> width) {
  const simulate::Report& report = step.report;
  const simulate::Explanation& explanation = step.explanation;
  std::vector<std::vector<std::string>> rows = {
      {"policy", report.policy.name},
      {"step", fmt::format("{:.3f} ms, {:.1f} % above the bound of {:.3f} ms", ms(report.step_ns()), 100 * report.gap(),
                           ms(report.bounds.best()))},
      {"communication",
       fmt::format("{:.3f} ms of the step, {:.3f} ms of it exposed, by all {} collectives",
                   ms(step.own().times.communication), ms(step.own().times.exposed), explanation.of_plan)}};
  std::string shown =
      fmt::format("{} collectives, {} {}; each is exposed for {:.3f} ms or more", explanation.collectives.size(),
                  explanation.groups.size(), explanation.groups.size() == 1 ? "group" : "groups", ms(kLeastShown));
  if (explanation.collectives.empty()) {
    shown = fmt::format("no collective, since none is exposed for {:.3f} ms or more", ms(kLeastShown));
  } else if (!step.only.empty()) {
    shown = fmt::format("{} of these collectives alone, by the name {}; exposed for {:.3f} ms in all",
                        explanation.collectives.size(), step.only, ms(explanation.exposed_ns()));
  }
  rows.push_back({"explained", shown});
  if (const std::string order = report.order_for_memory(); !order.empty()) {
    rows.push_back({"order", fmt::format("{}, since {}'s own takes too much memory", order, report.policy.name)});
  }
  if (const std::string rewrites = report.rewrites_for_memory(); !rewrites.empty()) {
    rows.push_back({"rewrites", fmt::format("{}, chosen by {} to fit the memory", rewrites, report.policy.name)});
  }
  return lines(std::move(rows), width);
}

/// The best remedies of two groups: "1,4".
std::string example_numbers(const simulate::Explanation& explanation) {
  std::vector<std::string> numbers;
  for (const simulate::ExposureGroup& group : explanation.groups) {
    const auto best = std::ranges::find_if(group.remedies, [](const auto& remedy) { return remedy.number > 0; });
    if (best != group.remedies.end() && numbers.size() < 2) numbers.push_back(std::to_string(best->number));
  }
  if (numbers.empty() && explanation.remedies() > 0) numbers.emplace_back("1");
  return join(numbers, ",");
}

StyledText applied_text(const ExplainedStep& step, std::optional<std::size_t> width) {
  const simulate::AppliedRemedies& applied = *step.applied;
  std::vector<std::string> numbers;
  for (const int number : applied.numbers) numbers.push_back(std::to_string(number));
  std::vector<std::vector<std::string>> rows = {
      {"applied", fmt::format("{} {}", numbers.size() == 1 ? "remedy" : "remedies", join(numbers))},
      {"step", fmt::format("{:.3f} ms, {:.3f} ms shorter (the sum of the gains above: {:.3f} ms), in {} of memory",
                           ms(applied.step_ns), ms(applied.gain_ns), ms(applied.promised_ns),
                           human_bytes(static_cast<std::uint64_t>(applied.memory_bytes)))}};
  if (!step.output.empty()) {
    rows.push_back(
        {"plan", fmt::format("{}, for --policy file:{} with the same configuration", step.output, step.output)});
  }
  return lines(std::move(rows), width);
}

JsonObject remedy_json(const simulate::Remedy& remedy) {
  JsonObject json;
  if (remedy.number > 0) json.add("number", remedy.number);
  return json.add("kind", simulate::identifier_of(remedy.kind))
      .add("what", remedy.what)
      .add("gain_ms", ms(remedy.gain_ns))
      .add("worst_alone_gain_ms", ms(remedy.alone_ns))
      .add("collectives", remedy.collectives)
      .add("computations_moved", remedy.computations)
      .add("memory_bytes", remedy.memory_bytes)
      .add("keeps_memory", remedy.fits);
}

JsonArray remedies_json(const std::vector<simulate::Remedy>& remedies) {
  JsonArray json;
  for (const simulate::Remedy& remedy : remedies) json.add(remedy_json(remedy));
  return json;
}

JsonObject collective_json(const graph::Graph& graph, const simulate::ExposedCollective& exposed) {
  const graph::Task& task = graph.task(exposed.task);
  const auto name = [&](graph::TaskId id) { return id.valid() ? JsonValue(graph.task(id).name) : JsonValue(nullptr); };
  return JsonObject()
      .add("name", task.name)
      .add("kind", graph::kind_name(task.operation))
      .add("channel", graph.channel_name(*graph::channel_of(task.operation)))
      .add("purpose", simulate::purpose_of(task.operation))
      .add("exposed_ms", ms(exposed.exposed_ns))
      .add("duration_ms", ms(exposed.duration_ns))
      .add("alone_ms", ms(exposed.alone_ns))
      .add("ready_ms", ms(exposed.ready_ns))
      .add("begin_ms", ms(exposed.begin_ns))
      .add("data_by", name(exposed.input))
      // Data that are there from the step's begin can't be late.
      .add("late_ms", exposed.input.valid() ? JsonValue(ms(exposed.late_ns())) : JsonValue(nullptr))
      .add("too_late_ms", ms(exposed.too_late_ns()))
      .add("cause", simulate::identifier_of(exposed.cause))
      .add("cause_text", simulate::to_string(exposed.cause))
      .add("in_the_way", name(exposed.in_the_way))
      .add("because", exposed.because);
}

JsonArray groups_json(const ExplainedStep& step) {
  JsonArray groups;
  for (const simulate::ExposureGroup& group : step.explanation.groups) {
    JsonArray members;
    for (const std::size_t i : group.members) {
      members.add(step.own().graph().task(step.explanation.collectives[i].task).name);
    }
    groups.add(JsonObject()
                   .add("name", group.name)
                   .add("cause", simulate::identifier_of(step.explanation.collectives[group.members.front()].cause))
                   .add("exposed_ms", ms(group.exposed_ns))
                   .add("members", members)
                   .add("remedies", remedies_json(group.remedies)));
  }
  return groups;
}

/// Gaps in order of length, at most so many.
std::vector<simulate::BubbleGap> longest(std::vector<simulate::BubbleGap> gaps, std::size_t most) {
  std::ranges::stable_sort(gaps, std::ranges::greater(), &simulate::BubbleGap::ns);
  if (gaps.size() > most) gaps.resize(most);
  return gaps;
}

/// The verdict, and below it the changes that help most, or `none` if no change does.
StyledText verdict_text(const study::Verdict& verdict, const char* none, std::optional<std::size_t> width) {
  std::vector<std::vector<std::string>> rows = {{"verdict", verdict.text}};
  for (const std::string& fact : verdict.facts) rows.push_back({"", fact});
  StyledText text = lines(std::move(rows), width);
  rows.clear();
  for (const study::Change& change : verdict.changes) {
    rows.push_back({change.number > 0 ? fmt::format("{:>3}", change.number) : "   ", gain_text(change.gain_ns),
                    change.note.empty() ? change.what : fmt::format("{} ({})", change.what, change.note)});
  }
  if (rows.empty()) return text.add(lines({{"remedies", none}}, width));
  return text.add(remedy_lines(std::move(rows), width));
}

JsonObject verdict_json(const study::Verdict& verdict) {
  JsonArray changes;
  for (const study::Change& change : verdict.changes) {
    JsonObject json;
    json.add("what", change.what).add("gain_ms", ms(change.gain_ns)).add("note", change.note);
    if (change.number > 0) json.add("number", change.number);
    changes.add(json);
  }
  return JsonObject()
      .add("bound_by", study::identifier_of(verdict.by))
      .add("busy_ms", ms(verdict.busy_ns))
      .add("text", verdict.text)
      .add("facts", verdict.facts)
      .add("changes", changes);
}

std::string title_of(const study::PolicyStep& step) {
  if (!step.run) return fmt::format("{} classes, policy {}", step.report.classes.size(), step.report.policy.name);
  const train::RunConfig& config = step.run->config;
  return fmt::format("{} on {} ranks ({}) of {}, policy {}: {} micro-batches through {} stages", config.model.name,
                     config.grid.ranks(), graph::to_string(config.grid), step.problem.machine.name,
                     step.report.policy.name, train::accumulation(config), config.pipeline.stages());
}

/// The groups, the critical path, and all remedies of the whole graph.
StyledText details(const ExplainedStep& step, std::optional<std::size_t> width) {
  const simulate::Explanation& explanation = step.explanation;
  StyledText text;
  const std::size_t shown = std::min(kMostParagraphs, explanation.groups.size());
  double rest = 0;
  for (std::size_t i = 0; i < explanation.groups.size(); ++i) {
    if (i < shown) text.add(paragraph(step, explanation.groups[i], width));
    if (i >= shown) rest += explanation.groups[i].exposed_ns;
  }
  if (shown < explanation.groups.size()) {
    text.add(
        fmt::format("\n… and {} more groups, exposed for {:.3f} ms\n", explanation.groups.size() - shown, ms(rest)));
  }
  text.add("\nWhat the step's length comes from, by phase:\n").add(path_text(explanation.path, width));
  const auto list = [&](std::string_view title, const std::vector<simulate::Remedy>& remedies) {
    std::vector<std::vector<std::string>> rows;
    for (const simulate::Remedy& remedy : remedies) rows.push_back(remedy_row(remedy));
    if (!rows.empty()) text.add("\n").add(title).add(":\n").add(remedy_lines(std::move(rows), width));
  };
  list("Computations moved from one pass into another, whose results stay in memory for longer",
       explanation.between_passes);
  list("Rewrites of the whole graph under this policy, which change no bit", explanation.rewrites);
  if (step.halved) {
    text.add("\nMicro-batches of half the size, which add gradients in another order and so change roundings:\n");
    text.add(remedy_lines(
        {{"   ", gain_text(step.halved->gain_ns), fmt::format("--micro-batch {}", step.halved->micro_batch)}}, width));
  }
  return text;
}

}  // namespace

StyledText explanation_text(const ExplainedStep& step, std::optional<std::size_t> width) {
  const simulate::Explanation& explanation = step.explanation;
  StyledText text = verdict_text(step.verdict, "none gains: neither moves nor other settings", width);
  text.add("\n").add(totals(step, width));
  if (step.whole) text.add(details(step, width));
  if (!step.whole) text.add(lines({{"more", "--all explains each group, and what else was tried"}}, width));
  if (explanation.remedies() > 0 || step.applied || !step.unsure.empty() || !step.summation_note.empty())
    text.add("\n");
  if (const std::string numbers = example_numbers(explanation); !numbers.empty() && !step.applied) {
    text.add(lines(
        {{"apply", fmt::format("--apply {} -o plan.json writes a plan with remedies, by their numbers", numbers)}},
        width));
  }
  if (step.applied) text.add(applied_text(step, width));
  if (!step.summation_note.empty()) text.add(lines({{"note", step.summation_note}}, width));
  if (!step.unsure.empty()) text.add(lines({{"machine", cost::unsure_text(step.unsure)}}, width));
  return text;
}

JsonObject explanation_json(const ExplainedStep& step) {
  const simulate::Report& report = step.report;
  JsonArray collectives, path;
  for (const simulate::ExposedCollective& exposed : step.explanation.collectives) {
    collectives.add(collective_json(step.own().graph(), exposed));
  }
  for (const simulate::PathPiece& piece : step.explanation.path) {
    path.add(JsonObject()
                 .add("kind", piece.kind)
                 .add("phase", graph::to_string(piece.phase))
                 .add("tasks", piece.tasks)
                 .add("first", piece.first)
                 .add("last", piece.last)
                 .add("ms", ms(piece.ns)));
  }
  JsonObject json;
  json.add("policy", report.policy.name)
      .add("order_for_memory", report.order_for_memory())
      .add("rewrites_for_memory", report.rewrites_for_memory())
      .add("step_ms", ms(report.step_ns()))
      .add("bound_ms", ms(report.bounds.best()))
      .add("verdict", verdict_json(step.verdict))
      .add("communication_ms", ms(step.own().times.communication))
      .add("exposed_ms", ms(step.own().times.exposed))
      .add("plan_collectives", step.explanation.of_plan)
      .add("explained_exposed_ms", ms(step.explanation.exposed_ns()))
      .add("collectives", collectives)
      .add("groups", groups_json(step))
      .add("path", path)
      .add("between_passes", remedies_json(step.explanation.between_passes))
      .add("rewrites", remedies_json(step.explanation.rewrites));
  if (step.halved) {
    json.add("halved",
             JsonObject().add("micro_batch", step.halved->micro_batch).add("gain_ms", ms(step.halved->gain_ns)));
  }
  if (step.applied) {
    json.add("applied", JsonObject()
                            .add("numbers", step.applied->numbers)
                            .add("step_ms", ms(step.applied->step_ns))
                            .add("gain_ms", ms(step.applied->gain_ns))
                            .add("promised_ms", ms(step.applied->promised_ns))
                            .add("memory_bytes", step.applied->memory_bytes));
  }
  json.add("files", step.output.empty() ? std::vector<std::string>() : std::vector<std::string>{step.output});
  return json.add("summation_note", step.summation_note).add("unsure_numbers", step.unsure);
}

study::Verdict bubble_verdict(const study::PolicyStep& step, std::vector<study::Change> settings) {
  const simulate::Report& report = step.report;
  const auto slowest = std::ranges::max_element(report.classes, {},
                                                [](const simulate::ClassReport& each) { return each.times.compute; });
  const auto stage = static_cast<std::size_t>(slowest - report.classes.begin());
  study::Verdict verdict = study::verdict_of(report, stage, {}, std::move(settings));
  std::array<double, simulate::kBubbleCauses> sums{};
  for (const auto& rank : simulate::bubble_sums(simulate::bubble_gaps(report), report.classes.size())) {
    for (std::size_t cause = 0; cause < sums.size(); ++cause) sums.at(cause) += rank.ns.at(cause);
  }
  const auto most = static_cast<std::size_t>(std::ranges::max_element(sums) - sums.begin());
  verdict.text +=
      fmt::format("; its ranks are idle for {:.1f} % of it, most of that because: {}",
                  100 * simulate::bubble_share(report.times()), to_string(static_cast<simulate::BubbleCause>(most)));
  return verdict;
}

std::string bubble_text(const study::PolicyStep& step, std::size_t most, const study::Verdict& verdict,
                        std::optional<std::size_t> width) {
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
      verdict_text(verdict, "no other setting gains; --pipe-rank RANK looks for moves in a stage", width).plain() +
      fmt::format("\n{}\nstep {}, bubble {:.1f} %: for what a rank waits while it doesn't compute\n\n", title_of(step),
                  format_time(report.step_ns()), 100 * simulate::bubble_share(report.times()));
  text += table_text(table, width).plain() + "\nThe longest gaps:\n";
  for (const simulate::BubbleGap& gap : longest(gaps, most)) text += "  " + simulate::to_string(gap, report) + "\n";
  return study::fitted(text, width);
}

JsonObject bubble_json(const study::PolicyStep& step, std::size_t most, const study::Verdict& verdict) {
  const simulate::Report& report = step.report;
  const std::vector<simulate::BubbleGap> gaps = simulate::bubble_gaps(report);
  std::vector<JsonObject> ranks, told;
  for (const simulate::BubbleSums& sums : simulate::bubble_sums(gaps, report.classes.size())) {
    JsonObject causes;
    for (std::size_t cause = 0; cause < simulate::kBubbleCauses; ++cause) {
      causes.add(json_key(static_cast<simulate::BubbleCause>(cause)), study::in_seconds(sums.ns.at(cause)));
    }
    ranks.push_back(JsonObject().add("idle_seconds", causes).add("fill_seconds", study::in_seconds(sums.fill_ns)));
  }
  for (const simulate::BubbleGap& gap : longest(gaps, most)) {
    told.push_back(JsonObject()
                       .add("rank", gap.stage)
                       .add("begin_seconds", study::in_seconds(gap.begin_ns))
                       .add("seconds", study::in_seconds(gap.ns()))
                       .add("cause", to_string(gap.cause))
                       .add("fill_seconds", study::in_seconds(gap.fill_ns))
                       .add("text", simulate::to_string(gap, report)));
  }
  JsonObject json;
  json.add("policy", report.policy.name).add("gap", report.gap()).add("memory_bytes", report.memory_bytes());
  study::add_step(json, step);
  json.add("verdict", verdict_json(verdict));
  return json.add("bubbles", ranks).add("longest_gaps", told);
}

}  // namespace weft::tools
