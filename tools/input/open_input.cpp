#include "tools/input/open_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "inspect/formats/graph_file.h"
#include "runtime/simulate/open_what_if.h"
#include "train/config/resolved_run.h"

namespace weft::tools {
namespace {

constexpr std::array<std::string_view, 6> kKeys = {"machine", "policy", "memory", "streams", "seed", "dtype"};

std::optional<std::size_t> class_named(const graph::OpenGraph& graph, const std::string& wanted) {
  if (wanted.empty()) return std::nullopt;
  const std::optional<std::int64_t> rank = number_in<std::int64_t>(wanted);
  std::vector<std::string> known;
  for (std::size_t i = 0; i < graph.classes.size(); ++i) {
    const graph::OpenClass& one = graph.classes[i];
    const bool has_rank = rank && std::ranges::binary_search(one.ranks, *rank);
    if (one.name == wanted || has_rank) return i;
    known.push_back(one.name.empty() ? std::string("the only one") : one.name);
  }
  throw UserError(fmt::format("--class {}: no class has that name or rank", wanted),
                  fmt::format("one of {}, or a rank in one of them", join(known)), "leave --class out for all of them");
}

}  // namespace

void refuse_without_graph_file(const OpenFlags& flags) {
  const std::string flag = flags.given();
  if (flag.empty()) return;
  throw UserError(flag + " without a graph file", "NAME.graph.json, an open graph", fmt::format("leave {} out", flag));
}

void refuse_for_open_graph(std::string_view flag, std::string_view why) {
  throw UserError(fmt::format("{} with a graph file", flag), why, fmt::format("leave {} out", flag));
}

std::string OpenFlags::given() const {
  return !wanted.empty()        ? "--class"
         : !kept.empty()        ? "--keep-order"
         : !bandwidths.empty()  ? "--bandwidth"
         : no_host              ? "--no-host"
         : bucket_mb > 0        ? "--bucket-mb"
         : !recorded_on.empty() ? "--recorded-on"
                                : "";
}

std::vector<CommandOption> open_options(OpenFlags& flags) {
  std::vector<CommandOption> options = {
      {.names = "--class",
       .target = &flags.wanted,
       .value = "NAME|RANK",
       .help = "the class of ranks to take, without the others; default: all, which wait for each other"},
      {.names = "--keep-order",
       .target = &flags.kept,
       .value = "ORDER",
       .help = "the recorded order of streams that holds under every policy; known: that of work whose data the file "
               "doesn't tell; computations: collectives may change places; none: whatever no other edge forbids",
       .default_text = "known",
       .choices = {"all", "known", "computations", "none"}},
      {.names = "--bandwidth",
       .target = [&flags](const std::string& value) { flags.bandwidths.push_back(cost::parse_bandwidth(value)); },
       .value = "[CHANNEL=]FACTOR",
       .help = "simulate a network that is FACTOR times as fast; may be repeated",
       .arity = Arity::each},
      {.names = "--no-host",
       .target = &flags.no_host,
       .help = "what if launches and other work of CPU threads took no time, as in one CUDA graph?"},
      {.names = "--bucket-mb",
       .target = &flags.bucket_mb,
       .value = "X",
       .help = "what if collectives of a kind were joined until each sends so many MB? 0: they stay as they are",
       .least = 0,
       .most = 1e6},
      {.names = "--recorded-on",
       .target = &flags.recorded_on,
       .value = "MACHINE",
       .help = "the machine of the recorded times, which become those of --machine by the two machines' rates"}};
  for (CommandOption& option : options) option.group = "Graph files";
  return options;
}

namespace {

/// On what a policy's gain over the recorded step rests.
std::string note_on_order(const OpenInput& input, graph::KeptOrder kept) {
  graph::FreeOrder free;
  for (std::size_t k = 0; k < input.graph.classes.size(); ++k) {
    if (!input.has_class(k)) continue;
    const graph::FreeOrder of_class = graph::free_order(input.graph.classes[k], kept);
    free.known += of_class.known;
    free.assumed += of_class.assumed;
    free.recorded += of_class.recorded;
  }
  const std::int64_t moved = free.known + free.assumed;
  if (moved == 0) return "";
  if (free.assumed == 0) {
    return fmt::format("{} of {} recorded neighbours and waits needn't be kept, as the file tells their data", moved,
                       free.recorded);
  }
  return fmt::format(
      "{}, which isn't feasible for sure: {} of {} neighbours and waits that needn't be kept may be for data; policies "
      "show what could be gained at best",
      kept == graph::KeptOrder::computations ? "the recorded order of collectives isn't kept"
                                             : "no recorded order of streams is kept",
      free.assumed, moved);
}

}  // namespace

std::vector<std::string> OpenSettings::words() const {
  std::vector<std::string> words;
  const auto add = [&](const std::string& flag, const std::string& value) { words.insert(words.end(), {flag, value}); };
  if (!flags.wanted.empty()) add("--class", flags.wanted);
  if (!flags.kept.empty()) add("--keep-order", flags.kept);
  for (const cost::NamedFactor& each : flags.bandwidths) {
    add("--bandwidth", fmt::format("{}={}", each.pattern, each.factor));
  }
  if (flags.no_host) words.emplace_back("--no-host");
  if (flags.bucket_mb > 0) add("--bucket-mb", fmt::format("{}", flags.bucket_mb));
  if (!flags.recorded_on.empty()) add("--recorded-on", flags.recorded_on);
  for (const train::Setting& setting : settings) {
    add(setting.source, setting.source == "--set" ? fmt::format("{}={}", setting.key, setting.value) : setting.value);
  }
  return words;
}

std::string OpenInput::title() const {
  std::string text = fmt::format("step of {} classes", graph.classes.size());
  if (problem.classes.size() == 1) {
    const std::string& name = graph.classes[class_index].name;
    text = name.empty() ? "step of a rank" : fmt::format("step of class '{}'", name);
  }
  if (!graph.name.empty()) text += " of " + graph.name;
  std::size_t ranks = 0;
  for (std::size_t k = 0; k < graph.classes.size(); ++k) {
    if (has_class(k)) ranks += graph.classes[k].ranks.size();
  }
  if (ranks > 0) text += fmt::format(" ({} of {} ranks)", ranks, graph.world);
  return text;
}

std::int64_t OpenInput::place_of(std::int64_t rank) const {
  std::int64_t before = 0;
  std::vector<std::string> known;
  for (std::size_t k = 0; k < graph.classes.size(); ++k) {
    if (!has_class(k)) continue;
    std::vector<std::int64_t> ranks = graph.classes[k].ranks;
    if (ranks.empty()) ranks = {before};  // nobody says which rank it is
    const auto found = std::ranges::find(ranks, rank);
    if (found != ranks.end()) return before + (found - ranks.begin());
    before += std::ssize(ranks);
    const std::string last = ranks.size() > 1 ? fmt::format(" to {}", ranks.back()) : "";
    known.push_back(fmt::format("{}{}", ranks.front(), last));
  }
  throw UserError(fmt::format("rank {} isn't in the step", rank), "one of its ranks: " + join(known),
                  "another rank, or an import of this one's trace, too");
}

double OpenInput::recorded_ns() const {
  double longest = 0;
  for (std::size_t k = 0; k < graph.classes.size(); ++k) {
    if (has_class(k)) longest = std::max(longest, graph.classes[k].recorded_ns);
  }
  return longest;
}

graph::OpenGraph OpenInput::taken() const {
  graph::OpenGraph taken;
  taken.channels = graph.channels;
  for (std::size_t k = 0; k < graph.classes.size(); ++k) {
    if (has_class(k)) taken.classes.push_back(graph.classes[k]);
  }
  return taken;
}

bool OpenInput::is_recorded(const simulate::Report& report) const {
  return report.planned() && report.policy.name == "recorded" && recorded_ns() > 0;
}

std::optional<inspect::StepVerdict> OpenInput::verdict(const simulate::Report& report) const {
  if (!is_recorded(report)) return std::nullopt;
  const graph::OpenGraph step = taken();
  std::vector<double> lengths;
  for (std::size_t k = 0; k < step.classes.size(); ++k) {
    const std::vector<double>& ns = report.costs[k].ns;
    if (ns.size() != step.classes[k].tasks.size()) return std::nullopt;
    lengths.insert(lengths.end(), ns.begin(), ns.end());
  }
  inspect::StepVerdict verdict = inspect::judge_step(step, lengths);
  if (!as_recorded) verdict.off.clear();
  return verdict;
}

std::string OpenInput::reason_far_off(const simulate::Report& report) const {
  return as_recorded && is_recorded(report) ? inspect::reason_far_off(taken(), report.step_ns()) : "";
}

namespace {

void apply_what_ifs(const OpenSettings& settings, const train::ResolvedRun& run, graph::OpenGraph& graph) {
  const OpenFlags& flags = settings.flags;
  if (!flags.recorded_on.empty()) {
    if (!run.machine) {
      throw UserError(fmt::format("--recorded-on {} without --machine", flags.recorded_on),
                      "the machine on which the step is to run", "add --machine NAME");
    }
    const cost::Machine from = cost::find_machine(flags.recorded_on, cost::machine_folders());
    simulate::move_to_machine(graph, from, *run.machine,
                              run.config.given.contains("dtype") ? run.config.dtype : DType::bf16);
  }
  if (flags.no_host) simulate::take_host_away(graph);
  for (const std::string& pattern : settings.gone) simulate::take_tasks_away(graph, pattern);
  if (flags.bucket_mb > 0 && simulate::join_buckets(graph, flags.bucket_mb * 1e6) == 0) {
    throw UserError(fmt::format("--bucket-mb {}: no collectives can be joined to send so much", flags.bucket_mb),
                    "collectives with network_bytes that follow each other, and more MB than one of them sends",
                    "a greater number, or leave --bucket-mb out");
  }
}

}  // namespace

OpenInput open_input(const OpenSettings& settings) {
  return open_input(inspect::read_graph_file(settings.file), settings);
}

OpenInput open_input(graph::OpenGraph graph, const OpenSettings& settings) {
  train::RunConfig config = settings.config;
  for (const train::Setting& setting : settings.settings) {
    if (std::ranges::find(kKeys, setting.key) != kKeys.end()) continue;
    refuse_for_open_graph(
        setting.source == "--set" ? "--set " + setting.key : setting.source,
        fmt::format("one of --{}: the file has the step's graph, and no model or grid", fmt::join(kKeys, ", --")));
  }
  train::apply_command_line(config, settings.settings);
  const bool names_policy = config.given.contains("policy");
  train::ResolvedRun run = train::read_texts(std::move(config));
  OpenInput input;
  input.graph = std::move(graph);
  apply_what_ifs(settings, run, input.graph);
  simulate::OpenChoices choices;
  choices.of_class = class_named(input.graph, settings.flags.wanted);
  input.class_index = choices.of_class.value_or(0);
  choices.kept = graph::find_kept_order(settings.flags.kept).value_or(graph::KeptOrder::known);
  choices.bandwidths = settings.flags.bandwidths;
  if (run.machine) choices.machine = *run.machine;
  if (run.config.given.contains("dtype")) choices.dtype = run.config.dtype;
  if (run.config.given.contains("streams")) choices.compute_streams = static_cast<int>(run.config.streams);
  choices.options.memory =
      run.config.memory.value_or(run.machine ? static_cast<std::int64_t>(run.machine->memory_bytes) : 0);
  choices.options.seed = run.config.seed;
  input.problem = simulate::open_problem(input.graph, choices);
  input.policy = names_policy ? run.policy : simulate::default_open_policy(input.problem.first());
  input.has_machine = run.machine != nullptr;
  input.as_recorded = settings.gone.empty() && settings.flags.bandwidths.empty() && !settings.flags.no_host &&
                      settings.flags.bucket_mb == 0 && settings.flags.recorded_on.empty();
  input.order_note = note_on_order(input, choices.kept);
  return input;
}

}  // namespace weft::tools
