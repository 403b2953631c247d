// Normalisation of rows divided into parts; see norm_parts.h.
#include "kernels/cpu/norm/norm_parts.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/elementwise/column_sums.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {
namespace {

float mean_of(const NormTensors& norm, std::int64_t row) {
  return norm.mean != nullptr ? norm.mean->f32()[row] : 0.0F;
}

struct Moments {
  float mean, squares;  // squares: Σ (x − mean)²
};

// All parts have the same number of columns, so the p-th part joins p others of its size.
Moments combined(const float* statistics, std::int64_t parts, std::int64_t rows, std::int64_t row, std::int64_t cols) {
  Moments all{statistics[row * 2], statistics[row * 2 + 1]};
  for (std::int64_t p = 1; p < parts; ++p) {
    const float* part = statistics + (p * rows + row) * 2;
    const auto before = static_cast<float>(p);
    const float delta = part[0] - all.mean, share = 1.0F / (before + 1.0F);
    all.mean += delta * share;
    all.squares += part[1] + delta * delta * (static_cast<float>(cols) * before * share);
  }
  return all;
}

// Distance in elements from a row to the row that is fetched meanwhile: parts of rows are short, and a memory access
// takes longer than computing one part.
template <class T>
std::int64_t fetched_distance(std::int64_t row_stride) {
  constexpr std::int64_t kBytes = 3072;
  const std::int64_t row = std::max<std::int64_t>(1, row_stride);
  return ceil_div(kBytes, row * static_cast<std::int64_t>(sizeof(T))) * row;
}

}  // namespace

void norm_statistics(Workers& workers, bool centered, const Matrix& x, const Matrix& statistics) {
  const auto run = [&]<class T>(std::type_identity<T>) {
    const std::int64_t cols = x.cols, distance = fetched_distance<T>(x.row_stride);
    for_rows(workers, x.rows, cols, [&](std::int64_t row) {
      const T* in = elements<T>(x, row);
      float m = 0.0F;
      if (centered) {
        m = sum_of(
                cols, [](Floats v) { return v; }, in) *
            (1.0F / static_cast<float>(cols));
      }
      const float squares = sum_of(
          cols, [&](Floats v) { return (v - m) * (v - m); }, Fetching<T>{in, in + distance});
      float* out = statistics.f32() + row * (centered ? 2 : 1);
      if (centered) *out++ = m;
      *out = squares;
    });
  };
  with_element_type(run, x);
}

void norm_forward_of_parts(Workers& workers, std::int64_t parts, float eps, const NormTensors& norm, const Matrix* bias,
                           const Matrix& statistics, const Matrix& y) {
  const Matrix& x = norm.x;
  const Matrix& shift = bias != nullptr ? *bias : norm.weight;
  const auto run = [&]<class T>(std::type_identity<T>) {
    const std::int64_t cols = x.cols;
    const auto total_cols = static_cast<float>(parts * cols);
    const T* w = elements<T>(norm.weight);
    const T* b = bias != nullptr ? elements<T>(shift) : nullptr;
    for_rows(workers, x.rows, cols, [&](std::int64_t row) {
      const T* in = elements<T>(x, row);
      T* out = elements<T>(y, row);
      Moments moments{0.0F, 0.0F};
      if (norm.mean != nullptr) {
        moments = combined(statistics.f32(), parts, x.rows, row, cols);
        norm.mean->f32()[row] = moments.mean;
      } else {
        for (std::int64_t p = 0; p < parts; ++p) moments.squares += statistics.f32()[p * x.rows + row];
      }
      const float m = moments.mean, s = 1.0F / std::sqrt(moments.squares / total_cols + eps);
      norm.rstd.f32()[row] = s;
      for_vectors(cols, [&](std::int64_t i, auto lanes) {
        Floats value = (lanes.load(in + i) - m) * s * lanes.load(w + i);
        if (b != nullptr) value += lanes.load(b + i);
        lanes.store(out + i, value);
      });
    });
  };
  with_element_type(run, x, norm.weight, shift, y);
}

void norm_backward_sums(Workers& workers, const NormTensors& norm, const Matrix& dy, const Matrix& sums) {
  const Matrix& x = norm.x;
  const bool centered = norm.mean != nullptr;
  const auto run = [&]<class T>(std::type_identity<T>) {
    const T* w = elements<T>(norm.weight);
    for_rows(workers, x.rows, x.cols, [&](std::int64_t row) {
      const T* in = elements<T>(x, row);
      const T* dout = elements<T>(dy, row);
      const float m = mean_of(norm, row), s = norm.rstd.f32()[row];
      Floats g_total{};
      const float gx_total = sum_vectors(x.cols, [&](std::int64_t i, auto lanes) {
        const Floats g = lanes.load(dout + i) * lanes.load(w + i);
        g_total += g;
        return g * ((lanes.load(in + i) - m) * s);
      });
      float* out = sums.f32() + row * (centered ? 2 : 1);
      if (centered) *out++ = sum(g_total);
      *out = gx_total;
    });
  };
  with_element_type(run, x, norm.weight, dy);
}

void norm_backward_of_parts(Workers& workers, std::int64_t parts, const NormTensors& norm, const Matrix& dy,
                            const Matrix& sums, const NormGradients& gradients) {
  const Matrix& x = norm.x;
  const Matrix& residual = gradients.dresidual != nullptr ? *gradients.dresidual : dy;
  const bool centered = norm.mean != nullptr;
  const auto run = [&]<class T>(std::type_identity<T>) {
    const std::int64_t cols = x.cols;
    const auto total_cols = static_cast<float>(parts * cols);
    const T* w = elements<T>(norm.weight);
    ColumnSums<T> column_sums(workers, x.rows, cols, centered ? 2 : 1);
    column_sums.accumulate([&](std::int64_t first, std::int64_t end, float* partial) {
      for (std::int64_t row = first; row < end; ++row) {
        const T* in = elements<T>(x, row);
        const T* dout = elements<T>(dy, row);
        const T* extra = gradients.dresidual != nullptr ? elements<T>(residual, row) : nullptr;
        T* dx = elements<T>(gradients.dx, row);
        const float* of_row = sums.f32() + row * (centered ? 2 : 1);
        const float m = mean_of(norm, row), s = norm.rstd.f32()[row];
        const float g_mean = centered ? of_row[0] / total_cols : 0.0F, gx_mean = of_row[centered ? 1 : 0] / total_cols;
        // Before dx is written, which may be in dy's memory.
        column_sums.add_to(
            partial, [&](Floats d, Floats v) { return d * ((v - m) * s); }, dout, in);
        if (centered) {
          column_sums.add_to(
              partial + column_sums.stride(), [](Floats d) { return d; }, dout);
        }
        for_vectors(cols, [&](std::int64_t i, auto lanes) {
          const Floats d = lanes.load(dout + i), normal = (lanes.load(in + i) - m) * s;
          Floats gradient = s * (d * lanes.load(w + i) - g_mean - normal * gx_mean);
          if (extra != nullptr) gradient += lanes.load(extra + i);
          lanes.store(dx + i, gradient);
        });
      }
    });
    column_sums.combine(0, gradients.dweight.f32(), gradients.accumulate);
    if (centered) column_sums.combine(1, gradients.dbias->f32(), gradients.accumulate);
  };
  with_element_type(run, x, norm.weight, dy, gradients.dx, residual);
}

}  // namespace weft::cpu
