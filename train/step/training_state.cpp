#include "train/step/training_state.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "ops/lower.h"
#include "train/step/initial_weights.h"
#include "train/step/schedule.h"

namespace weft::train {

std::vector<MutableParameterState> training_arrays(const execute::State& state,
                                                   const std::vector<ops::ParameterShard>& shards, DType dtype) {
  std::vector<MutableParameterState> parameters;
  for (const ops::ParameterShard& shard : shards) {
    const std::string& name = shard.spec->name;
    const auto array = [&](const char* suffix) {
      return state.contains(name + suffix) ? state.get<float>(name + suffix).data() : nullptr;
    };
    parameters.push_back({shard.spec, dtype, state.data(name), array(".m"), array(".v"), array(".master"), &shard});
  }
  return parameters;
}

std::vector<MutableParameterState> weights_of(const execute::State& state,
                                              const std::vector<ops::ParameterShard>& shards, DType dtype) {
  std::vector<MutableParameterState> states;
  for (const ops::ParameterShard& shard : shards) {
    states.push_back({shard.spec, dtype, state.data(shard.spec->name), nullptr, nullptr, nullptr, &shard});
  }
  return states;
}

void initialize_parameters(const std::vector<MutableParameterState>& parameters, std::uint64_t seed) {
  for (const MutableParameterState& parameter : parameters) {
    initialize_parameter(*parameter.shard, seed, parameter.dtype, parameter.data, parameter.master);
  }
}

void set_coordinates(const execute::State& state, const graph::Grid& grid, const graph::Coordinates& at) {
  if (!state.contains(ops::names::kCoordinates)) return;
  const auto values = ops::coordinate_values(grid, at);
  const auto coordinates = state.get<std::int64_t>(ops::names::kCoordinates);
  std::copy_n(values.begin(), coordinates.size(), coordinates.begin());
}

void write_constants(const execute::State& state, const RunConfig& config, const graph::Coordinates& at) {
  set_coordinates(state, config.grid, at);
  if (config.dropout <= 0) return;
  if (!state.contains(ops::names::kRandom)) return;
  const auto random = state.get<std::int64_t>(ops::names::kRandom);
  random[0] = static_cast<std::int64_t>(config.seed);
  random[2] = graph::batch_rank(config.grid, at) * accumulation(config) * config.micro_batch * config.seq_len;
}

void write_ids(const execute::State& state, const char* name, std::span<const std::int32_t> ids) {
  if (state.contains(name)) std::ranges::copy(ids, state.get<std::int32_t>(name).begin());
}

void write_scalars(const execute::State& state, const RunConfig& config, std::int64_t step,
                   std::optional<std::int64_t> counted, double decayed) {
  const LearningRate schedule{config.schedule, config.steps, config.warmup, config.lr, config.min_lr};
  const auto scalars = state.get<float>(ops::names::kScalars);
  const auto t = static_cast<double>(step + 1);
  scalars[0] = static_cast<float>(schedule.at(step, decayed));
  scalars[1] = static_cast<float>(1 / (1 - std::pow(static_cast<double>(config.beta1), t)));
  scalars[2] = static_cast<float>(1 / (1 - std::pow(static_cast<double>(config.beta2), t)));
  // A step without a target that counts has gradients of 0.
  const std::int64_t targets = std::max<std::int64_t>(1, counted.value_or(config.global_batch * config.seq_len));
  scalars[3] = static_cast<float>(1 / static_cast<double>(targets));
  if (config.dropout > 0 && state.contains(ops::names::kRandom)) state.get<std::int64_t>(ops::names::kRandom)[1] = step;
}

}  // namespace weft::train
