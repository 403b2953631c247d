#include "train/config/resolved_run.h"

#include <string_view>
#include <utility>
#include <vector>

#include "runtime/cost/machine.h"
#include "runtime/cost/profile.h"
#include "runtime/policy/catalog/policies.h"

namespace weft::train {

TuningSetting tuning_setting(std::string_view text) {
  using From = TuningSetting::From;
  if (text.empty()) return {From::checkpoint};
  if (text == "none") return {From::nothing};
  if (text == "auto") return {From::trials};
  return {From::file, std::string(text)};
}

void ResolvedRun::set_policy(policy::NamedPolicy chosen) {
  policy = std::move(chosen);
  config.policy = policy.name;
  config.policy_chunks = policy->chunks();
}

ResolvedRun read_texts(RunConfig config) {
  choose_policy(config);
  ResolvedRun run{.config = std::move(config)};
  run.set_policy(policy::named_policy(run.config.policy, run.config.libraries));
  const std::string &machine = run.config.machine, &profile = run.config.profile;
  if (!machine.empty()) {
    run.machine = std::make_shared<const cost::Machine>(cost::find_machine(machine, cost::machine_folders()));
  }
  if (!profile.empty()) run.profile = std::make_shared<const cost::Profile>(cost::load_profile(profile));
  run.gemm_tuning = tuning_setting(run.config.gemm_tuning);
  if (const LoadSetting load = load_setting(run.config.expert_load, "expert-load"); !load.file.empty()) {
    run.expert_loads = std::make_shared<const std::vector<ExpertLoad>>(
        read_expert_loads(load.file, "give balanced, zipf:1, or experts.jsonl of a run folder"));
  }
  return run;
}

ResolvedRun resolve(RunConfig config, std::int64_t world_size) {
  ResolvedRun run = read_texts(std::move(config));  // a word that nothing knows is named before sizes
  fill_in(run.config, world_size);
  check_expert_load(run);
  return run;
}

ResolvedRun resolve_with(RunConfig config, const std::string& policy, std::int64_t world_size) {
  config.policy = policy;
  config.given.insert("policy");
  config.libraries.trust(policy);
  return resolve(std::move(config), world_size);
}

void leave_out_library(RunConfig& config) {
  const std::string_view library = policy::library_of(config.policy);
  if (!library.empty() && !config.libraries.contains(library)) config.policy = RunConfig().policy;
}

}  // namespace weft::train
