// `weft search`: the fastest way to run a training step on a number of ranks of a machine.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/printable.h"
#include "base/units.h"
#include "ops/model_flops.h"
#include "runtime/cost/machine_numbers.h"
#include "study/search/search_results.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"
#include "tools/studies/study_flags.h"
#include "train/config/resolved_run.h"

namespace weft::tools {
namespace {

struct SearchCommand {
  train::RunConfig config;  // not yet resolved
  SearchFlags flags;
  std::vector<std::string> why;
  std::string output;
  std::int64_t top = 10;
  ResultFlags results;
};

/// The numbers of two rows; empty if none were asked for.
std::vector<std::size_t> rows_of_why(const SearchCommand& command) {
  constexpr double kMost = 1e9;
  std::vector<std::size_t> rows;
  for (const std::string& text : command.why) {
    rows.push_back(static_cast<std::size_t>(parse_number<std::int64_t>(text, "--why", 1, kMost)));
  }
  if (rows.size() == 1 || rows.size() > 2) {
    throw UserError(fmt::format("--why {}", fmt::join(command.why, " ")), "two numbers of the table's rows",
                    "--why 1 2");
  }
  return rows;
}

/// That of --ranks, else of the grid.
std::int64_t ranks_of(const SearchCommand& command) {
  const train::RunConfig& given = command.config;
  const std::vector<std::string>& kept = command.flags.kept;
  if (given.grid_auto && std::ranges::find(kept, "grid") != kept.end()) {
    throw UserError("--keep grid with grid = auto", "axes with their sizes, which a search can keep",
                    "leave one of them out");
  }
  return given.grid_auto && given.ranks > 0 ? given.ranks : std::max(given.ranks, given.grid.ranks());
}

bool has(const std::vector<std::string>& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

/// Loads of experts count on grids with expert=P, which a search has if it is told to.
void refuse_idle_load(const SearchCommand& command, const train::Setting& setting) {
  const bool kept = has(command.flags.kept, "grid") && command.config.grid.expert > 1;
  const bool included = command.flags.included.find("expert=") != std::string::npos;
  if (setting.value == train::RunConfig().expert_load || has(command.flags.tried, "expert") || kept || included) return;
  throw UserError(fmt::format("expert-load = {} has no effect in a search without grids with expert=P", setting.value),
                  "--try expert for it", "add --try expert, or leave expert-load out");
}

/// A search chooses these keys itself: a value on the command line would be dropped.
void refuse_searched_keys(const SearchCommand& command, const std::vector<train::Setting>& settings) {
  const std::vector<std::string>& searched = study::searched_keys();
  for (const train::Setting& setting : settings) {
    if (setting.key == "expert-load") refuse_idle_load(command, setting);
    const bool tried = has(command.flags.tried, setting.key);
    if (!tried && std::ranges::find(searched, setting.key) == searched.end()) continue;
    if (has(command.flags.kept, setting.key)) continue;
    if (setting.key == "grid" && setting.value == "auto") continue;
    const std::string fix = tried ? fmt::format("leave out --try {0} or --{0}", setting.key)
                                  : fmt::format("add --keep {}, or leave it out{}", setting.key,
                                                setting.key == "grid" ? ": --ranks N says how many ranks" : "");
    throw UserError(fmt::format("{} = {} has no effect in a search, which chooses it", setting.key, setting.value), "",
                    fix);
  }
}

int search(const SearchCommand& command) {
  if (!command.output.empty()) expect_writable(command.output);
  command.results.check();
  const std::vector<std::size_t> why = rows_of_why(command);
  const train::ResolvedRun run = study::open_search(command.config);
  study::SearchOptions options = search_options(command.flags, command.config.libraries);
  options.ranks = ranks_of(command);
  const study::SearchResult result = command.results.with_status(
      [&](const TellStatus& tell) { return study::search_configurations(run, options, tell); });
  const study::Results results = study::results_of(result, static_cast<std::size_t>(command.top),
                                                   why.empty() ? "" : study::why_text(result, why[0], why[1]));
  if (!command.output.empty()) {
    write_durable(command.output, train::dump_toml(study::config_of(result, result.configurations.front())),
                  Named::by_person);
  }
  command.results.write(results);
  command.results.print(results);
  if (command.results.json) return 0;
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
  command.add(
      output_option(options->output, "FILE.toml", "write the best configuration, to train, simulate and compare"));
  command.add(number_option("--top", &options->top, "rows of the table", 1));
  add_search_flags(command, options->flags);
  command.add(word_option("--pipe", &options->flags.pipes, "P", "numbers of pipeline stages to try; default: 1"));
  command.add(
      word_option("--include", &options->flags.included, "GRID", "plan this grid too; tell why it isn't the first"));
  constexpr double kSeconds = 120, kMostSeconds = 1e9;
  options->flags.max_seconds = kSeconds;
  command.add(number_option("--max-time", &options->flags.max_seconds,
                            "end after X seconds with what is found; 0: never", 0.0, kMostSeconds));
  command.add(word_option("--why", &options->why, "N", "two rows of the table: where their steps differ"));
  command.add(svg_option(options->results.svg,
                         "draw step time against memory, with the front that no other configuration beats"));
  add_result_flags(command, options->results, "configurations");
  const ConfigOptions config(command);
  command.description =
      "Tries every grid of x, y, z and data with --ranks ranks, the order of its axes, the micro-batch, recomputation, "
      "resharding and ZeRO-1, and pipeline stages if --pipe names numbers of them, within the memory of a device. "
      "Bounds on memory and time drop most choices; the others "
      "are estimated from steps of few layers, and the best are planned and simulated whole. " +
      std::string(ops::kMfuHelp);
  command.examples = {{"weft search --model gpt-80b --machine perlmutter --ranks 1024 --global-batch 1024 --dtype bf16 "
                       "--reduce-dtype bf16 -o best.toml"},
                      {"weft search --model gpt2-124m --machine dgx-h100 --ranks 8 --global-batch 64 --why 1 2"},
                      {"weft search --model gpt2-124m --machine perlmutter --ranks 16 --global-batch 64 --pipe 1 2 4"},
                      {"weft search --model gpt2-124m --machine perlmutter --ranks 16 --global-batch 64 --include "
                       "z=4,data=4"},
                      {"weft search run.toml --ranks 6 --keep micro-batch recompute --json"}};
  command.run = [options, config] {
    return config.on_config(
        options->config,
        [&] {
          refuse_searched_keys(*options, config.layers(MachineNumbers::refused).second);
          return search(*options);
        },
        OpenGrid::accepted);
  };
  return command;
}

}  // namespace weft::tools
