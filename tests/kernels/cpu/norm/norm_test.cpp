// Norms of whole rows and of rows in parts against double precision, whose gradients are central differences, and norms
// of heads against norms of rows.
#include "kernels/cpu/norm/norm.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/kernels/cpu/norm/norm_case.h"
#include "tests/kernels/reference.h"

namespace weft::cpu {

namespace {

using testing::Tensor;
using testing::Values;

class WholeNorms : public testing::NormKinds {};

TEST_P(WholeNorms, AgreeWithDoublePrecision) {
  for (const testing::NormShape& shape : {testing::NormShape{1, 1, 1, 0},
                                          {1, 5, 1, 0},
                                          {3, 17, 1, 5},
                                          {33, 49, 1, 3},
                                          {70, 768, 1, 3},
                                          {600, 130, 1, 1}}) {
    for (int flags = 0; flags < 4; ++flags) {
      const bool residual = (flags & 1) != 0, accumulate = (flags & 2) != 0;
      testing::NormCase norm(centered(), dtype(), shape, testing::normal_values(shape.rows * shape.cols, 1, 2.0));
      const testing::NormReference expected = testing::in_double(norm, residual, accumulate);
      testing::run_on_one_and_three_threads(norm.whole_scratch(), norm.outputs(),
                                            [&](Workers& workers) { norm.run_whole(workers, residual, accumulate); });
      testing::expect_agreement(norm, expected);
    }
  }
}

TEST_P(WholeNorms, KeepAccuracyFarFromZero) {
  Values values = testing::normal_values(256, 1);
  for (double& value : values) value = 1000.0 + 4.0 * std::round(value * 8.0);  // exact in bf16
  testing::NormCase norm(centered(), dtype(), {1, 256, 1, 0}, values);
  const testing::NormReference expected = testing::in_double(norm, false, false);
  Workers workers(1);
  norm.run_whole_forward(workers);
  testing::expect_close(norm.y.values(), expected.y, testing::tolerance_of(dtype(), 1e-5));
}

TEST_P(WholeNorms, BackwardMayWriteOverItsResidual) {
  testing::NormCase apart(centered(), dtype(), {20, 40, 1, 0}, testing::normal_values(800, 1)), in_place = apart;
  Workers workers(1);
  workers.reserve(apart.whole_scratch());
  apart.run_whole(workers, true, false);
  in_place.run_whole_forward(workers);
  in_place.dx.assign(in_place.dresidual.values());
  const Matrix residual = in_place.dx.view();
  in_place.run_whole_backward(workers, &residual, false);
  EXPECT_EQ(in_place.dx.bytes(), apart.dx.bytes());
}

INSTANTIATE_TEST_SUITE_P(Kinds, WholeNorms, testing::norm_kinds(), testing::norm_kind_name);

class NormParts : public testing::NormKinds {};

constexpr std::array<testing::NormShape, 7> kShapes = {
    {{1, 1, 1, 0}, {3, 17, 1, 5}, {3, 34, 2, 3}, {5, 3, 3, 0}, {33, 147, 3, 1}, {70, 768, 2, 4}, {600, 390, 3, 0}}};

TEST_P(NormParts, AgreeWithDoublePrecisionAndWithWholeRows) {
  for (const testing::NormShape& shape : kShapes) {
    for (int flags = 0; flags < 4; ++flags) {
      const bool residual = (flags & 1) != 0, accumulate = (flags & 2) != 0;
      testing::NormCase norm(centered(), dtype(), shape, testing::normal_values(shape.rows * shape.cols, 1, 2.0)),
          whole = norm;
      const testing::NormReference expected = testing::in_double(norm, residual, accumulate);
      testing::run_on_one_and_three_threads(
          norm.scratch(), norm.outputs(), [&](Workers& workers) { norm.run_in_parts(workers, residual, accumulate); });
      testing::expect_agreement(norm, expected);
      Workers workers(1);
      workers.reserve(whole.whole_scratch());
      whole.run_whole(workers, residual, accumulate);

      const testing::Tolerance close{dtype() == DType::bf16 ? 0x1p-7 : 1e-6, 2e-6};
      testing::expect_close(norm.y.values(), whole.y.values(), close, "y of whole rows");
      testing::expect_close(norm.mean.values(), whole.mean.values(), {1e-6, 1e-6}, "mean of whole rows");
      testing::expect_close(norm.rstd.values(), whole.rstd.values(), {1e-6, 1e-6}, "rstd of whole rows");
      testing::expect_close(norm.dx.values(), whole.dx.values(), close, "dx of whole rows");
      testing::expect_close(norm.dweight.values(), whole.dweight.values(), {1e-6, 1e-5}, "dweight of whole rows");
      EXPECT_EQ(norm.dbias.bytes(), whole.dbias.bytes());  // rows are added in the same order for any number of columns
    }
  }
}

// Sums of squares of the whole row would cancel. Means of the parts and the distances between them must not cancel.
TEST_P(NormParts, KeepAccuracyFarFromZeroAndFromEachOther) {
  const std::int64_t cols = 192;
  Values values = testing::normal_values(2 * cols, 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 1000.0 + 16.0 * static_cast<double>(i % 192 / 64) + 4.0 * std::round(values[i] * 8.0);
  }
  testing::NormCase norm(centered(), dtype(), {2, cols, 3, 0}, values);
  const testing::NormReference expected = testing::in_double(norm, false, false);
  Workers workers(1);
  workers.reserve(norm.scratch());
  norm.run_in_parts(workers, false, false);
  testing::expect_close(norm.y.values(), expected.y, testing::tolerance_of(dtype(), 1e-5), "y");
  testing::expect_close(norm.mean.values(), expected.mean, {1e-6, 0}, "mean");
  testing::expect_close(norm.rstd.values(), expected.rstd, {1e-6, 0}, "rstd");
  testing::expect_close(norm.dx.values(), expected.dx, testing::tolerance_of(dtype(), 1e-6), "dx");
}

TEST_P(NormParts, MayWriteOverTheirInputs) {
  const testing::NormShape shape{20, 40, 2, 0};
  testing::NormCase apart(centered(), dtype(), shape, testing::normal_values(800, 1)), in_place = apart;
  Workers workers(1);
  workers.reserve(apart.scratch());
  apart.run_in_parts(workers, true, false);
  in_place.run_in_parts(workers, true, false);  // for mean and rstd

  const std::int64_t cols = shape.cols / 2;
  Tensor statistics(DType::f32, 40, centered() ? 2 : 1), sums(DType::f32, 20, centered() ? 2 : 1), other = sums;
  const Matrix mean = in_place.mean.view();
  const auto part = [&](std::int64_t p) {
    return NormTensors{in_place.x.columns(p * cols, cols), in_place.weight.columns(p * cols, cols),
                       centered() ? &mean : nullptr, in_place.rstd.view()};
  };
  norm_backward_sums(workers, part(0), in_place.dy.columns(0, cols), sums.view());
  norm_backward_sums(workers, part(1), in_place.dy.columns(cols, cols), other.view());
  sums.assign(testing::plus(sums.values(), other.values()));
  const Matrix extra = in_place.dresidual.columns(0, cols), added = in_place.dresidual.columns(cols, cols);
  const Matrix dbias = in_place.dbias.columns(0, cols);
  const Matrix* dbias_if = centered() ? &dbias : nullptr;
  const Matrix dweight = in_place.dweight.columns(0, cols);
  norm_backward_of_parts(workers, 2, part(0), in_place.dy.columns(0, cols), sums.view(),
                         {extra, dweight, dbias_if, &extra, false});
  norm_backward_of_parts(workers, 2, part(1), in_place.dy.columns(cols, cols), sums.view(),
                         {in_place.dy.columns(cols, cols), dweight, dbias_if, &added, false});
  for (std::int64_t p = 0; p < 2; ++p) {
    norm_statistics(workers, centered(), in_place.x.columns(p * cols, cols),
                    testing::rows_of(statistics.view(), p * 20, 20));
  }
  for (std::int64_t p = 0; p < 2; ++p) {
    const Matrix bias = in_place.bias.columns(p * cols, cols);
    norm_forward_of_parts(workers, 2, testing::kNormEps, part(p), centered() ? &bias : nullptr, statistics.view(),
                          in_place.x.columns(p * cols, cols));
  }
  EXPECT_EQ(in_place.x.bytes(), apart.y.bytes());
  const Values over_residual = in_place.dresidual.values(), over_dy = in_place.dy.values(), dx = apart.dx.values();
  for (std::size_t i = 0; i < dx.size(); ++i) EXPECT_EQ(i % 40 < 20 ? over_residual[i] : over_dy[i], dx[i]) << i;
}

INSTANTIATE_TEST_SUITE_P(Kinds, NormParts, testing::norm_kinds(), testing::norm_kind_name);

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
