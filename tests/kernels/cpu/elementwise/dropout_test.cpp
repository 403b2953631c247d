// Dropout's mask against Philox itself, for any alignment of rows to quads.
#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"
#include "kernels/cpu/elementwise/elementwise.h"
#include "kernels/formulas.h"
#include "tests/kernels/reference.h"

namespace weft::cpu {
namespace {

using testing::Tensor;
using testing::Values;

Values reference(const DropoutMask& mask, std::int64_t cols, const Values& x, const Values* residual) {
  Values y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto element = static_cast<std::uint64_t>(mask.first_row * cols) + i;
    const std::uint32_t word = philox_quad(mask.seed, mask.step, mask.site, element / 8)[element / 2 % 4];
    const double drawn = (element % 2 == 0 ? word % 65536 : word / 65536) / 65536.0;
    const double p = std::round(65536.0 * static_cast<double>(mask.p)) / 65536;
    const double kept = drawn < p ? 0.0 : x[i] / (1 - p);
    y[i] = kept + (residual != nullptr ? (*residual)[i] : 0.0);
  }
  return y;
}

class Dropout : public testing::ForFloatTypes {};

TEST_P(Dropout, DrawsThePhiloxOfEachGlobalElement) {
  const DType dtype = GetParam();
  for (const auto& [rows, cols, padding] :
       {std::array<std::int64_t, 3>{1, 1, 0}, {9, 7, 3}, {5, 64, 0}, {6, 131, 2}, {2, 40003, 0}}) {
    for (std::int64_t first_row : {std::int64_t{0}, std::int64_t{3}, std::int64_t{1} << 33}) {
      const DropoutMask mask{0x123456789abcdef0U, 77, 5, first_row, 0.3F};
      Tensor x = Tensor::random(dtype, rows, cols, 1, 1.0, padding), y(dtype, rows, cols, padding);
      Tensor residual = Tensor::random(dtype, rows, cols, 2, 1.0, padding), sum(dtype, rows, cols);
      const Matrix extra = residual.view();
      testing::run_on_one_and_three_threads({}, {&y, &sum}, [&](Workers& workers) {
        dropout(workers, mask, x.view(), nullptr, y.view());
        dropout(workers, mask, x.view(), &extra, sum.view());
      });
      const Values residuals = residual.values();
      testing::expect_close(y.values(), reference(mask, cols, x.values(), nullptr), testing::tolerance_of(dtype, 1e-6));
      testing::expect_close(sum.values(), reference(mask, cols, x.values(), &residuals),
                            testing::tolerance_of(dtype, 1e-6));
    }
  }
}

// Rows of a part of each sequence, from any of them on, draw what they draw among all rows.
TEST_P(Dropout, PartsOfSequencesDrawWhatTheWholeDraws) {
  const DType dtype = GetParam();
  const std::int64_t stride = 6, cols = 37, sequences = 4;
  const Values ones(static_cast<std::size_t>(sequences * stride * cols), 1.0);
  Tensor x(dtype, sequences * stride, cols, ones), whole(dtype, sequences * stride, cols);
  Workers workers(2);
  dropout(workers, {1, 2, 3, 0, 0.5F}, x.view(), nullptr, whole.view());
  const Values drawn = whole.values();
  for (const std::int64_t seq : {1, 2, 3, 6}) {
    for (std::int64_t part = 0; part < stride / seq; ++part) {
      for (std::int64_t skipped = 0; skipped < 2 * seq; ++skipped) {
        const std::int64_t rows = sequences * seq - skipped;
        const std::int64_t first = skipped / seq * stride + part * seq + skipped % seq;
        Tensor cut(dtype, rows, cols);
        Matrix some = x.view();
        some.rows = rows;
        dropout(workers, {1, 2, 3, first, 0.5F, 1, 0, seq, stride}, some, nullptr, cut.view());
        const Values found = cut.values();
        for (std::int64_t row = 0; row < rows; ++row) {
          const std::int64_t from = (row + skipped) / seq * stride + part * seq + (row + skipped) % seq;
          const Values expected(drawn.begin() + from * cols, drawn.begin() + (from + 1) * cols);
          EXPECT_EQ(Values(found.begin() + row * cols, found.begin() + (row + 1) * cols), expected)
              << "row " << row << " of part " << part << " of " << seq << " rows";
        }
      }
    }
  }
}

// Columns computed separately, as on another grid, draw the same bits as in the whole matrix.
TEST_P(Dropout, PartsOfColumnsDrawWhatTheWholeDraws) {
  const DType dtype = GetParam();
  for (const std::int64_t parts : {1, 2, 3}) {
    for (const std::int64_t cols : {1, 37, 128}) {
      Tensor x = Tensor::random(dtype, 8, parts * cols, 1), whole(dtype, 8, parts * cols), cut(dtype, 8, parts * cols);
      Workers workers(2);
      dropout(workers, {1, 2, 3, 10, 0.5F}, x.view(), nullptr, whole.view());
      for (std::int64_t part = 0; part < parts; ++part) {
        const std::int64_t first = part * cols;
        dropout(workers, {1, 2, 3, 10, 0.5F, parts, part}, x.columns(first, cols), nullptr, cut.columns(first, cols));
      }
      EXPECT_EQ(whole.bytes(), cut.bytes()) << parts << " parts of " << cols;
    }
  }
}

TEST_P(Dropout, NothingIsDroppedAtZero) {
  const DType dtype = GetParam();
  Tensor x = Tensor::random(dtype, 3, 50, 1), y(dtype, 3, 50);
  Workers workers(1);
  dropout(workers, {1, 2, 3, 0, 0.0F}, x.view(), nullptr, y.view());
  EXPECT_EQ(x.bytes(), y.bytes());
}

INSTANTIATE_TEST_SUITE_P(Types, Dropout, testing::both_float_types(), testing::type_name);

TEST(DropoutChance, ComesInStepsThatKeepTheMean) {
  EXPECT_EQ(kernels::dropout_chance(0).threshold, 0U);
  EXPECT_EQ(kernels::dropout_chance(0).scale, 1.0F);
  EXPECT_EQ(kernels::dropout_chance(1e-6F).threshold, 0U);
  EXPECT_EQ(kernels::dropout_chance(0.5F).scale, 2.0F);
  EXPECT_EQ(kernels::dropout_chance(0.1F).threshold, 6554U);
  EXPECT_FLOAT_EQ(kernels::dropout_chance(0.1F).scale, 65536.0F / (65536 - 6554));
  EXPECT_EQ(kernels::dropout_chance(0.9999999F).threshold, 65535U);  // some elements are always kept
  EXPECT_EQ(kernels::dropout_chance(0.9999999F).scale, 65536.0F);
}

}  // namespace
}  // namespace weft::cpu
