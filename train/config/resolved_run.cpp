#include "train/config/resolved_run.h"

#include <string_view>
#include <utility>

#include "runtime/cost/machine_files.h"
#include "runtime/cost/profile_file.h"
#include "runtime/policy/catalog/policies.h"

namespace weft::train {

TuningSetting tuning_setting(std::string_view text) {
  using From = TuningSetting::From;
  if (text.empty()) return {From::checkpoint};
  if (text == "none") return {From::nothing};
  if (text == "auto") return {From::trials};
  return {From::file, std::string(text)};
}

ResolvedRun read_texts(RunConfig config) {
  ResolvedRun run;
  choose_policy(config);
  run.policy = policy::named_policy(config.policy, config.libraries);
  if (!config.machine.empty()) {
    run.machine = std::make_shared<const cost::Machine>(cost::find_machine(config.machine, cost::machine_folders()));
  }
  if (!config.profile.empty()) run.profile = std::make_shared<const cost::Profile>(cost::load_profile(config.profile));
  run.gemm_tuning = tuning_setting(config.gemm_tuning);
  config.policy_chunks = run.policy->chunks();
  run.config = std::move(config);
  return run;
}

ResolvedRun resolve(RunConfig config, std::int64_t world_size) {
  ResolvedRun run = read_texts(std::move(config));  // a word that nothing knows is named before sizes
  fill_in(run.config, world_size);
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
