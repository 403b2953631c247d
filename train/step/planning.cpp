#include "train/step/planning.h"

#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "ops/lower.h"
#include "runtime/cost/cost_model.h"
#include "runtime/cost/machine_files.h"
#include "runtime/cost/profile_file.h"
#include "runtime/execute/agree_on_plan.h"
#include "runtime/execute/cpu/cpu_weight_layouts.h"
#include "runtime/execute/tuning/gemm_tuning_file.h"
#include "runtime/policy/compile_plan.h"
#include "train/step/step_config.h"

namespace weft {
namespace {

// From so many products on, packing a weight once has taken less time than each of them packing it, on CPUs of eight
// lanes: what is packed for all of them is written to memory and read from there.
constexpr std::int64_t kWorthPacking = 4;

// Beyond, memory is the user's to spend: W and its transpose as fp32 take 8 bytes a parameter.
constexpr std::int64_t kPackedBytes = 8, kMostPacked = std::int64_t{1} << 30;

PolicyOptions without_costs(const RunConfig& config) {
  PolicyOptions options;
  options.compute_streams = static_cast<int>(config.streams);
  options.memory_limit = static_cast<std::int64_t>(config.memory_limit * (std::int64_t{1} << 30));
  options.seed = config.seed;
  options.weight_layouts = &cpu_weight_layouts();
  return options;
}

/// The machine as far as the profile doesn't know better, and the costs of both.
std::pair<Machine, std::shared_ptr<const CostModel>> costs_for(const RunConfig& config, const Profile* profile) {
  Machine machine = find_machine(config.machine.empty() ? "laptop" : config.machine, machine_folders());
  std::shared_ptr<const CostModel> model = analytic_costs(machine, config.grid);
  if (profile != nullptr) {
    machine.cores = static_cast<double>(profile->threads);
    machine.shared_cores = true;  // the profile knows what transports take
    machine.slowdowns = profile->slowdowns;
    model = profiled_costs(*profile, std::move(model));
  }
  return {std::move(machine), std::move(model)};
}

void contend(PolicyOptions& options, const Machine& machine, const Grid& grid) {
  options.machine = std::make_shared<const Machine>(machine);
  options.link_of_channel = links_of_channels(machine, grid);
}

PlanningProblem problem_of(const RunConfig& config, const Profile* profile) {
  PlanningProblem problem;
  problem.graph = lower_train(config.model, step_config(config));
  problem.grid = config.grid;
  problem.rewrites = chosen_rewrites(config);
  problem.options = without_costs(config);
  problem.libraries = config.libraries;
  std::tie(problem.machine, problem.options.cost_model) = costs_for(config, profile);
  contend(problem.options, problem.machine, config.grid);
  return problem;
}

std::optional<Profile> profile_of(const RunConfig& config) {
  if (config.profile.empty()) return std::nullopt;
  return load_profile(config.profile);
}

}  // namespace

PolicyOptions policy_options(const RunConfig& config) {
  PolicyOptions options = without_costs(config);
  if (config.machine.empty() && config.profile.empty()) return options;
  const std::optional<Profile> profile = profile_of(config);
  auto [machine, model] = costs_for(config, profile ? &*profile : nullptr);
  options.cost_model = std::move(model);
  contend(options, machine, config.grid);
  return options;
}

std::vector<Rewrite> chosen_rewrites(const RunConfig& config) {
  std::vector<Rewrite> rewrites = parse_rewrites(config.rewrites);
  if (config.fuse_gelu && !fuses_gelu(rewrites)) rewrites.insert(rewrites.begin(), FuseGelu{});
  const std::optional<PackedUnit> bf16 = bf16_unit_of(config);
  for (Rewrite& rewrite : rewrites) {
    if (auto* packing = std::get_if<PackWeights>(&rewrite)) packing->bf16 = bf16;
  }
  if (packs_weights(rewrites) || config.device != DeviceKind::cpu) return rewrites;
  // Another machine's products may read weights as they are, and a plan file says itself what its plan packs.
  const bool may_pack = config.machine.empty() && config.memory_limit == 0 && !config.policy.starts_with("file:") &&
                        config.model.parameters() <= kMostPacked / kPackedBytes;
  if (config.pack_weights == WeightPacking::on) rewrites.emplace_back(PackWeights{.bf16 = bf16});
  if (config.pack_weights == WeightPacking::automatic && may_pack)
    rewrites.emplace_back(PackWeights{kWorthPacking, bf16});
  return rewrites;
}

std::uint64_t compiled_fingerprint(RunConfig config) {
  resolve(config, 0);
  const std::unique_ptr<Policy> policy = make_policy(config.policy, config.libraries);
  const Plan plan = compile_plan(lower_train(config.model, step_config(config)), *policy, policy_options(config),
                                 chosen_rewrites(config));
  std::shared_ptr<const TunedGemms> tuned;
  if (!config.gemm_tuning.empty() && config.gemm_tuning != kNoGemmTuning) {
    tuned = std::make_shared<const TunedGemms>(
        parse_gemm_tuning(read_gemm_tuning_text(config.gemm_tuning), config.gemm_tuning));
  }
  const std::shared_ptr<const GemmTuning> products = table_of(tuned, bf16_unit_of(config));
  return products ? with_products(plan.fingerprint, *products) : plan.fingerprint;
}

PlanningProblem planning_problem(const RunConfig& config) {
  const std::optional<Profile> profile = profile_of(config);
  return problem_of(config, profile ? &*profile : nullptr);
}

PlanningProblem planning_problem(const RunConfig& config, const Profile& profile) {
  return problem_of(config, &profile);
}

}  // namespace weft
