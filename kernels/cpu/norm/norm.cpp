// Normalisation of whole rows, of rows divided into parts, and of heads; see norm.h.
#include "kernels/cpu/norm/norm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/elementwise/column_sums.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {

// Adds one row to the column sums Σ dy·x̂ with x̂ = x·rstd, in load_pair's order of elements (see ColumnSums); returns
// Σ dy·weight·x̂ of the row.
template <class T>
float accumulate_rms_row(std::int64_t cols, const T* x, const T* dy, const T* weight, float rstd, float* dweight) {
  Floats totals[2] = {};
  const auto step = [&](std::int64_t i, int k, Floats value, Floats d, Floats w) {
    const Floats d_normal = d * (value * rstd);
    store(dweight + i, load(dweight + i) + d_normal);
    totals[k] += d_normal * w;
  };
  for_pairs(cols, step, x, dy, weight);
  return sum(totals[0] + totals[1]);
}

namespace {

// Adds one row to both column sums; returns Σ g and Σ g·x̂.
template <class T>
std::pair<float, float> accumulate_row(std::int64_t cols, const T* x, const T* dy, const T* weight, float mean,
                                       float rstd, float* dweight, float* dbias) {
  Floats g_sums[2] = {}, gx_sums[2] = {};
  const auto step = [&](std::int64_t i, int k, Floats value, Floats d, Floats w) {
    const Floats normal = (value - mean) * rstd, g = d * w;
    store(dweight + i, load(dweight + i) + d * normal);
    store(dbias + i, load(dbias + i) + d);
    g_sums[k] += g;
    gx_sums[k] += g * normal;
  };
  for_pairs(cols, step, x, dy, weight);
  return {sum(g_sums[0] + g_sums[1]), sum(gx_sums[0] + gx_sums[1])};
}

template <bool kCentered, class T>
void normalize_row(float eps, const NormTensors& norm, const Matrix* bias, const Matrix& y, std::int64_t row) {
  const std::int64_t cols = norm.x.cols;
  const T *in = elements<T>(norm.x, row), *w = elements<T>(norm.weight);
  T* out = elements<T>(y, row);
  const Fetching<T> first{in, out}, second{in, in + norm.x.row_stride};
  float s = 0.0F;
  if constexpr (kCentered) {
    const float inverse_cols = 1.0F / static_cast<float>(cols);
    const float m = sum_of(
                        cols, [](Floats v) { return v; }, first) *
                    inverse_cols;
    const float variance = sum_of(
                               cols, [&](Floats v) { return (v - m) * (v - m); }, second) *
                           inverse_cols;
    s = 1.0F / std::sqrt(variance + eps);
    transform(
        cols, out, [&](Floats v, Floats scale, Floats b) { return (v - m) * s * scale + b; }, in, w,
        static_cast<const T*>(elements<T>(*bias)));
    norm.mean->f32()[row] = m;
  } else {
    const float squares = sum_of(
        cols, [](Floats v) { return v * v; }, first);
    s = 1.0F / std::sqrt(squares / static_cast<float>(cols) + eps);
    transform(
        cols, out, [&](Floats v, Floats scale) { return v * s * scale; }, second, w);
  }
  norm.rstd.f32()[row] = s;
}

// Adds the row to the column sums and writes its dx.
template <bool kCentered, class T>
void differentiate_row(const NormTensors& norm, const Matrix& dy, const NormGradients& gradients, std::int64_t row,
                       float* dweight, float* dbias) {
  const std::int64_t cols = norm.x.cols;
  const T *in = elements<T>(norm.x, row), *dout = elements<T>(dy, row), *w = elements<T>(norm.weight);
  const float s = norm.rstd.f32()[row];
  const auto write = [&](const auto& gradient) {
    T* dx = elements<T>(gradients.dx, row);
    const Fetching<T> value{in, in + norm.x.row_stride}, d{dout, dout + dy.row_stride};
    if (gradients.dresidual == nullptr) {
      transform(cols, dx, gradient, value, d, w);
    } else {
      transform(
          cols, dx, [&](Floats v, Floats g, Floats scale, Floats extra) { return gradient(v, g, scale) + extra; },
          value, d, w, static_cast<const T*>(elements<T>(*gradients.dresidual, row)));
    }
  };
  if constexpr (kCentered) {
    const float m = norm.mean->f32()[row];
    const auto [g_total, gx_total] = accumulate_row(cols, in, dout, w, m, s, dweight, dbias);
    const float g_mean = g_total / static_cast<float>(cols), gx_mean = gx_total / static_cast<float>(cols);
    write([&](Floats value, Floats d, Floats scale) { return s * (d * scale - g_mean - (value - m) * s * gx_mean); });
  } else {
    const float slope = s * (accumulate_rms_row(cols, in, dout, w, s, dweight) / static_cast<float>(cols));
    write([&](Floats value, Floats d, Floats scale) { return s * (d * scale - value * slope); });
  }
}

}  // namespace

void norm_forward(Workers& workers, float eps, const NormTensors& norm, const Matrix* bias, const Matrix& y) {
  const Matrix& shift = bias != nullptr ? *bias : y;
  with_element_type(common_dtype(norm.x, norm.weight, shift, y), [&]<class T>(std::type_identity<T>) {
    for_rows(workers, norm.x.rows, norm.x.cols, [&](std::int64_t row) {
      norm.mean != nullptr ? normalize_row<true, T>(eps, norm, bias, y, row)
                           : normalize_row<false, T>(eps, norm, bias, y, row);
    });
  });
}

void norm_backward(Workers& workers, const NormTensors& norm, const Matrix& dy, const NormGradients& gradients) {
  const bool centered = norm.mean != nullptr;
  const Matrix& residual = gradients.dresidual != nullptr ? *gradients.dresidual : dy;
  const DType dtype = common_dtype(norm.x, norm.weight, dy, gradients.dx, residual);
  with_element_type(dtype, [&]<class T>(std::type_identity<T>) {
    ColumnSums<T> sums(workers, norm.x.rows, norm.x.cols, centered ? 2 : 1);
    sums.accumulate([&](std::int64_t first, std::int64_t end, float* partial) {
      for (std::int64_t row = first; row < end; ++row) {
        centered ? differentiate_row<true, T>(norm, dy, gradients, row, partial, partial + sums.stride())
                 : differentiate_row<false, T>(norm, dy, gradients, row, partial, nullptr);
      }
    });
    sums.combine(0, gradients.dweight.f32(), gradients.accumulate);
    if (centered) sums.combine(1, gradients.dbias->f32(), gradients.accumulate);
  });
}

Scratch norm_backward_scratch(bool centered, std::int64_t rows, std::int64_t cols) {
  return column_sums_scratch(rows, cols, centered ? 2 : 1);
}

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
  with_element_type(x.dtype, [&]<class T>(std::type_identity<T>) {
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
  });
}

void norm_forward_of_parts(Workers& workers, std::int64_t parts, float eps, const NormTensors& norm, const Matrix* bias,
                           const Matrix& statistics, const Matrix& y) {
  const Matrix& x = norm.x;
  const Matrix& shift = bias != nullptr ? *bias : norm.weight;
  with_element_type(common_dtype(x, norm.weight, shift, y), [&]<class T>(std::type_identity<T>) {
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
  });
}

void norm_backward_sums(Workers& workers, const NormTensors& norm, const Matrix& dy, const Matrix& sums) {
  const Matrix& x = norm.x;
  const bool centered = norm.mean != nullptr;
  with_element_type(common_dtype(x, norm.weight, dy), [&]<class T>(std::type_identity<T>) {
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
  });
}

void norm_backward_of_parts(Workers& workers, std::int64_t parts, const NormTensors& norm, const Matrix& dy,
                            const Matrix& sums, const NormGradients& gradients) {
  const Matrix& x = norm.x;
  const Matrix& residual = gradients.dresidual != nullptr ? *gradients.dresidual : dy;
  const bool centered = norm.mean != nullptr;
  with_element_type(common_dtype(x, norm.weight, dy, gradients.dx, residual), [&]<class T>(std::type_identity<T>) {
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
  });
}

void head_norm_forward(Workers& workers, float eps, std::int64_t heads, const Matrix& x, const Matrix& weight,
                       const Matrix& y, const Matrix& rstd) {
  with_element_type(common_dtype(x, weight, y), [&]<class T>(std::type_identity<T>) {
    const std::int64_t dim = x.cols / heads;
    for_rows(workers, x.rows, x.cols, [&](std::int64_t row) {
      for (std::int64_t head = 0; head < heads; ++head) {
        const T* in = elements<T>(x, row) + head * dim;
        const float squares = sum_of(
            dim, [](Floats v) { return v * v; }, in);
        const float s = 1.0F / std::sqrt(squares / static_cast<float>(dim) + eps);
        transform(
            dim, elements<T>(y, row) + head * dim, [&](Floats v, Floats w) { return v * s * w; }, in,
            static_cast<const T*>(elements<T>(weight)));
        rstd.f32()[row * heads + head] = s;
      }
    });
  });
}

void head_norm_backward(Workers& workers, std::int64_t heads, const Matrix& x, const Matrix& weight, const Matrix& rstd,
                        const Matrix& dy, const HeadNormGradients& gradients) {
  with_element_type(common_dtype(x, weight, dy, gradients.dx), [&]<class T>(std::type_identity<T>) {
    const std::int64_t dim = x.cols / heads;
    const T* w = elements<T>(weight);
    ColumnSums<T> sums(workers, x.rows, dim, 1);
    sums.accumulate([&](std::int64_t first, std::int64_t end, float* partial) {
      for (std::int64_t row = first; row < end; ++row) {
        for (std::int64_t head = 0; head < heads; ++head) {
          const T* in = elements<T>(x, row) + head * dim;
          const T* dout = elements<T>(dy, row) + head * dim;
          const float s = rstd.f32()[row * heads + head];
          const float slope = s * accumulate_rms_row(dim, in, dout, w, s, partial) / static_cast<float>(dim);
          transform(
              dim, elements<T>(gradients.dx, row) + head * dim,
              [&](Floats value, Floats d, Floats scale) { return s * (d * scale - value * slope); }, in, dout, w);
        }
      }
    });
    sums.combine(0, gradients.dweight.f32(), gradients.accumulate);
  });
}

Scratch head_norm_backward_scratch(std::int64_t rows, std::int64_t head_dim) {
  return column_sums_scratch(rows, head_dim, 1);
}

}  // namespace weft::cpu
