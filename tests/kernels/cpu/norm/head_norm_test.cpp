// Normalisation of heads against that of rows: the same values as a matrix with a row for each head.
#include "kernels/cpu/norm/head_norm.h"

#include <gtest/gtest.h>

#include "kernels/cpu/norm/norm.h"
#include "tests/kernels/reference.h"

namespace weft::cpu {
namespace {

using testing::Tensor;
using testing::Values;

constexpr float kHeadNormEps = 1e-6F;

struct HeadNormSizes {
  std::int64_t rows, heads, dim;
};

class HeadNorm : public testing::ForFloatTypes {};

// The heads lie between columns that aren't normalised, as queries and keys do in the result of QKV.
TEST_P(HeadNorm, IsTheNormOfARowForEachHead) {
  const DType dtype = GetParam();
  for (const HeadNormSizes& sizes : {HeadNormSizes{1, 1, 2}, {5, 3, 6}, {70, 4, 64}, {130, 2, 33}}) {
    const std::int64_t rows = sizes.rows, heads = sizes.heads, dim = sizes.dim;
    SCOPED_TRACE(::testing::Message() << rows << " x " << heads << " x " << dim);
    const std::int64_t cols = heads * dim;
    Tensor x = Tensor::random(dtype, rows, cols, 1, 2.0, 5), weight = Tensor::random(dtype, 1, dim, 2);
    Tensor dy = Tensor::random(dtype, rows, cols, 3, 1.0, 7);
    Tensor y(dtype, rows, cols, 3), dx(dtype, rows, cols, 1);
    Tensor rstd(DType::f32, 1, rows * heads), dweight(DType::f32, 1, dim, Values(static_cast<std::size_t>(dim), 0.5));
    testing::run_on_one_and_three_threads(
        head_norm_backward_scratch(rows, dim), {&y, &rstd, &dx}, [&](Workers& workers) {
          head_norm_forward(workers, kHeadNormEps, heads, x.view(), weight.view(), y.view(), rstd.view());
          Tensor any(DType::f32, 1, dim);
          head_norm_backward(workers, heads, x.view(), weight.view(), rstd.view(), dy.view(),
                             {dx.view(), any.view(), false});
        });
    Workers workers(2);
    workers.reserve(head_norm_backward_scratch(rows, dim));
    workers.reserve(norm_backward_scratch(false, rows * heads, dim));
    head_norm_backward(workers, heads, x.view(), weight.view(), rstd.view(), dy.view(),
                       {dx.view(), dweight.view(), true});

    Tensor x_rows(dtype, rows * heads, dim, x.values()), dy_rows(dtype, rows * heads, dim, dy.values());
    Tensor y_rows(dtype, rows * heads, dim), dx_rows(dtype, rows * heads, dim);
    Tensor rstd_rows(DType::f32, 1, rows * heads);
    Tensor dweight_rows(DType::f32, 1, dim, Values(static_cast<std::size_t>(dim), 0.5));
    const NormTensors norm{x_rows.view(), weight.view(), nullptr, rstd_rows.view()};
    norm_forward(workers, kHeadNormEps, norm, nullptr, y_rows.view());
    norm_backward(workers, norm, dy_rows.view(), {dx_rows.view(), dweight_rows.view(), nullptr, nullptr, true});
    const testing::Tolerance close = testing::tolerance_of(dtype, 1e-6);
    testing::expect_close(y.values(), y_rows.values(), close, "y");
    testing::expect_close(rstd.values(), rstd_rows.values(), {1e-6, 1e-6}, "rstd");
    testing::expect_close(dx.values(), dx_rows.values(), close, "dx");
    testing::expect_close(dweight.values(), dweight_rows.values(), {1e-5, 1e-4}, "dweight");
  }
}

INSTANTIATE_TEST_SUITE_P(Types, HeadNorm, testing::both_float_types(), testing::type_name);

}  // namespace
}  // namespace weft::cpu
