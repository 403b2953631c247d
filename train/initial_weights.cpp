#include "train/initial_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/philox.h"

namespace weft {
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

}  // namespace

void initialize_parameter(const ParameterSpec& spec, std::uint64_t seed, DType dtype, void* data, float* master) {
  const std::int64_t n = spec.rows * spec.cols;
  const auto store = [&](std::int64_t i, float value) {
    if (dtype == DType::bf16) {
      static_cast<bf16*>(data)[i] = bf16(value);
    } else {
      static_cast<float*>(data)[i] = value;
    }
    if (master != nullptr) master[i] = value;
  };
  if (spec.init != Init::normal) {
    for (std::int64_t i = 0; i < n; ++i) store(i, spec.init == Init::ones ? 1.0F : 0.0F);
    return;
  }
  for (std::int64_t i = 0; i < n; i += 4) {
    const auto four = normals(philox_quad(seed, kInitialStep, spec.site, static_cast<std::uint64_t>(i / 4)));
    for (std::int64_t j = i; j < std::min(n, i + 4); ++j) {
      store(j, static_cast<float>(four[static_cast<std::size_t>(j - i)] * spec.std));
    }
  }
}

}  // namespace weft
