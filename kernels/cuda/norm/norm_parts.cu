// Normalisation of rows divided into parts; see norm_parts.h.
#include <type_traits>

#include "kernels/cuda/norm/norm_backward.cuh"
#include "kernels/cuda/norm/norm_forward.cuh"
#include "kernels/cuda/norm/norm_parts.h"

namespace weft::cuda {
namespace {

template <bool kCentered>
void statistics_of(const Launch& launch, const Matrix& x, float* statistics) {
  with_float_type(x.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    norm::with_held_rows(x.cols, vectorizable(x), [&](auto vectors, auto width, const norm::Teams& teams) {
      start("norm_statistics", launch,
            norm::statistics_kernel<T, kCentered, decltype(vectors)::value, decltype(width)::value>,
            teams.blocks(x.rows), teams.threads(), 0, static_cast<const T*>(x.data), x.row_stride, x.rows,
            static_cast<int>(x.cols), 1.0F / static_cast<float>(x.cols), statistics);
    });
  });
}

template <bool kCentered>
void backward_sums(const Launch& launch, const NormPartTensors& norm, const Matrix& dy, float* sums) {
  const norm::BackwardTensors tensors{norm.x, norm.weight, norm.mean, norm.rstd, dy, nullptr, nullptr, nullptr, 1};
  const bool wide = vectorizable(norm.x) && vectorizable(norm.weight) && vectorizable(dy);
  with_float_type(norm.x.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    norm::Backward<T> b = norm::arguments_of<T>(tensors);
    b.sums_out = sums;
    norm::with_passing_rows(norm.x.cols, wide, [&](auto, auto width, const norm::Teams& teams) {
      start("norm_backward_sums", launch, norm::row_sums_kernel<T, kCentered, decltype(width)::value>,
            teams.blocks(b.rows), teams.threads(), 0, b);
    });
  });
}

}  // namespace

void norm_statistics(const Launch& launch, bool centered, const Matrix& x, const Matrix& statistics) {
  if (x.rows == 0) return;
  if (centered) {
    statistics_of<true>(launch, x, statistics.f32());
  } else {
    statistics_of<false>(launch, x, statistics.f32());
  }
}

void norm_forward_of_parts(const Launch& launch, std::int64_t parts, float eps, const NormPartTensors& norm,
                           const Matrix* bias, const Matrix& statistics, const Matrix& y) {
  const norm::ForwardTensors tensors{norm.x, norm.weight, bias, y, norm.mean, norm.rstd, &statistics, parts};
  if (norm.mean != nullptr) {
    norm::forward<true, true>(launch, eps, tensors);
  } else {
    norm::forward<false, true>(launch, eps, tensors);
  }
}

void norm_backward_sums(const Launch& launch, const NormPartTensors& norm, const Matrix& dy, const Matrix& sums) {
  require_one_type(norm.x, norm.weight, dy);
  if (norm.x.rows == 0) return;
  if (norm.mean != nullptr) {
    backward_sums<true>(launch, norm, dy, sums.f32());
  } else {
    backward_sums<false>(launch, norm, dy, sums.f32());
  }
}

void norm_backward_of_parts(const Launch& launch, std::int64_t parts, const NormPartTensors& norm, const Matrix& dy,
                            const Matrix& sums, const NormPartGradients& gradients) {
  const norm::BackwardTensors tensors{norm.x,        norm.weight,         norm.mean, norm.rstd, dy,
                                      &gradients.dx, gradients.dresidual, &sums,     parts};
  float* const dweight = gradients.dweight.f32();
  if (norm.mean != nullptr) {
    norm::backward<true, true>(launch, tensors, dweight, gradients.dbias->f32(), gradients.accumulate);
  } else {
    norm::backward<false, true>(launch, tensors, dweight, nullptr, gradients.accumulate);
  }
}

std::int64_t norm_backward_of_parts_scratch_bytes(bool centered, std::int64_t rows, std::int64_t cols) {
  return norm::backward_scratch_bytes(centered, rows, cols);
}

}  // namespace weft::cuda
