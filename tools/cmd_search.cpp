// `weft search`: the fastest way to run a training step on a number of ranks of a machine.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/status_line.h"
#include "base/text/printable.h"
#include "base/text/text_table.h"
#include "runtime/cost/machine_files.h"
#include "runtime/cost/machine_numbers.h"
#include "study/search/search.h"
#include "study/search/search_output.h"
#include "tools/commands.h"
#include "tools/config_options.h"
#include "train/config/resolved_run.h"

namespace weft::tools {
namespace {

struct SearchCommand {
  train::RunConfig config;  // not yet resolved
  std::vector<std::string> kept, policies;
  std::vector<std::string> why;
  std::string output, svg;
  std::int64_t top = 10, finalists = 6;
  int jobs = 0;
  bool json = false, quiet = false;
};

/// Plans of finalists; the searching policy plans the best of them in addition.
const std::vector<std::string> kPolicies = {"program", "lhs"};
constexpr const char* kSearching = "portfolio:budget=0";

std::set<std::string, std::less<>> kept_keys(const SearchCommand& command) {
  std::set<std::string, std::less<>> kept;
  for (const std::string& key : command.kept) {
    const std::vector<std::string>& known = study::searched_keys();
    if (std::ranges::find(known, key) == known.end()) {
      throw UserError(fmt::format("--keep {} is no key that a search chooses", key),
                      fmt::format("{}", fmt::join(known, ", ")), "leave it out: all other keys stay as they are");
    }
    kept.insert(key);
  }
  return kept;
}

/// Filled in for one rank and one sequence, then given back its batch: a search chooses the rest. Rank count: that of
/// --ranks, else of the grid.
train::ResolvedRun open_run(const SearchCommand& command, std::int64_t& ranks) {
  train::ResolvedRun run = train::read_texts(command.config);
  const train::RunConfig& given = command.config;
  ranks = std::max(given.ranks, given.grid.ranks());
  run.config.grid = {};
  run.config.ranks = 1;
  run.config.global_batch = run.config.micro_batch = 1;
  train::fill_in(run.config, 0);
  run.config.grid = given.grid;
  run.config.global_batch = given.global_batch;
  run.config.micro_batch = given.micro_batch;
  run.config.run_dir = given.run_dir;
  run.config.threads = given.threads;
  for (const plan::Rewrite& rewrite : run.config.rewrites) {
    const auto* recompute = std::get_if<plan::RecomputeLayers>(&rewrite);
    const auto* reshard = std::get_if<plan::ReshardAfterForward>(&rewrite);
    if ((recompute != nullptr && !recompute->layers.empty()) || (reshard != nullptr && !reshard->layers.empty())) {
      throw UserError(fmt::format("rewrite {} names layers", plan::to_string(rewrite)), "rewrites of all layers",
                      "leave it out: a search compares steps of fewer layers");
    }
  }
  if (!run.machine) {
    run.machine = std::make_shared<const cost::Machine>(cost::find_machine("laptop", cost::machine_folders()));
    run.config.machine = "laptop";
  }
  return run;
}

study::SearchOptions options_of(const SearchCommand& command, std::int64_t ranks) {
  study::SearchOptions options;
  options.ranks = ranks;
  options.kept = kept_keys(command);
  const bool own = !command.policies.empty();
  for (const std::string& name : own ? command.policies : kPolicies) {
    options.policies.push_back(policy::named_policy(name, command.config.libraries));
  }
  if (!own) options.searching = policy::named_policy(kSearching);
  options.finalists = static_cast<std::size_t>(command.finalists);
  options.threads =
      command.jobs > 0 ? command.jobs : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return options;
}

/// The numbers of two rows; empty if none were asked for.
std::vector<std::size_t> rows_of_why(const SearchCommand& command) {
  std::vector<std::size_t> rows;
  for (const std::string& text : command.why) {
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size() && number > 0) rows.push_back(number);
  }
  if (rows.size() != command.why.size() || (!rows.empty() && rows.size() != 2)) {
    throw UserError(fmt::format("--why {}", fmt::join(command.why, " ")), "two numbers of the table's rows",
                    "--why 1 2");
  }
  return rows;
}

int search(const SearchCommand& command) {
  for (const std::string& file : {command.output, command.svg}) {
    if (!file.empty()) expect_writable(file);
  }
  const std::vector<std::size_t> why = rows_of_why(command);
  std::int64_t ranks = 0;
  const train::ResolvedRun run = open_run(command, ranks);
  const study::SearchOptions options = options_of(command, ranks);
  const study::SearchResult result = [&] {
    StatusLine line(!command.json && !command.quiet);
    return study::search_configurations(run, options, [&](const Status& status) { line.show(status); });
  }();
  const auto top = static_cast<std::size_t>(command.top);
  const std::string reasons = why.empty() ? "" : study::why_text(result, why[0], why[1]);
  if (!command.output.empty()) {
    write_durable(command.output, train::dump_toml(study::config_of(result, result.configurations.front())),
                  Named::by_person);
  }
  if (!command.svg.empty()) write_durable(command.svg, study::pareto_picture(result).svg(), Named::by_person);
  if (command.json) {
    say("{}\n", study::search_json(result, top)
                    .add("unsure_numbers", cost::unsure_numbers(result.machine))
                    .add("why", reasons)
                    .text());
    return 0;
  }
  say(stdout, study::search_text(result, top, output_width()));
  if (!reasons.empty()) say("\n{}", reasons);
  const std::vector<std::string> unsure = cost::unsure_numbers(result.machine);
  if (!run.profile && !unsure.empty()) say("{} {}\n", result.machine.name + ":", cost::unsure_text(unsure));
  if (!command.output.empty()) {
    say("{}: the first of them; `weft simulate {}`, `weft train {}`\n", command.output, command.output, command.output);
  }
  return 0;
}

}  // namespace

Command describe_search() {
  Command command{"search", "find the fastest grid, micro-batch, recomputation and policy for a number of ranks"};
  const auto options = std::make_shared<SearchCommand>();
  command.add({.names = "-o,--output",
               .target = &options->output,
               .value = "FILE.toml",
               .help = "write the best configuration, to train, simulate and compare",
               .paths = Paths::files});
  command.add({.names = "--top", .target = &options->top, .value = "N", .help = "rows of the table", .least = 1});
  command.add({.names = "--keep",
               .target = &options->kept,
               .value = "KEY",
               .help = "keys that stay as the configuration has them: grid, axis-order, micro-batch, recompute, "
                       "reshard-after-forward, zero-1"});
  command.add(
      {.names = "--policies",
       .target = &options->policies,
       .value = "POLICY",
       .help = "policies that plan every finalist; default: program and lhs, and portfolio:budget=0 for the best"});
  command.add({.names = "--finalists",
               .target = &options->finalists,
               .value = "N",
               .help = "steps that are planned and simulated whole",
               .least = 1,
               .most = 10'000});
  command.add({.names = "--why",
               .target = &options->why,
               .value = "N",
               .help = "two rows of the table: say where their steps differ"});
  command.add({.names = "--svg",
               .target = &options->svg,
               .value = "FILE.svg",
               .help = "draw step time against memory, with the front that no other configuration beats",
               .paths = Paths::files});
  command.add({.names = "--jobs",
               .target = &options->jobs,
               .value = "N",
               .help = "threads; 0: all cores",
               .least = 0,
               .most = 4096});
  command.add({.names = "--json", .target = &options->json, .help = "print the configurations as JSON"});
  command.add({.names = "--quiet", .target = &options->quiet, .help = "print only the result and errors"});
  const ConfigOptions config(command);
  command.description =
      "Tries every grid of x, y, z and data with --ranks ranks, the order of its axes, the micro-batch, recomputation, "
      "resharding and ZeRO-1, within the memory of a device. Bounds on memory and time drop most choices; the others "
      "are estimated from steps of few layers, and the best are planned and simulated whole.";
  command.examples = {{"weft search --model gpt-80b --machine perlmutter --ranks 1024 --global-batch 1024 --dtype bf16 "
                       "--reduce-dtype bf16 -o best.toml"},
                      {"weft search --model gpt2-124m --machine dgx-h100 --ranks 8 --global-batch 64 --why 1 2"},
                      {"weft search run.toml --ranks 6 --keep micro-batch recompute --json"}};
  command.run = [options, config] {
    options->config = config.load();
    if (config.dump()) return print_config(options->config);
    return search(*options);
  };
  return command;
}

}  // namespace weft::tools
