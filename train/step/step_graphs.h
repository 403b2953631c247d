// The graphs of a run on one rank, with a way to lower those of the other pipeline stages.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/execute/program/program.h"
#include "runtime/policy/policy.h"
#include "train/config/config.h"

namespace weft::train {

/// "train" and "eval" of a resolved configuration, for the ranks at `pipe`.
execute::ProgramGraph train_graph(const RunConfig& config, std::int64_t pipe);
execute::ProgramGraph eval_graph(const RunConfig& config, std::int64_t pipe);

/// The policy of graphs without a backward pass; null: the run's.
std::shared_ptr<const policy::Policy> forward_policy(const RunConfig& config);

/// The parameters that the rank at `at` has. `specs` must outlive the result.
std::vector<ops::ParameterShard> shards_of(const RunConfig& config, const std::vector<ops::ParameterSpec>& specs,
                                           const graph::Coordinates& at);

/// The parameters that only ranks of other stages have.
std::vector<ops::ParameterSpec> parameters_elsewhere(const RunConfig& config,
                                                     const std::vector<ops::ParameterSpec>& specs,
                                                     const graph::Coordinates& at);

}  // namespace weft::train
