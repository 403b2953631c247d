// The graphs that a run compiles and executes, and the fingerprint of its plan.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/execute/program/program.h"
#include "runtime/policy/policy.h"
#include "train/config/config.h"

namespace weft::train {

/// "train" and "eval" of a resolved configuration, for the ranks at `pipe`, with a way to lower those of the other
/// pipeline stages.
execute::ProgramGraph train_graph(const RunConfig& config, std::int64_t pipe);
execute::ProgramGraph eval_graph(const RunConfig& config, std::int64_t pipe);

/// The policy that orders graphs without a backward pass; null stands for the run's policy. With pipeline stages it is
/// the default policy, because policies of pipelines order training steps alone.
std::shared_ptr<const policy::Policy> forward_policy(const RunConfig& config);

/// The fingerprint of rank 0's plan of the training step in a run of an unresolved configuration. Throws UserError if a
/// file that it names can't be read or may not be loaded.
std::uint64_t compiled_fingerprint(RunConfig config);

}  // namespace weft::train
