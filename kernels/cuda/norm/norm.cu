// Normalisation of whole rows and of rows divided into parts; see norm.h.
#include "kernels/cuda/norm/norm.h"
#include "kernels/cuda/norm/norm_backward.cuh"
#include "kernels/cuda/norm/norm_forward.cuh"

namespace weft::cuda {

void norm_forward(const Launch& launch, float eps, const NormTensors& norm, const Matrix* bias, const Matrix& y) {
  norm::forward<false>(launch, eps, norm, bias, y, nullptr, 1);
}

void norm_backward(const Launch& launch, const NormTensors& norm, const Matrix& dy, const NormGradients& gradients) {
  norm::backward<false>(launch, norm, dy, gradients, nullptr, 1);
}

std::int64_t norm_backward_scratch_bytes(bool centered, std::int64_t rows, std::int64_t cols) {
  return norm::backward_scratch_bytes(centered, rows, cols);
}

void norm_statistics(const Launch& launch, bool centered, const Matrix& x, const Matrix& statistics) {
  if (x.rows == 0) return;
  norm::with_kind(x.dtype, centered, [&]<class T, bool kCentered>(norm::Kind<T, kCentered>) {
    norm::with_held_rows(x.cols, vectorizable(x), [&](auto vectors, auto width, const norm::Teams& teams) {
      start("norm_statistics", launch,
            norm::statistics_kernel<T, kCentered, decltype(vectors)::value, decltype(width)::value>,
            teams.blocks(x.rows), teams.threads(), 0, data_of<const T>(x), x.row_stride, x.rows,
            static_cast<int>(x.cols), 1.0F / static_cast<float>(x.cols), statistics.f32());
    });
  });
}

void norm_forward_of_parts(const Launch& launch, std::int64_t parts, float eps, const NormTensors& norm,
                           const Matrix* bias, const Matrix& statistics, const Matrix& y) {
  norm::forward<true>(launch, eps, norm, bias, y, &statistics, parts);
}

void norm_backward_sums(const Launch& launch, const NormTensors& norm, const Matrix& dy, const Matrix& sums) {
  require_one_type(norm.x, norm.weight, dy);
  if (norm.x.rows == 0) return;
  const bool wide = vectorizable(norm.x) && vectorizable(norm.weight) && vectorizable(dy);
  norm::with_kind(norm.x.dtype, norm.mean != nullptr, [&]<class T, bool kCentered>(norm::Kind<T, kCentered>) {
    norm::Backward<T> b = norm::arguments_of<T>(norm, dy, 1);
    b.sums_out = sums.f32();
    norm::with_passing_rows(norm.x.cols, wide, [&](auto, auto width, const norm::Teams& teams) {
      start("norm_backward_sums", launch, norm::row_sums_kernel<T, kCentered, decltype(width)::value>,
            teams.blocks(b.rows), teams.threads(), 0, b);
    });
  });
}

void norm_backward_of_parts(const Launch& launch, std::int64_t parts, const NormTensors& norm, const Matrix& dy,
                            const Matrix& sums, const NormGradients& gradients) {
  norm::backward<true>(launch, norm, dy, gradients, &sums, parts);
}

}  // namespace weft::cuda
