#include "tools/input/open_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "inspect/formats/graph_file.h"
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
  return !wanted.empty() ? "--class" : !kept.empty() ? "--keep-order" : !bandwidths.empty() ? "--bandwidth" : "";
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
       .help = "the recorded order of streams that holds under every policy; computations: collectives may change "
               "places; none: whatever no other edge forbids",
       .default_text = "all",
       .choices = {"all", "computations", "none"}},
      {.names = "--bandwidth",
       .target = [&flags](const std::string& value) { flags.bandwidths.push_back(cost::parse_bandwidth(value)); },
       .value = "[CHANNEL=]FACTOR",
       .help = "simulate a network that is FACTOR times as fast; may be repeated",
       .arity = Arity::each}};
  for (CommandOption& option : options) option.group = "Graph files";
  return options;
}

namespace {

std::string note_on_order(const graph::OpenClass& one, graph::KeptOrder kept) {
  if (kept == graph::KeptOrder::all || !graph::has_stream_order(one)) return "";
  const std::string what = kept == graph::KeptOrder::computations ? "the recorded order of collectives isn't kept"
                                                                  : "no recorded order of streams is kept";
  return what + (graph::knows_data(one)
                     ? ""
                     : ", and the file doesn't tell which work needs which data: other policies show what another "
                       "order could give at best");
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

double OpenInput::recorded_ns() const {
  double longest = 0;
  for (std::size_t k = 0; k < graph.classes.size(); ++k) {
    if (has_class(k)) longest = std::max(longest, graph.classes[k].recorded_ns);
  }
  return longest;
}

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
  simulate::OpenChoices choices;
  choices.of_class = class_named(input.graph, settings.flags.wanted);
  input.class_index = choices.of_class.value_or(0);
  choices.kept = graph::find_kept_order(settings.flags.kept).value_or(graph::KeptOrder::all);
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
  input.order_note = note_on_order(input.graph.classes[input.class_index], choices.kept);
  return input;
}

}  // namespace weft::tools
