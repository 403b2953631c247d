#include "train/step/training_state.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numbers>
#include <string>
#include <tuple>

#include "base/philox.h"
#include "ops/lower.h"
#include "train/step/step_config.h"

namespace weft::train {
namespace {

// No training step has this number, so initial values share no draw with any dropout mask.
constexpr std::uint32_t kInitialStep = 0xFFFFFFFFU;

// Four independent standard normals of one Philox block.
std::array<double, 4> normals(const PhiloxBlock& block) {
  std::array<double, 4> out{};
  for (std::size_t pair = 0; pair < 2; ++pair) {
    const double u = (block[2 * pair] + 0.5) * 0x1p-32;  // in (0, 1): its logarithm is finite
    const double angle = 2 * std::numbers::pi * (block[2 * pair + 1] * 0x1p-32);
    const double radius = std::sqrt(-2 * std::log(u));
    out[2 * pair] = radius * std::cos(angle);
    out[2 * pair + 1] = radius * std::sin(angle);
  }
  return out;
}

// Four independent numbers in [−1, 1) of one Philox block.
std::array<double, 4> uniforms(const PhiloxBlock& block) {
  std::array<double, 4> out{};
  for (std::size_t i = 0; i < 4; ++i) out[i] = block[i] * 0x1p-31 - 1;
  return out;
}

/// Calls store(i, value) for the elements [first, first + count) of the whole parameter, i counted from `first`.
template <class Store>
void draw(const ops::ParameterSpec& spec, std::uint64_t seed, std::int64_t first, std::int64_t count,
          const Store& store) {
  if (spec.init != ops::Init::normal && spec.init != ops::Init::uniform) {
    for (std::int64_t i = 0; i < count; ++i) store(i, spec.init == ops::Init::ones ? 1.0F : 0.0F);
    return;
  }
  const std::int64_t end = first + count;
  for (std::int64_t quad = first / 4; quad * 4 < end; ++quad) {
    const PhiloxBlock block = philox_quad(seed, kInitialStep, spec.site, static_cast<std::uint64_t>(quad));
    const auto four = spec.init == ops::Init::normal ? normals(block) : uniforms(block);
    for (std::int64_t i = std::max(first, 4 * quad); i < std::min(end, 4 * quad + 4); ++i) {
      store(i - first, static_cast<float>(four[static_cast<std::size_t>(i - 4 * quad)] * spec.std));
    }
  }
}

void set(void* data, DType dtype, std::int64_t i, float value) {
  if (dtype == DType::bf16) {
    static_cast<bf16*>(data)[i] = bf16(value);
  } else {
    static_cast<float*>(data)[i] = value;
  }
}

/// The elements [from, to) of the block.
void fill(const ops::ParameterShard& shard, std::int64_t from, std::int64_t to, std::uint64_t seed, DType dtype,
          void* array) {
  for (const ops::ElementRun& run : shard.runs_within(from, to)) {
    if (run.global < 0) {
      for (std::int64_t i = 0; i < run.count; ++i) set(array, dtype, run.local + i, 0.0F);
    } else {
      draw(*shard.spec, seed, run.global, run.count,
           [&](std::int64_t i, float value) { set(array, dtype, run.local + i, value); });
    }
  }
}

/// The progress of `at` from step `begin` to `end`, in [0, 1]; 1 for an empty range.
double progress(double at, std::int64_t begin, std::int64_t end) {
  if (end <= begin) return 1.0;
  return std::clamp((at - static_cast<double>(begin)) / static_cast<double>(end - begin), 0.0, 1.0);
}

}  // namespace

double learning_rate(const RunConfig& config, std::int64_t step, double decayed) {
  const auto [steps, warmup, lr, min_lr] = std::tie(config.steps, config.warmup, config.lr, config.min_lr);
  if (step < warmup) return lr * static_cast<double>(step + 1) / static_cast<double>(warmup);
  const double by_time = static_cast<double>(warmup) + decayed * static_cast<double>(steps - warmup);
  const double s = std::max(static_cast<double>(step), by_time);
  const double r = progress(s, warmup, steps);
  switch (config.schedule) {
    case Schedule::cosine:
      return min_lr + 0.5 * (1.0 + std::cos(std::numbers::pi * r)) * (lr - min_lr);
    case Schedule::linear:
      return lr - r * (lr - min_lr);
    case Schedule::constant:
      return lr;
    case Schedule::wsd: {
      // Integer arithmetic, because 0.8 isn't exact: floor(0.8 * 15) must be 12.
      const std::int64_t decay_begin = steps / 5 * 4 + steps % 5 * 4 / 5;
      if (s < static_cast<double>(decay_begin)) return lr;
      return min_lr + (1.0 - std::sqrt(progress(s, decay_begin, steps))) * (lr - min_lr);
    }
  }
  return lr;
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

std::vector<ParameterState> training_arrays(const execute::State& state, const std::vector<ops::ParameterShard>& shards,
                                            DType dtype) {
  std::vector<ParameterState> parameters;
  for (const ops::ParameterShard& shard : shards) {
    const std::string& name = shard.spec->name;
    const auto array = [&](const char* suffix) {
      return state.contains(name + suffix) ? state.get<float>(name + suffix).data() : nullptr;
    };
    parameters.push_back({shard.spec, dtype, state.data(name), array(".m"), array(".v"), array(".master"), &shard});
  }
  return parameters;
}

void initialize_parameters(const std::vector<ParameterState>& parameters, std::uint64_t seed) {
  for (const ParameterState& parameter : parameters) {
    initialize_parameter(*parameter.shard, seed, parameter.dtype, parameter.data, parameter.master);
  }
}

void set_coordinates(const execute::State& state, const graph::Grid& grid, const graph::Coordinates& at) {
  if (!state.contains(ops::names::kCoordinates)) return;
  const auto values = ops::coordinate_values(grid, at);
  const auto coordinates = state.get<std::int64_t>(ops::names::kCoordinates);
  std::copy_n(values.begin(), coordinates.size(), coordinates.begin());
}

void set_first_position(const execute::State& state, const ops::StepConfig& step, const graph::Coordinates& at) {
  if (!state.contains(ops::names::kFirstPosition)) return;
  state.get<std::int64_t>(ops::names::kFirstPosition)[0] = ops::first_position(step, at);
}

void write_constants(const execute::State& state, const RunConfig& config, const graph::Coordinates& at) {
  set_coordinates(state, config.grid, at);
  set_first_position(state, step_config(config), at);
  if (config.dropout <= 0) return;
  if (!state.contains(ops::names::kRandom)) return;
  const auto random = state.get<std::int64_t>(ops::names::kRandom);
  random[0] = static_cast<std::int64_t>(config.seed);
  random[2] = ops::first_row(step_config(config), at);
}

void write_ids(const execute::State& state, const char* name, std::span<const std::int32_t> ids) {
  if (state.contains(name)) std::ranges::copy(ids, state.get<std::int32_t>(name).begin());
}

void write_scalars(const execute::State& state, const RunConfig& config, std::int64_t step,
                   std::optional<std::int64_t> counted, double decayed) {
  const auto scalars = state.get<float>(ops::names::kScalars);
  const auto t = static_cast<double>(step + 1);
  scalars[0] = static_cast<float>(learning_rate(config, step, decayed));
  scalars[1] = static_cast<float>(1 / (1 - std::pow(static_cast<double>(config.beta1), t)));
  scalars[2] = static_cast<float>(1 / (1 - std::pow(static_cast<double>(config.beta2), t)));
  // A step without a target that counts has gradients of 0.
  const std::int64_t targets = std::max<std::int64_t>(1, counted.value_or(config.global_batch * config.seq_len));
  scalars[3] = static_cast<float>(1 / static_cast<double>(targets));
  if (config.dropout > 0 && state.contains(ops::names::kRandom)) state.get<std::int64_t>(ops::names::kRandom)[1] = step;
}

void initialize_parameter(const ops::ParameterShard& shard, std::uint64_t seed, DType dtype, void* data,
                          float* master) {
  fill(shard, shard.begin, shard.end, seed, dtype, data);
  if (master != nullptr) fill(shard, shard.update_begin, shard.update_end, seed, DType::f32, master);
}

}  // namespace weft::train
