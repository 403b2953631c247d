#include "train/step/step_graphs.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <vector>

#include "ops/lower.h"
#include "runtime/policy/catalog/policies.h"
#include "train/step/step_config.h"

namespace weft::train {

execute::ProgramGraph train_graph(const RunConfig& config, std::int64_t pipe) {
  const execute::GraphOfStage lower = [model = config.model, step = step_config(config)](std::int64_t stage) {
    return ops::lower_train(model, step, stage);
  };
  return {"train", lower(pipe), nullptr, lower};
}

execute::ProgramGraph eval_graph(const RunConfig& config, std::int64_t pipe) {
  const execute::GraphOfStage lower = [model = config.model, step = step_config(config)](std::int64_t stage) {
    return ops::lower_eval(model, step, stage);
  };
  return {"eval", lower(pipe), forward_policy(config), lower};
}

std::shared_ptr<const policy::Policy> forward_policy(const RunConfig& config) {
  return config.forward_in_order ? policy::default_policy() : nullptr;
}

std::vector<ops::ParameterShard> shards_of(const RunConfig& config, const std::vector<ops::ParameterSpec>& specs,
                                           const graph::Coordinates& at) {
  return ops::shards_of_stage(config.model, config.pipeline,
                              ops::shard_parameters(config.model, specs, config.grid, at, config.zero1), at.pipe);
}

std::vector<ops::ParameterSpec> parameters_elsewhere(const RunConfig& config,
                                                     const std::vector<ops::ParameterSpec>& specs,
                                                     const graph::Coordinates& at) {
  std::vector<ops::ParameterSpec> elsewhere;
  std::ranges::copy_if(specs, std::back_inserter(elsewhere), [&](const ops::ParameterSpec& spec) {
    return !ops::holds(config.model, config.pipeline, spec, at.pipe);
  });
  return elsewhere;
}

}  // namespace weft::train
