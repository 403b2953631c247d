// Rotary position embedding; see rope.h.
#include "kernels/cpu/attention/rope.h"

#include <cmath>
#include <numbers>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/vector_math.h"

namespace weft::cpu {

std::vector<float> rope_frequencies(std::int64_t head_dim, float theta, const RopeScaling& scaling) {
  std::vector<float> frequencies(static_cast<std::size_t>(head_dim / 2));
  for (std::size_t j = 0; j < frequencies.size(); ++j) {
    double f = std::pow(static_cast<double>(theta), -2.0 * static_cast<double>(j) / static_cast<double>(head_dim));
    if (scaling.factor != 1.0F) {
      const double low = scaling.low_freq_factor, high = scaling.high_freq_factor;
      const double turns = scaling.original_context * f / (2.0 * std::numbers::pi);  // context / wavelength
      if (turns < low) {
        f /= scaling.factor;
      } else if (turns <= high) {
        const double smooth = (turns - low) / (high - low);
        f = (1.0 - smooth) * f / scaling.factor + smooth * f;
      }
    }
    frequencies[j] = static_cast<float>(f);
  }
  return frequencies;
}

void rope(Workers& workers, std::span<const float> frequencies, std::int64_t heads, std::int64_t seq_len,
          std::int64_t offset, bool inverse, const Matrix& x) {
  const auto half = static_cast<std::int64_t>(frequencies.size());
  const auto run = [&]<class T>(std::type_identity<T>) {
    for_rows(workers, x.rows, x.cols, [&](std::int64_t row) {
      // One row's angles serve all its heads. As in the reference implementation, angles are products in fp32.
      ScratchParts scratch(workers.worker_scratch());
      float* cosine = scratch.floats(half);
      float* sine = scratch.floats(half);
      const auto position = static_cast<float>(offset + row % seq_len);
      for_vectors(half, [&](std::int64_t i, auto lanes) {
        const SineCosine turn = sine_cosine(lanes.load(frequencies.data() + i) * position);
        lanes.store(cosine + i, turn.cosine);
        lanes.store(sine + i, inverse ? -turn.sine : turn.sine);
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
  };
  with_element_type(run, x);
}

Scratch rope_scratch(std::int64_t head_dim) {
  return {2 * ScratchParts::bytes(head_dim / 2), 0};
}

}  // namespace weft::cpu
