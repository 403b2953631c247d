// The state that measured steps begin with: initial weights, and random tokens in place of data.
#pragma once

#include <vector>

#include "graph/grid.h"
#include "ops/sharding.h"
#include "runtime/execute/state.h"
#include "train/config/config.h"

namespace weft::train {

/// For the rank at `at`, which has these shards. Optimizer state becomes zero.
void begin_benchmark(const execute::State& state, const RunConfig& config, const graph::Coordinates& at,
                     const std::vector<ops::ParameterShard>& shards);

}  // namespace weft::train
