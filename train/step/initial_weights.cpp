#include "train/step/initial_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/philox.h"

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

}  // namespace

void initialize_parameter(const ops::ParameterShard& shard, std::uint64_t seed, DType dtype, void* data,
                          float* master) {
  fill(shard, shard.begin, shard.end, seed, dtype, data);
  if (master != nullptr) fill(shard, shard.update_begin, shard.update_end, seed, DType::f32, master);
}

void initialize_parameter(const ops::ParameterSpec& spec, std::uint64_t seed, DType dtype, void* data, float* master) {
  draw(spec, seed, 0, spec.rows * spec.cols, [&](std::int64_t i, float value) {
    set(data, dtype, i, value);
    if (master != nullptr) master[i] = value;
  });
}

}  // namespace weft::train
