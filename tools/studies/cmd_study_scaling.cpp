// `weft study scaling`: the total arithmetic a second over the number of ranks, each point at its best configuration.

#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "study/columns.h"
#include "study/scaling/scaling.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"
#include "tools/studies/result_flags.h"
#include "tools/studies/search_flags.h"

namespace weft::tools {
namespace {

struct ScalingCommand {
  study::ScalingStudy study;
  std::vector<std::string> points;
  std::string kind;
  SearchFlags flags;
  ResultFlags results;
};

study::ScalingStudy study_of(const ScalingCommand& command, const ConfigOptions& config) {
  study::ScalingStudy study = command.study;
  std::tie(study.base, study.settings) = config.layers(MachineNumbers::refused);
  for (const std::string& point : command.points) study.points.push_back(study::scaling_point(point));
  study.kind = command.kind == "weak" ? study::ScalingKind::weak : study::ScalingKind::strong;
  const train::RunConfig given = config.load();
  study.policies = named_policies(command.flags.policies, given.libraries);
  study.search = search_options(command.flags, given.libraries);
  study::check_scaling(study);
  return study;
}

int run(const ScalingCommand& command, const ConfigOptions& config) {
  command.results.check();
  const study::ScalingStudy study = study_of(command, config);
  const std::vector<study::ScalingRow> rows =
      command.results.with_status([&](const TellStatus& tell) { return study::run_scaling(study, tell); });
  const study::Results results = study::results_of(study, rows);
  command.results.write(results);
  study::expect_possible(std::span(rows), "points", "other ranks, or more --memory");
  command.results.print(results);
  return 0;
}

void add_own_flags(Command& command, ScalingCommand& options) {
  command.add(
      required(word_option("--points", &options.points, "RANKS",
                           "numbers of ranks; each may have a model (512:gpt-5b) or the file of a whole configuration "
                           "(512:best.toml)")));
  command.add(
      required(choice_option("--kind", &options.kind, "KIND",
                             "strong or weak scaling; the global batch stays, or it grows with the ranks from the "
                             "configuration's at the first point, unless the points name models",
                             {"strong", "weak"})));
  command.add({.names = "--machines",
               .target = &options.study.machines,
               .value = "MACHINE",
               .help = "a series for each machine; default: the configuration's",
               .suggestions = {"dgx-h100", "perlmutter", "frontier", "alps"},
               .paths = Paths::files});
  command.add(word_option("--models", &options.study.models, "MODEL",
                          "a series for each model; default: the configuration's", ops::model_names()));
  add_search_flags(command, options.flags,
                   "a series for each policy; default: one of the fastest among program, lhs and portfolio:budget=0");
  command.add(noise_option(options.study.noise));
  command.add(seeds_option(options.study.seeds));
  command.add(repeated(path_option("-o,--output", &options.results.files, "FILE",
                                   "write a .csv, .json or .svg file; may be given again")));
  add_result_flags(command, options.results, "points");
}

}  // namespace

Command describe_study_scaling() {
  Command command{"scaling", "flop/s over the number of ranks, each point at its best"};
  const auto options = std::make_shared<ScalingCommand>();
  add_own_flags(command, *options);
  const ConfigOptions config(command, "study scaling");
  command.description =
      "Every point is searched as weft search does, or runs the configuration of its file. Efficiency compares the "
      "model's arithmetic a rank with that of the first point. A point that no configuration fits becomes a row with "
      "the reason.";
  command.examples = {
      {"weft study scaling --model gpt2-124m --machine perlmutter --dtype bf16 --global-batch 256 --points 4 8 16 "
       "--kind strong -o scaling.svg"},
      {"weft study scaling --dtype bf16 --reduce-dtype bf16 --global-batch 1024 --points 512:gpt-5b 1024:gpt-10b "
       "--kind weak --machines perlmutter frontier"},
      {"weft study scaling run.toml --points 8 16 32 --kind weak --noise 0.1 --seeds 20 --json"}};
  command.run = [options, config] {
    if (config.dump()) return print_config(config.load());
    return run(*options, config);
  };
  return command;
}

}  // namespace weft::tools
