// Gradient norm and AdamW; see elementwise.h.
#include <cmath>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/elementwise/elementwise.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {
namespace {

double sum_squares_of(const float* x, std::int64_t n) {
  constexpr std::int64_t kSums = 8;
  HalfDoubles sums[kSums] = {};
  std::int64_t i = 0;
  for (; i + kSums * kHalf <= n; i += kSums * kHalf) {
    for (std::int64_t k = 0; k < kSums; ++k) {
      const HalfDoubles value = load_doubles(x + i + k * kHalf);
      sums[k] += value * value;
    }
  }
  HalfDoubles all{};
  for (const HalfDoubles& sum : sums) all += sum;
  double total = 0;
  for (std::int64_t lane = 0; lane < kHalf; ++lane) total += all[lane];
  for (; i < n; ++i) total += static_cast<double>(x[i]) * x[i];
  return total;
}

std::int64_t pieces_of(std::int64_t rows, std::int64_t cols) {
  return rows * ceil_div(cols, kChunkElements);
}

}  // namespace

void sum_squares(Workers& workers, const Matrix& x, const Matrix& partial, bool owner) {
  if (!owner) {
    partial.f32()[0] = 0.0F;
    return;
  }
  const auto views = common_shape(x);
  const std::int64_t rows = views[0].rows, cols = views[0].cols, per_row = ceil_div(cols, kChunkElements);
  auto* sums = reinterpret_cast<double*>(workers.shared_scratch());
  for_pieces(workers, rows, cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
    sums[row * per_row + begin / kChunkElements] = sum_squares_of(elements<float>(views[0], row) + begin, n);
  });
  double total = 0;
  for (std::int64_t i = 0; i < pieces_of(rows, cols); ++i) total += sums[i];
  partial.f32()[0] = static_cast<float>(total);
}

Scratch sum_squares_scratch(const Matrix& x) {
  const auto views = common_shape(x);
  return {0, static_cast<std::size_t>(pieces_of(views[0].rows, views[0].cols)) * sizeof(double)};
}

void clip_factor(Workers& workers, const Matrix& partials, float max_norm, const Matrix& norm_and_factor) {
  workers.run(1, [&](std::int64_t) {
    double total = 0;
    for (std::int64_t i = 0; i < count(partials); ++i) total += partials.f32()[i];
    const auto norm = static_cast<float>(std::sqrt(total));
    const float ratio = max_norm / (norm + 1e-6F);
    norm_and_factor.f32()[0] = norm;
    norm_and_factor.f32()[1] = max_norm <= 0.0F || ratio > 1.0F ? 1.0F : ratio;  // a NaN norm gives a NaN factor
  });
}

void adamw(Workers& workers, const AdamWSettings& settings, const AdamWStep& step, const Matrix& param,
           const Matrix& grad, const Matrix& m, const Matrix& v, const Matrix* master) {
  const auto views = common_shape(param, grad, m, v, master != nullptr ? *master : m);
  const float lr = step.scalars.f32()[0], correct1 = step.scalars.f32()[1], correct2 = step.scalars.f32()[2];
  const float factor = step.norm_and_factor != nullptr ? step.norm_and_factor->f32()[1] : 1.0F;
  const AdamWSettings s = settings;
  with_element_type(param.dtype, [&]<class T>(std::type_identity<T>) {
    for_pieces(workers, views[0].rows, views[0].cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
      T* p = elements<T>(views[0], row) + begin;
      const float* g = elements<float>(views[1], row) + begin;
      float* first = elements<float>(views[2], row) + begin;
      float* second = elements<float>(views[3], row) + begin;
      float* exact = master != nullptr ? elements<float>(views[4], row) + begin : nullptr;
      for_vectors(n, [&](std::int64_t i, auto lanes) {
        const Floats gradient = lanes.load(g + i) * factor;
        const Floats new_first = s.beta1 * lanes.load(first + i) + (1.0F - s.beta1) * gradient;
        const Floats new_second = s.beta2 * lanes.load(second + i) + (1.0F - s.beta2) * gradient * gradient;
        const Floats weight = exact != nullptr ? lanes.load(exact + i) : lanes.load(p + i);
        const Floats direction = new_first * correct1 / (sqrt(new_second * correct2) + s.eps);
        const Floats updated = weight - lr * (direction + s.weight_decay * weight);
        lanes.store(first + i, new_first);
        lanes.store(second + i, new_second);
        if (exact != nullptr) lanes.store(exact + i, updated);
        lanes.store(p + i, updated);
      });
    });
  });
}

}  // namespace weft::cpu
