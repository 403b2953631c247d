#include "train/step/planning.h"

#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "ops/lower.h"
#include "runtime/cost/cost_model.h"
#include "runtime/cost/machine.h"
#include "runtime/execute/layouts/cpu_weight_layouts.h"
#include "train/step/step_config.h"

namespace weft::train {
namespace {

// With at least this many products, packing a weight once was faster than packing it in each product, on CPUs with
// eight lanes. A shared packed weight has to be written to memory and read from there.
constexpr std::int64_t kWorthPacking = 4;

// Above this limit only the user decides: W and its transpose in fp32 take 8 bytes per parameter.
constexpr std::int64_t kPackedBytes = 8, kMostPacked = std::int64_t{1} << 30;

policy::PolicyOptions without_costs(const ResolvedRun& run) {
  const RunConfig& config = run.config;
  policy::PolicyOptions options;
  options.compute_streams = static_cast<int>(config.streams);
  options.memory = config.memory.value_or(run.machine ? static_cast<std::int64_t>(run.machine->memory_bytes) : 0);
  options.seed = config.seed;
  options.weight_layouts = &execute::cpu_weight_layouts();
  return options;
}

/// The machine, with the profile's measurements where it has any, and the costs of both.
std::pair<cost::Machine, std::shared_ptr<const cost::CostModel>> costs_of(const ResolvedRun& run) {
  cost::Machine machine = run.machine ? *run.machine : cost::find_machine("laptop", cost::machine_folders());
  std::shared_ptr<const cost::CostModel> model = cost::analytic_costs(machine, run.config.grid, row_factors(run));
  if (run.profile) {
    machine.cores = static_cast<double>(run.profile->threads);
    machine.shared_cores = true;  // the profile has the transports' core time
    machine.slowdowns = run.profile->slowdowns;
    model = cost::profiled_costs(*run.profile, std::move(model));
  }
  return {std::move(machine), std::move(model)};
}

void contend(policy::PolicyOptions& options, const cost::Machine& machine, const graph::Grid& grid) {
  options.machine = std::make_shared<const cost::Machine>(machine);
  options.link_of_channel = simulate::links_of_channels(machine, grid);
}

}  // namespace

std::vector<std::shared_ptr<const graph::Graph>> train_classes(const RunConfig& config) {
  std::vector<std::shared_ptr<const graph::Graph>> classes;
  for (std::int64_t pipe = 0; pipe < config.grid.pipe; ++pipe) {
    classes.push_back(ops::lower_train(config.model, step_config(config), pipe));
  }
  return classes;
}

policy::PolicyOptions policy_options(const ResolvedRun& run) {
  policy::PolicyOptions options = without_costs(run);
  if (!run.machine && !run.profile) return options;
  auto [machine, model] = costs_of(run);
  options.cost_model = std::move(model);
  contend(options, machine, run.config.grid);
  return options;
}

std::vector<plan::Rewrite> chosen_rewrites(const ResolvedRun& run) {
  const RunConfig& config = run.config;
  std::vector<plan::Rewrite> rewrites = config.rewrites;
  if (config.fuse_gelu && !plan::fuses_gelu(rewrites)) rewrites.insert(rewrites.begin(), plan::FuseGelu{});
  const std::optional<PackedUnit> bf16 = bf16_unit_of(config);
  for (plan::Rewrite& rewrite : rewrites) {
    if (auto* packing = std::get_if<plan::PackWeights>(&rewrite)) packing->bf16 = bf16;
  }
  if (plan::packs_weights(rewrites) || config.device != DeviceKind::cpu) return rewrites;
  // Products of another machine may not read packed weights.
  const bool may_pack = !run.machine && config.memory.value_or(0) == 0 && !run.policy->decides_packing() &&
                        config.model.parameters() <= kMostPacked / kPackedBytes;
  if (config.pack_weights == WeightPacking::on) rewrites.emplace_back(plan::PackWeights{.bf16 = bf16});
  if (config.pack_weights == WeightPacking::automatic && may_pack)
    rewrites.emplace_back(plan::PackWeights{kWorthPacking, bf16});
  return rewrites;
}

simulate::Problem planning_problem(const ResolvedRun& run) {
  return planning_problem(run, train_classes(run.config));
}

simulate::Problem planning_problem(const ResolvedRun& run, std::vector<std::shared_ptr<const graph::Graph>> classes) {
  simulate::Problem problem;
  problem.classes = std::move(classes);
  problem.grid = run.config.grid;
  problem.rewrites = chosen_rewrites(run);
  problem.options = without_costs(run);
  std::tie(problem.machine, problem.options.cost_model) = costs_of(run);
  contend(problem.options, problem.machine, run.config.grid);
  // Which ranks share cores is known of the ranks that were measured. Identical ranks compute at the same times, when
  // they were measured too.
  if (problem.classes.size() > 1 && run.profile && run.profile->grid.ranks() == run.config.grid.ranks())
    problem.simulation.core_pools = run.profile->core_pools;
  return problem;
}

}  // namespace weft::train
