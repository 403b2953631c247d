#include "tools/cost_options.h"

#include <CLI/CLI.hpp>
#include <optional>

#include "ops/lower.h"
#include "runtime/cost_model.h"
#include "tools/machine_files.h"
#include "train/profile_file.h"
#include "train/trainer.h"

namespace weft {

struct CostOptions::Given {
  std::string machine = "laptop";
  std::string profile;
  int streams = 1;
  double memory_limit = 0;  // GiB
};

CostOptions::CostOptions(CLI::App& command) : given_(std::make_shared<Given>()) {
  command.add_option("--machine", given_->machine, "laptop, dgx-h100, perlmutter, frontier, alps, or a TOML file")
      ->type_name("NAME|FILE")
      ->capture_default_str();
  command.add_option("--profile", given_->profile, "measured costs: a file of `weft profile`")->type_name("FILE.json");
  command.add_option("--streams", given_->streams, "compute streams of a rank")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command.add_option("--memory-limit", given_->memory_limit, "GiB of scratch that a plan may take; 0: no limit")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
}

bool CostOptions::has_profile() const {
  return !given_->profile.empty();
}

PlanningProblem CostOptions::problem(const RunConfig& config) const {
  if (given_->profile.empty()) return make(config, nullptr);
  const Profile profile = load_profile(given_->profile);
  return make(config, &profile);
}

PlanningProblem CostOptions::problem(const RunConfig& config, const Profile& profile) const {
  return make(config, &profile);
}

PlanningProblem CostOptions::make(const RunConfig& config, const Profile* profile) const {
  PlanningProblem problem;
  problem.machine = find_machine(given_->machine, machine_folders());
  problem.grid = config.grid;
  problem.graph = lower_train(config.model, step_config(config));
  problem.rewrites = parse_rewrites(config.rewrites);
  problem.options.compute_streams = given_->streams;
  problem.options.memory_limit = static_cast<std::int64_t>(given_->memory_limit * (1 << 30));
  problem.options.seed = config.seed;
  std::shared_ptr<const CostModel> model = analytic_costs(problem.machine, config.grid);
  if (profile != nullptr) {
    problem.machine.cores = static_cast<double>(profile->threads);
    problem.machine.shared_cores = true;  // the profile knows what transports take
    model = profiled_costs(*profile, std::move(model));
  }
  problem.options.cost_model = std::move(model);
  problem.options.machine = std::make_shared<const Machine>(problem.machine);
  problem.options.link_of_channel = links_of_channels(problem.machine, problem.grid);
  return problem;
}

}  // namespace weft
