// Norms of rows in parts, compared with double precision and with norms of whole rows.
#include "kernels/cpu/norm/norm_parts.h"

#include <gtest/gtest.h>

#include <array>
#include <tuple>

#include "tests/kernels/reference.h"

namespace weft::cpu {
namespace {

using testing::Tensor;
using testing::Values;

constexpr float kPartsEps = 1e-5F;

Matrix rows_of(Matrix matrix, std::int64_t first, std::int64_t rows) {
  matrix.data = static_cast<std::byte*>(matrix.data) +
                static_cast<std::size_t>(first * matrix.row_stride) * size_of(matrix.dtype);
  matrix.rows = rows;
  return matrix;
}

struct PartsShape {
  std::int64_t rows, cols, parts, padding;  // cols: in the whole row
};

// All arguments of a norm and its gradient, whole and divided by columns into parts.
struct Norm {
  bool centered;
  PartsShape shape;
  Tensor x, weight, bias, dy, dresidual;
  Tensor y, mean, rstd, dx, dweight, dbias;

  Norm(bool is_centered, DType dtype, const PartsShape& of, const Values& values)
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

  // The work of all ranks that share rows, one rank after the other.
  void run_in_parts(Workers& workers, bool residual, bool accumulate) {
    const std::int64_t rows = shape.rows, parts = shape.parts, cols = part_cols(), numbers = centered ? 2 : 1;
    Tensor statistics(DType::f32, parts * rows, numbers), sums(DType::f32, rows, numbers);
    for (std::int64_t p = 0; p < parts; ++p) {
      norm_statistics(workers, centered, x.columns(p * cols, cols), rows_of(statistics.view(), p * rows, rows));
    }
    const Matrix mean_view = mean.view();
    const auto part = [&](std::int64_t p) {
      return NormTensors{x.columns(p * cols, cols), weight.columns(p * cols, cols), centered ? &mean_view : nullptr,
                         rstd.view()};
    };
    Values total(static_cast<std::size_t>(rows * numbers));
    for (std::int64_t p = 0; p < parts; ++p) {
      const Matrix shift = bias.columns(p * cols, cols);
      norm_forward_of_parts(workers, parts, kPartsEps, part(p), centered ? &shift : nullptr, statistics.view(),
                            y.columns(p * cols, cols));
      norm_backward_sums(workers, part(p), dy.columns(p * cols, cols), sums.view());
      total = testing::plus(total, sums.values());
    }
    sums.assign(total);
    for (std::int64_t p = 0; p < parts; ++p) {
      const Matrix shift = dbias.columns(p * cols, cols), extra = dresidual.columns(p * cols, cols);
      norm_backward_of_parts(workers, parts, part(p), dy.columns(p * cols, cols), sums.view(),
                             {dx.columns(p * cols, cols), dweight.columns(p * cols, cols), centered ? &shift : nullptr,
                              residual ? &extra : nullptr, accumulate});
    }
  }

  void run_whole(bool residual, bool accumulate) {
    Workers workers(1);
    workers.reserve(norm_backward_scratch(centered, shape.rows, shape.cols));
    const Matrix extra = dresidual.view(), mean_view = mean.view(), shift = bias.view(), dshift = dbias.view();
    const NormTensors norm{x.view(), weight.view(), centered ? &mean_view : nullptr, rstd.view()};
    norm_forward(workers, kPartsEps, norm, centered ? &shift : nullptr, y.view());
    norm_backward(workers, norm, dy.view(),
                  {dx.view(), dweight.view(), centered ? &dshift : nullptr, residual ? &extra : nullptr, accumulate});
  }
};

struct PartsReference {
  Values y, mean, rstd, dx, dweight, dbias;
};

PartsReference in_double(Norm& norm, bool residual, bool accumulate) {
  const auto rows = static_cast<std::size_t>(norm.shape.rows), cols = static_cast<std::size_t>(norm.shape.cols);
  const auto n = static_cast<double>(cols);
  const Values x = norm.x.values(), weight = norm.weight.values(), bias = norm.bias.values(), dy = norm.dy.values();
  PartsReference result{Values(x.size()), Values(rows), Values(rows), Values(x.size()), Values(cols), Values(cols)};
  if (accumulate) result.dweight = norm.dweight.values(), result.dbias = norm.dbias.values();
  if (residual) result.dx = norm.dresidual.values();
  for (std::size_t r = 0; r < rows; ++r) {
    const double* in = x.data() + r * cols;
    double mean = 0, variance = 0, g_mean = 0, gx_mean = 0;
    for (std::size_t c = 0; norm.centered && c < cols; ++c) mean += in[c] / n;
    for (std::size_t c = 0; c < cols; ++c) variance += (in[c] - mean) * (in[c] - mean) / n;
    const double rstd = 1.0 / std::sqrt(variance + static_cast<double>(kPartsEps));
    result.mean[r] = mean, result.rstd[r] = rstd;
    for (std::size_t c = 0; c < cols; ++c) {
      const double normal = (in[c] - mean) * rstd, d = dy[r * cols + c];
      result.y[r * cols + c] = normal * weight[c] + (norm.centered ? bias[c] : 0.0);
      g_mean += norm.centered ? d * weight[c] / n : 0.0;
      gx_mean += d * weight[c] * normal / n;
      result.dweight[c] += d * normal;
      result.dbias[c] += d;
    }
    for (std::size_t c = 0; c < cols; ++c) {
      const double normal = (in[c] - mean) * rstd;
      result.dx[r * cols + c] += rstd * (dy[r * cols + c] * weight[c] - g_mean - normal * gx_mean);
    }
  }
  return result;
}

class NormParts : public ::testing::TestWithParam<std::tuple<bool, DType>> {
 protected:
  bool centered() const { return std::get<0>(GetParam()); }
  DType dtype() const { return std::get<1>(GetParam()); }
};

constexpr std::array<PartsShape, 7> kShapes = {
    {{1, 1, 1, 0}, {3, 17, 1, 5}, {3, 34, 2, 3}, {5, 3, 3, 0}, {33, 147, 3, 1}, {70, 768, 2, 4}, {600, 390, 3, 0}}};

TEST_P(NormParts, AgreeWithDoublePrecisionAndWithWholeRows) {
  for (const PartsShape& shape : kShapes) {
    for (int flags = 0; flags < 4; ++flags) {
      const bool residual = (flags & 1) != 0, accumulate = (flags & 2) != 0;
      Norm norm(centered(), dtype(), shape, testing::normal_values(shape.rows * shape.cols, 1, 2.0)), whole = norm;
      const PartsReference expected = in_double(norm, residual, accumulate);
      testing::run_on_one_and_three_threads(
          norm.scratch(), norm.outputs(), [&](Workers& workers) { norm.run_in_parts(workers, residual, accumulate); });
      whole.run_whole(residual, accumulate);

      const testing::Tolerance rounding = testing::tolerance_of(dtype());
      testing::expect_close(norm.y.values(), expected.y, rounding, "y");
      testing::expect_close(norm.mean.values(), expected.mean, {1e-5, 1e-6}, "mean");
      testing::expect_close(norm.rstd.values(), expected.rstd, {1e-5, 1e-6}, "rstd");
      testing::expect_close(norm.dx.values(), expected.dx, rounding, "dx");
      testing::expect_close(norm.dweight.values(), expected.dweight, {1e-5, 1e-4}, "dweight");
      if (centered()) testing::expect_close(norm.dbias.values(), expected.dbias, {1e-5, 1e-4}, "dbias");

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
  Norm norm(centered(), dtype(), {2, cols, 3, 0}, values);
  const PartsReference expected = in_double(norm, false, false);
  Workers workers(1);
  workers.reserve(norm.scratch());
  norm.run_in_parts(workers, false, false);
  testing::expect_close(norm.y.values(), expected.y, testing::tolerance_of(dtype(), 1e-5), "y");
  testing::expect_close(norm.mean.values(), expected.mean, {1e-6, 0}, "mean");
  testing::expect_close(norm.rstd.values(), expected.rstd, {1e-6, 0}, "rstd");
  testing::expect_close(norm.dx.values(), expected.dx, testing::tolerance_of(dtype(), 1e-6), "dx");
}

TEST_P(NormParts, StatisticsAndSumsOfARow) {
  Tensor x(dtype(), 2, 4, {1, 2, 3, 6, -2, 0, 0, 2}), weight(dtype(), 1, 4, {1, 2, 1, -1});
  Tensor dy(dtype(), 2, 4, {1, 1, 1, 1, 1, 0, 2, 1}), rstd(DType::f32, 1, 2, {0.5, 2});
  Tensor mean(DType::f32, 1, 2, {3, 0}), statistics(DType::f32, 2, 2), sums(DType::f32, 2, 2);
  Tensor squares(DType::f32, 2, 1), plain_sums(DType::f32, 2, 1);
  const Matrix mean_view = mean.view();
  Workers workers(1);
  norm_statistics(workers, true, x.view(), statistics.view());
  norm_statistics(workers, false, x.view(), squares.view());
  norm_backward_sums(workers, {x.view(), weight.view(), &mean_view, rstd.view()}, dy.view(), sums.view());
  norm_backward_sums(workers, {x.view(), weight.view(), nullptr, rstd.view()}, dy.view(), plain_sums.view());
  EXPECT_EQ(statistics.values(), (Values{3, 14, 0, 8}));
  EXPECT_EQ(squares.values(), (Values{50, 8}));
  EXPECT_EQ(sums.values(), (Values{3, -3.5, 2, -8}));
  EXPECT_EQ(plain_sums.values(), (Values{1, -8}));
}

TEST_P(NormParts, MayWriteOverTheirInputs) {
  const PartsShape shape{20, 40, 2, 0};
  Norm apart(centered(), dtype(), shape, testing::normal_values(800, 1)), in_place = apart;
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
    norm_statistics(workers, centered(), in_place.x.columns(p * cols, cols), rows_of(statistics.view(), p * 20, 20));
  }
  for (std::int64_t p = 0; p < 2; ++p) {
    const Matrix bias = in_place.bias.columns(p * cols, cols);
    norm_forward_of_parts(workers, 2, kPartsEps, part(p), centered() ? &bias : nullptr, statistics.view(),
                          in_place.x.columns(p * cols, cols));
  }
  EXPECT_EQ(in_place.x.bytes(), apart.y.bytes());
  const Values over_residual = in_place.dresidual.values(), over_dy = in_place.dy.values(), dx = apart.dx.values();
  for (std::size_t i = 0; i < dx.size(); ++i) EXPECT_EQ(i % 40 < 20 ? over_residual[i] : over_dy[i], dx[i]) << i;
}

INSTANTIATE_TEST_SUITE_P(Kinds, NormParts, ::testing::Combine(::testing::Bool(), testing::both_float_types()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) ? "layer_norm_" : "rms_norm_") +
                                  std::string(to_string(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace weft::cpu
