// `weft sweep`: the simulated steps of every combination of some keys' values, of policies and of seeds of the noise.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/log.h"
#include "ops/model_flops.h"
#include "runtime/policy/catalog/policies.h"
#include "study/sweep/sweep.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/config_readers.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"
#include "tools/studies/study_flags.h"
#include "train/config/config.h"

namespace weft::tools {
namespace {

struct SweepCommand {
  study::Sweep sweep;
  std::vector<std::string> over, policies;
  ResultFlags results;
  int jobs = 0;
};

std::vector<std::string> keys_of_simulate() {
  std::vector<std::string> keys;
  for (const train::ConfigKey& key : train::config_keys()) {
    if (reads_key("simulate", key.name)) keys.push_back(key.name);
  }
  return keys;
}

study::Sweep sweep_of(const SweepCommand& command, const ConfigOptions& config) {
  study::Sweep sweep = command.sweep;
  sweep.keys = study::swept_keys(command.over, keys_of_simulate());
  std::tie(sweep.base, sweep.settings) = config.layers(MachineNumbers::taken);
  const train::RunConfig given = study::shared_config(sweep);
  sweep.policies = named_policies(command.policies, given.libraries);
  if (sweep.policies.empty()) sweep.policies.push_back(policy::named_policy(given.policy, given.libraries));
  sweep.threads = threads_of(command.jobs);
  study::check_sweep(sweep);
  return sweep;
}

int run(const SweepCommand& command, const ConfigOptions& config) {
  command.results.check();
  const study::Sweep sweep = sweep_of(command, config);
  std::optional<study::RowFolder<study::SweepRow>> folder;
  if (!command.results.folder.empty()) folder.emplace(study::sweep_folder(command.results.folder, sweep));
  const std::vector<study::SweepRow> known = folder ? folder->rows() : std::vector<study::SweepRow>();
  if (!known.empty() && !command.results.json && !command.results.quiet)
    tell(fmt::format("{}: {} rows are there already", command.results.folder, known.size()));
  const std::vector<study::SweepRow> rows = command.results.with_status([&](const TellStatus& tell) {
    return study::run(
        study::experiment_of(sweep), known,
        [&](std::span<const study::SweepRow> found) {
          if (folder) folder->keep(found);
        },
        tell);
  });
  const study::Results results = study::results_of(sweep, rows);
  if (folder) folder->finish(rows, results);
  study::expect_possible(std::span(rows), "rows", "change the values of --over, or the keys that it leaves alone");
  command.results.write(results);
  command.results.print(results, "results.csv, results.json, plot.svg and base.toml");
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
  command.add(noise_option(options->sweep.noise));
  command.add(seeds_option(options->sweep.seeds));
  command.add(jobs_option(options->jobs));
  command.add(
      output_option(options->results.folder, "FOLDER",
                    "write results.csv as rows are computed, results.json, plot.svg and base.toml; given again, the "
                    "command goes on where it was killed"));
  command.add(svg_option(options->results.svg, "draw the steps over the first key with several values"));
  add_result_flags(command, options->results, "rows");
  const ConfigOptions config(command);
  command.description =
      "A combination that is impossible (a grid that doesn't divide the model, a plan that doesn't fit the memory) "
      "becomes a row with the reason. --set machine.network.latency=2e-6 fixes a number of the machine for all. " +
      std::string(ops::kMfuHelp);
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
