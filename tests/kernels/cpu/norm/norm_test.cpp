// Norms of whole rows and of rows in parts against double precision, and norms of heads against norms of rows.
#include "kernels/cpu/norm/norm.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/kernels/reference.h"

namespace weft::cpu {
namespace {

using testing::Tensor;
using testing::Values;

constexpr float kNormEps = 1e-5F;

Matrix rows_of(Matrix matrix, std::int64_t first, std::int64_t rows) {
  matrix.data = static_cast<std::byte*>(matrix.data) +
                static_cast<std::size_t>(first * matrix.row_stride) * size_of(matrix.dtype);
  matrix.rows = rows;
  return matrix;
}

struct NormShape {
  std::int64_t rows, cols, parts, padding;  // cols: in the whole row
};

// All arguments of a norm and its gradient, whole and divided by columns into parts.
struct NormCase {
  bool centered;
  NormShape shape;
  Tensor x, weight, bias, dy, dresidual;
  Tensor y, mean, rstd, dx, dweight, dbias;

  NormCase(bool is_centered, DType dtype, const NormShape& of, const Values& values)
      : centered(is_centered),
        shape(of),
        x(dtype, of.rows, of.cols, values, of.padding),
        weight(Tensor::random(dtype, 1, of.cols, 2)),
        bias(Tensor::random(dtype, 1, of.cols, 3)),
        dy(Tensor::random(dtype, of.rows, of.cols, 4, 1.0, of.padding)),
        dresidual(Tensor::random(dtype, of.rows, of.cols, 5, 1.0, 2 * of.padding)),
        y(dtype, of.rows, of.cols, of.padding),
        mean(DType::f32, 1, of.rows),
        rstd(DType::f32, 1, of.rows),
        dx(dtype, of.rows, of.cols, of.padding),
        dweight(Tensor::random(DType::f32, 1, of.cols, 6)),
        dbias(Tensor::random(DType::f32, 1, of.cols, 7)) {
    if (!centered) mean.assign(Values(static_cast<std::size_t>(of.rows), 0.0));
  }

  std::vector<Tensor*> outputs() { return {&y, &mean, &rstd, &dx, &dweight, &dbias}; }
  std::int64_t part_cols() const { return shape.cols / shape.parts; }
  Scratch scratch() const { return norm_backward_scratch(centered, shape.rows, part_cols()); }
  NormTensors part(std::int64_t p, const Matrix& mean_view) {
    const std::int64_t cols = part_cols();
    return {x.columns(p * cols, cols), weight.columns(p * cols, cols), centered ? &mean_view : nullptr, rstd.view()};
  }

  // The work of all ranks that share rows, one rank after the other; `to`: where part p of dx is written.
  void forward_in_parts(Workers& workers, Tensor& to) {
    const std::int64_t rows = shape.rows, cols = part_cols();
    Tensor statistics(DType::f32, shape.parts * rows, centered ? 2 : 1);
    for (std::int64_t p = 0; p < shape.parts; ++p) {
      norm_statistics(workers, centered, x.columns(p * cols, cols), rows_of(statistics.view(), p * rows, rows));
    }
    const Matrix mean_view = mean.view();
    for (std::int64_t p = 0; p < shape.parts; ++p) {
      const Matrix shift = bias.columns(p * cols, cols);
      norm_forward_of_parts(workers, shape.parts, kNormEps, part(p, mean_view), centered ? &shift : nullptr,
                            statistics.view(), to.columns(p * cols, cols));
    }
  }
  template <class To>
  void backward_in_parts(Workers& workers, bool residual, bool accumulate, const To& to) {
    const std::int64_t cols = part_cols();
    Tensor sums(DType::f32, shape.rows, centered ? 2 : 1);
    Values total(sums.values().size());
    const Matrix mean_view = mean.view();
    for (std::int64_t p = 0; p < shape.parts; ++p) {
      norm_backward_sums(workers, part(p, mean_view), dy.columns(p * cols, cols), sums.view());
      total = testing::plus(total, sums.values());
    }
    sums.assign(total);
    for (std::int64_t p = 0; p < shape.parts; ++p) {
      const Matrix shift = dbias.columns(p * cols, cols), extra = dresidual.columns(p * cols, cols);
      norm_backward_of_parts(workers, shape.parts, part(p, mean_view), dy.columns(p * cols, cols), sums.view(),
                             {to(p), dweight.columns(p * cols, cols), centered ? &shift : nullptr,
                              residual ? &extra : nullptr, accumulate});
    }
  }
  void run_in_parts(Workers& workers, bool residual, bool accumulate) {
    forward_in_parts(workers, y);
    backward_in_parts(workers, residual, accumulate,
                      [&](std::int64_t p) { return dx.columns(p * part_cols(), part_cols()); });
  }

  void run_whole_forward(Workers& workers) {
    const Matrix mean_view = mean.view(), shift = bias.view();
    norm_forward(workers, kNormEps, {x.view(), weight.view(), centered ? &mean_view : nullptr, rstd.view()},
                 centered ? &shift : nullptr, y.view());
  }
  void run_whole_backward(Workers& workers, const Matrix* residual, bool accumulate) {
    const Matrix mean_view = mean.view(), shift = dbias.view();
    norm_backward(workers, {x.view(), weight.view(), centered ? &mean_view : nullptr, rstd.view()}, dy.view(),
                  {dx.view(), dweight.view(), centered ? &shift : nullptr, residual, accumulate});
  }
  Scratch whole_scratch() const { return norm_backward_scratch(centered, shape.rows, shape.cols); }
  void run_whole(Workers& workers, bool residual, bool accumulate) {
    const Matrix extra = dresidual.view();
    run_whole_forward(workers);
    run_whole_backward(workers, residual ? &extra : nullptr, accumulate);
  }
};

struct NormReference {
  Values y, mean, rstd, dx, dweight, dbias;
};

/// All results in double precision, without a mean and a bias unless the norm is centered.
NormReference in_double(NormCase& norm, bool residual, bool accumulate) {
  const Values x = norm.x.values(), weight = norm.weight.values(), bias = norm.bias.values(), dy = norm.dy.values();
  const std::size_t cols = weight.size(), rows = x.size() / cols;
  const auto n = static_cast<double>(cols);
  NormReference result{Values(x.size()), Values(rows), Values(rows), Values(x.size()), Values(cols), Values(cols)};
  if (accumulate) result.dweight = norm.dweight.values(), result.dbias = norm.dbias.values();
  if (residual) result.dx = norm.dresidual.values();
  for (std::size_t r = 0; r < rows; ++r) {
    const double* in = x.data() + r * cols;
    double center = 0, variance = 0, g_mean = 0, gx_mean = 0;
    for (std::size_t c = 0; norm.centered && c < cols; ++c) center += in[c] / n;
    for (std::size_t c = 0; c < cols; ++c) variance += (in[c] - center) * (in[c] - center) / n;
    const double scale = 1.0 / std::sqrt(variance + static_cast<double>(kNormEps));
    result.mean[r] = center, result.rstd[r] = scale;
    for (std::size_t c = 0; c < cols; ++c) {
      const double normal = (in[c] - center) * scale, d = dy[r * cols + c];
      result.y[r * cols + c] = normal * weight[c] + (norm.centered ? bias[c] : 0.0);
      g_mean += norm.centered ? d * weight[c] / n : 0.0;
      gx_mean += d * weight[c] * normal / n;
      result.dweight[c] += d * normal;
      result.dbias[c] += d;
    }
    for (std::size_t c = 0; c < cols; ++c) {
      const double normal = (in[c] - center) * scale;
      result.dx[r * cols + c] += scale * (dy[r * cols + c] * weight[c] - g_mean - normal * gx_mean);
    }
  }
  return result;
}

void expect_agreement(NormCase& norm, const NormReference& expected) {
  const testing::Tolerance rounding = testing::tolerance_of(norm.x.view().dtype);
  testing::expect_close(norm.y.values(), expected.y, rounding, "y");
  testing::expect_close(norm.mean.values(), expected.mean, {1e-5, 1e-6}, "mean");
  testing::expect_close(norm.rstd.values(), expected.rstd, {1e-5, 1e-6}, "rstd");
  testing::expect_close(norm.dx.values(), expected.dx, rounding, "dx");
  testing::expect_close(norm.dweight.values(), expected.dweight, {1e-5, 1e-4}, "dweight");
  if (norm.centered) testing::expect_close(norm.dbias.values(), expected.dbias, {1e-5, 1e-4}, "dbias");
}

/// Tests of layer norms and RMS norms in both types.
class NormKinds : public ::testing::TestWithParam<std::tuple<bool, DType>> {
 protected:
  bool centered() const { return std::get<0>(GetParam()); }
  DType dtype() const { return std::get<1>(GetParam()); }
};
auto norm_kinds() {
  return ::testing::Combine(::testing::Bool(), testing::both_float_types());
}
std::string norm_kind_name(const ::testing::TestParamInfo<std::tuple<bool, DType>>& info) {
  return (std::get<0>(info.param) ? "layer_norm_" : "rms_norm_") + std::string(to_string(std::get<1>(info.param)));
}

class WholeNorms : public NormKinds {};

TEST_P(WholeNorms, AgreeWithDoublePrecision) {
  for (const NormShape& shape :
       {NormShape{1, 1, 1, 0}, {1, 5, 1, 0}, {3, 17, 1, 5}, {33, 49, 1, 3}, {70, 768, 1, 3}, {600, 130, 1, 1}}) {
    for (int flags = 0; flags < 4; ++flags) {
      const bool residual = (flags & 1) != 0, accumulate = (flags & 2) != 0;
      NormCase norm(centered(), dtype(), shape, testing::normal_values(shape.rows * shape.cols, 1, 2.0));
      const NormReference expected = in_double(norm, residual, accumulate);
      testing::run_on_one_and_three_threads(norm.whole_scratch(), norm.outputs(),
                                            [&](Workers& workers) { norm.run_whole(workers, residual, accumulate); });
      expect_agreement(norm, expected);
    }
  }
}

TEST_P(WholeNorms, KeepAccuracyFarFromZero) {
  Values values = testing::normal_values(256, 1);
  for (double& value : values) value = 1000.0 + 4.0 * std::round(value * 8.0);  // exact in bf16
  NormCase norm(centered(), dtype(), {1, 256, 1, 0}, values);
  const NormReference expected = in_double(norm, false, false);
  Workers workers(1);
  norm.run_whole_forward(workers);
  testing::expect_close(norm.y.values(), expected.y, testing::tolerance_of(dtype(), 1e-5));
}

TEST_P(WholeNorms, BackwardMayWriteOverItsResidual) {
  NormCase apart(centered(), dtype(), {20, 40, 1, 0}, testing::normal_values(800, 1)), in_place = apart;
  Workers workers(1);
  workers.reserve(apart.whole_scratch());
  apart.run_whole(workers, true, false);
  in_place.run_whole_forward(workers);
  in_place.dx.assign(in_place.dresidual.values());
  const Matrix residual = in_place.dx.view();
  in_place.run_whole_backward(workers, &residual, false);
  EXPECT_EQ(in_place.dx.bytes(), apart.dx.bytes());
}

INSTANTIATE_TEST_SUITE_P(Kinds, WholeNorms, norm_kinds(), norm_kind_name);

class NormParts : public NormKinds {};

constexpr std::array<NormShape, 7> kShapes = {
    {{1, 1, 1, 0}, {3, 17, 1, 5}, {3, 34, 2, 3}, {5, 3, 3, 0}, {33, 147, 3, 1}, {70, 768, 2, 4}, {600, 390, 3, 0}}};

TEST_P(NormParts, AgreeWithDoublePrecisionAndWithWholeRows) {
  for (const NormShape& shape : kShapes) {
    for (int flags = 0; flags < 4; ++flags) {
      const bool residual = (flags & 1) != 0, accumulate = (flags & 2) != 0;
      NormCase norm(centered(), dtype(), shape, testing::normal_values(shape.rows * shape.cols, 1, 2.0)), whole = norm;
      const NormReference expected = in_double(norm, residual, accumulate);
      testing::run_on_one_and_three_threads(
          norm.scratch(), norm.outputs(), [&](Workers& workers) { norm.run_in_parts(workers, residual, accumulate); });
      expect_agreement(norm, expected);
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
  NormCase norm(centered(), dtype(), {2, cols, 3, 0}, values);
  const NormReference expected = in_double(norm, false, false);
  Workers workers(1);
  workers.reserve(norm.scratch());
  norm.run_in_parts(workers, false, false);
  testing::expect_close(norm.y.values(), expected.y, testing::tolerance_of(dtype(), 1e-5), "y");
  testing::expect_close(norm.mean.values(), expected.mean, {1e-6, 0}, "mean");
  testing::expect_close(norm.rstd.values(), expected.rstd, {1e-6, 0}, "rstd");
  testing::expect_close(norm.dx.values(), expected.dx, testing::tolerance_of(dtype(), 1e-6), "dx");
}

TEST_P(NormParts, MayWriteOverTheirInputs) {
  NormCase apart(centered(), dtype(), {20, 40, 2, 0}, testing::normal_values(800, 1));
  Workers workers(1);
  workers.reserve(apart.scratch());
  apart.run_in_parts(workers, true, false);
  NormCase in_place = apart;
  in_place.backward_in_parts(workers, true, false, [&](std::int64_t p) {
    return p == 0 ? in_place.dresidual.columns(0, 20) : in_place.dy.columns(20, 20);
  });
  in_place.forward_in_parts(workers, in_place.x);
  EXPECT_EQ(in_place.x.bytes(), apart.y.bytes());
  const Values over_residual = in_place.dresidual.values(), over_dy = in_place.dy.values(), dx = apart.dx.values();
  for (std::size_t i = 0; i < dx.size(); ++i) EXPECT_EQ(i % 40 < 20 ? over_residual[i] : over_dy[i], dx[i]) << i;
}

INSTANTIATE_TEST_SUITE_P(Kinds, NormParts, norm_kinds(), norm_kind_name);

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
