// `weft sweep`: the simulated steps of every combination of some keys' values, of policies and of seeds of the noise.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/printable.h"
#include "base/status_line.h"
#include "base/text/text_table.h"
#include "runtime/policy/catalog/policies.h"
#include "study/sweep/sweep.h"
#include "study/sweep/sweep_folder.h"
#include "study/sweep/sweep_output.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/config_readers.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"
#include "tools/studies/search_flags.h"
#include "train/config/config.h"

namespace weft::tools {
namespace {

struct SweepCommand {
  std::vector<std::string> over, policies;
  std::string folder, svg;
  double noise = 0;
  std::int64_t seeds = 1;
  int jobs = 0;
  bool json = false, quiet = false;
};

std::vector<std::string> keys_of_simulate() {
  std::vector<std::string> keys;
  for (const train::ConfigKey& key : train::config_keys()) {
    if (reads_key("simulate", key.name)) keys.push_back(key.name);
  }
  return keys;
}

study::Sweep sweep_of(const SweepCommand& command, const ConfigOptions& config) {
  study::Sweep sweep;
  sweep.keys = study::swept_keys(command.over, keys_of_simulate());
  std::tie(sweep.base, sweep.settings) = config.layers(MachineNumbers::taken);
  const train::RunConfig given = study::shared_config(sweep);
  sweep.policies = named_policies(command.policies, given.libraries);
  if (sweep.policies.empty()) sweep.policies.push_back(policy::named_policy(given.policy, given.libraries));
  sweep.noise = command.noise;
  sweep.seeds = command.seeds;
  sweep.threads = threads_of(command.jobs);
  study::check_sweep(sweep);
  return sweep;
}

int run(const SweepCommand& command, const ConfigOptions& config) {
  if (!command.svg.empty()) expect_writable(command.svg);
  const study::Sweep sweep = sweep_of(command, config);
  std::optional<study::SweepFolder> folder;
  if (!command.folder.empty()) folder.emplace(command.folder, sweep);
  const std::vector<study::SweepRow> known = folder ? folder->rows() : std::vector<study::SweepRow>();
  const std::vector<study::SweepRow> rows = [&] {
    StatusLine line(!command.json && !command.quiet);
    if (!known.empty()) line.print(fmt::format("{}: {} rows are there already", command.folder, known.size()));
    return study::run_sweep(
        sweep, known,
        [&](std::span<const study::SweepRow> found) {
          if (folder) folder->keep(found);
        },
        [&](const Status& status) { line.show(status); });
  }();
  if (folder) folder->finish(rows);
  study::expect_possible(std::span(rows), "rows", "change the values of --over, or the keys that it leaves alone");
  if (!command.svg.empty()) write_durable(command.svg, study::sweep_picture(sweep, rows).svg(), Named::by_person);
  if (command.json) {
    say("{}\n", study::sweep_json(sweep, rows).text());
    return 0;
  }
  say(stdout, study::sweep_text(sweep, rows, output_width()));
  if (folder && !command.quiet) say("{}: results.csv, results.json, plot.svg and base.toml\n", command.folder);
  return 0;
}

}  // namespace

Command describe_sweep() {
  Command command{"sweep", "simulate every combination of the values of some keys, of policies and of seeds"};
  const auto options = std::make_shared<SweepCommand>();
  command.add(required(
      word_option("--over", &options->over, "KEY=VALUE",
                  "a key and its values: --over micro-batch=1 2 4 seq-len=512 1024. A key is one that weft simulate "
                  "reads, or a number of the machine: machine.network.latency=1e-6 5e-6")));
  command.add(word_option("--policies", &options->policies, "POLICY",
                          "policies to compare; default: the configuration's", policy_words()));
  command.add(noise_option(options->noise));
  command.add(seeds_option(options->seeds));
  command.add(jobs_option(options->jobs));
  command.add(
      output_option(options->folder, "FOLDER",
                    "write results.csv as rows are computed, results.json, plot.svg and base.toml; given again, the "
                    "command goes on where it was killed"));
  command.add(svg_option(options->svg, "draw the steps over the first key with several values"));
  command.add({.names = "--json", .target = &options->json, .help = "print the rows as JSON"});
  command.add({.names = "--quiet", .target = &options->quiet, .help = "print only the result and errors"});
  const ConfigOptions config(command);
  command.description =
      "A combination that is impossible (a grid that doesn't divide the model, a plan that doesn't fit the memory) "
      "becomes a row with the reason. --set machine.network.latency=2e-6 fixes a number of the machine for all.";
  command.examples = {
      {"weft sweep --model gpt2-124m --ranks 8 --machine perlmutter --over grid=data=8 y=2 z=2,y=2 --policies axonn "
       "lhs"},
      {"weft sweep run.toml --machine dgx-h100 --over machine.network.latency=1e-6 5e-6 2e-5 --noise 0.1 --seeds 20 "
       "-o latency"},
      {"weft sweep --model tiny --ranks 2 --over micro-batch=1 2 4 global-batch=8 16 --json"}};
  command.run = [options, config] {
    if (!config.dump()) return run(*options, config);
    study::Sweep fixed;
    std::tie(fixed.base, fixed.settings) = config.layers(MachineNumbers::taken);
    return print_config(study::shared_config(fixed));
  };
  return command;
}

}  // namespace weft::tools
