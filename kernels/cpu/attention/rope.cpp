// Rotary position embedding; see attention.h.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/vector_math.h"

namespace weft::cpu {

namespace {

double scaled_as_llama3(double f, const RopeScaling& scaling) {
  const double low = scaling.low_freq_factor, high = scaling.high_freq_factor;
  const double turns = scaling.original_context * f / (2.0 * std::numbers::pi);  // context / wavelength
  if (turns < low) return f / scaling.factor;
  if (turns > high) return f;
  const double smooth = (turns - low) / (high - low);
  return (1.0 - smooth) * f / scaling.factor + smooth * f;
}

// The pairs between which yarn blends: up to the first frequencies are kept, from the second on they are divided.
struct YarnBounds {
  double kept, divided;
};

YarnBounds yarn_bounds(std::int64_t head_dim, double theta, const RopeScaling& scaling) {
  const auto dim = static_cast<double>(head_dim);
  // The pair of elements that turns `turns` times within the original context.
  const auto pair_of = [&](double turns) {
    return dim * std::log(scaling.original_context / (turns * 2.0 * std::numbers::pi)) / (2.0 * std::log(theta));
  };
  double kept = pair_of(scaling.high_freq_factor), divided = pair_of(scaling.low_freq_factor);
  if (!scaling.fractional) kept = std::floor(kept), divided = std::ceil(divided);
  kept = std::max(kept, 0.0), divided = std::min(divided, dim - 1.0);
  return {kept, kept == divided ? divided + 0.001 : divided};
}

}  // namespace

std::vector<float> rope_frequencies(std::int64_t head_dim, float theta, const RopeScaling& scaling) {
  std::vector<float> frequencies(static_cast<std::size_t>(head_dim / 2));
  const YarnBounds bounds = yarn_bounds(head_dim, theta, scaling);
  for (std::size_t j = 0; j < frequencies.size(); ++j) {
    const auto pair = static_cast<double>(j);
    double f = std::pow(static_cast<double>(theta), -2.0 * pair / static_cast<double>(head_dim));
    if (scaling.factor != 1.0F) {
      switch (scaling.kind) {
        case RopeScaling::Kind::llama3:
          f = scaled_as_llama3(f, scaling);
          break;
        case RopeScaling::Kind::linear:
          f /= scaling.factor;
          break;
        case RopeScaling::Kind::yarn: {
          const double part = std::clamp((pair - bounds.kept) / (bounds.divided - bounds.kept), 0.0, 1.0);
          f = (1.0 - part) * f + part * f / scaling.factor;
          break;
        }
      }
    }
    frequencies[j] = static_cast<float>(f);
  }
  return frequencies;
}

void rope(Workers& workers, std::span<const float> frequencies, std::int64_t heads, std::int64_t seq_len,
          std::int64_t offset, bool inverse, const Matrix& x, float factor) {
  const auto half = static_cast<std::int64_t>(frequencies.size());
  with_element_type(x.dtype, [&]<class T>(std::type_identity<T>) {
    for_rows(workers, x.rows, x.cols, [&](std::int64_t row) {
      // One row's angles serve all its heads. As in the reference implementation, angles are products in fp32.
      ScratchParts scratch(workers.worker_scratch());
      float* cosine = scratch.floats(half);
      float* sine = scratch.floats(half);
      const auto position = static_cast<float>(offset + row % seq_len);
      for_vectors(half, [&](std::int64_t i, auto lanes) {
        const SineCosine turn = sine_cosine(lanes.load(frequencies.data() + i) * position);
        lanes.store(cosine + i, turn.cosine * factor);
        lanes.store(sine + i, (inverse ? -turn.sine : turn.sine) * factor);
      });
      for (std::int64_t head = 0; head < heads; ++head) {
        T* a = elements<T>(x, row) + head * 2 * half;
        T* b = a + half;
        for_vectors(half, [&](std::int64_t i, auto lanes) {
          const Floats c = lanes.load(cosine + i), s = lanes.load(sine + i);
          const Floats left = lanes.load(a + i), right = lanes.load(b + i);
          lanes.store(a + i, left * c - right * s);
          lanes.store(b + i, right * c + left * s);
        });
      }
    });
  });
}

Scratch rope_scratch(std::int64_t head_dim) {
  return {2 * ScratchParts::bytes(head_dim / 2), 0};
}

}  // namespace weft::cpu
