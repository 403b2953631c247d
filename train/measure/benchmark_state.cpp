#include "train/measure/benchmark_state.h"

#include <algorithm>
#include <cstdint>
#include <random>

#include "ops/lower.h"
#include "train/step/initial_weights.h"
#include "train/step/step_config.h"
#include "train/step/training_state.h"

namespace weft::train {

void begin_benchmark(const execute::State& state, const RunConfig& config, const graph::Coordinates& at,
                     const std::vector<ops::ParameterShard>& shards) {
  const auto arrays = training_arrays(state, shards, config.dtype);
  initialize_parameters(arrays, config.seed);
  for (const MutableParameterState& array : arrays) {
    std::fill_n(array.m, updated_elements(array), 0.0F);
    std::fill_n(array.v, updated_elements(array), 0.0F);
  }
  write_constants(state, config, at);
  // Ranks that differ only in x and y read the same tokens.
  std::mt19937_64 draw(config.seed + static_cast<std::uint64_t>(graph::batch_rank(config.grid, at)));
  const auto token = [&] { return static_cast<std::int32_t>(draw() % static_cast<std::uint64_t>(config.model.vocab)); };
  const auto draw_ids = [&](const char* name) {
    const std::int64_t count = accumulation(config) * config.micro_batch * config.seq_len;
    std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
    std::ranges::generate(ids, token);
    write_ids(state, name, ids);
  };
  draw_ids(ops::names::kTokens);
  draw_ids(ops::names::kTargets);
}

}  // namespace weft::train
