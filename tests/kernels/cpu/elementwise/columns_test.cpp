// Biases and windows of columns.
#include "kernels/cpu/elementwise/columns.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/kernels/reference.h"

namespace weft::cpu {
namespace {

using testing::Tensor;
using testing::Values;

class Columns : public testing::ForFloatTypes {};

TEST_P(Columns, BiasIsAddedToEveryRow) {
  const DType dtype = GetParam();
  for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {9, 37}, {2, 40003}}) {
    Tensor y = Tensor::random(dtype, rows, cols, 1, 1.0, 3), bias = Tensor::random(dtype, 1, cols, 2);
    Values expected = y.values();
    const Values biases = bias.values();
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += biases[i % biases.size()];
    testing::run_on_one_and_three_threads({}, {&y},
                                          [&](Workers& workers) { add_bias(workers, y.view(), bias.view()); });
    testing::expect_close(y.values(), expected, testing::tolerance_of(dtype, 1e-7));
  }
}

TEST_P(Columns, WindowsAreTakenAndPutBack) {
  const DType dtype = GetParam();
  for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {9, 37}, {2, 40003}}) {
    const std::int64_t windows = 3;
    Tensor x = Tensor::random(dtype, rows, cols * windows, 1, 1.0, 3), all(dtype, rows, cols * windows, 2);
    for (std::int64_t window = 0; window < windows; ++window) {
      Tensor taken(dtype, rows, cols, 1), put(dtype, rows, cols * windows, 2);
      testing::run_on_one_and_three_threads({}, {&taken, &put}, [&](Workers& workers) {
        take_columns(workers, x.view(), window, taken.view());
        put_columns(workers, taken.view(), window, put.view());
      });
      const Values in = x.values();
      Values expected, expected_put(in.size());
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t col = 0; col < cols; ++col) {
          const auto i = static_cast<std::size_t>((row * windows + window) * cols + col);
          expected.push_back(in[i]);
          expected_put[i] = in[i];
        }
      }
      EXPECT_EQ(taken.values(), expected);
      EXPECT_EQ(put.values(), expected_put);
    }
  }
}

TEST_P(Columns, WindowsOutsideAreRefused) {
  Tensor wide = Tensor::random(GetParam(), 2, 10, 1), narrow = Tensor::random(GetParam(), 2, 5, 2);
  Workers workers(1);
  for (std::int64_t window : {-1, 2}) {
    EXPECT_THROW(take_columns(workers, wide.view(), window, narrow.view()), std::logic_error);
    EXPECT_THROW(put_columns(workers, narrow.view(), window, wide.view()), std::logic_error);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Columns, testing::both_float_types(), testing::type_name);

}  // namespace
}  // namespace weft::cpu
