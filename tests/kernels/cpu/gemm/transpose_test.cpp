// Transposed copies: all bits, ragged sizes, windows, several chunks, any number of threads.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <stdexcept>

#include "kernels/cpu/gemm/block_transpose.h"
#include "kernels/cpu/gemm/gemm.h"
#include "tests/kernels/reference.h"

namespace weft::cpu {
namespace {

using testing::Tensor;

class Transpose : public testing::ForFloatTypes {};

TEST_P(Transpose, MovesEveryBit) {
  const std::size_t element = size_of(GetParam());
  for (const auto& [rows, cols] : {std::array<std::int64_t, 2>{1, 1},
                                   {8, 8},
                                   {16, 16},
                                   {17, 33},
                                   {1, 300},
                                   {300, 1},
                                   {7, 5},
                                   {130, 260},
                                   {300, 530}}) {
    SCOPED_TRACE(::testing::Message() << rows << "x" << cols);
    Tensor from(GetParam(), rows, cols, 3), to(GetParam(), cols, rows, 5);
    // All bit patterns, including NaNs and denormals.
    std::mt19937 random(7);
    for (std::byte& byte : from.bytes()) byte = static_cast<std::byte>(random());
    testing::run_on_one_and_three_threads({}, {&to},
                                          [&](Workers& workers) { transpose(workers, from.view(), to.view()); });
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t col = 0; col < cols; ++col) {
        const auto* a = from.bytes().data() + static_cast<std::size_t>(row * (cols + 3) + col) * element;
        const auto* b = to.bytes().data() + static_cast<std::size_t>(col * (rows + 5) + row) * element;
        ASSERT_EQ(std::memcmp(a, b, element), 0) << row << ", " << col;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Transpose, testing::both_float_types(), testing::type_name);

TEST(TransposeArguments, MustFit) {
  Tensor a(DType::f32, 3, 4), same(DType::f32, 3, 4), half(DType::bf16, 4, 3);
  Workers workers(1);
  EXPECT_THROW(transpose(workers, a.view(), same.view()), std::logic_error);
  EXPECT_THROW(transpose(workers, a.view(), half.view()), std::logic_error);
}

TEST(BlockTranspose, SwapsLanesAndVectors) {
  Floats block[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    for (int j = 0; j < kLanes; ++j) block[i][j] = static_cast<float>(100 * i + j);
  }
  transpose(block);
  for (int i = 0; i < kLanes; ++i) {
    for (int j = 0; j < kLanes; ++j) EXPECT_EQ(block[i][j], static_cast<float>(100 * j + i));
  }
}

}  // namespace
}  // namespace weft::cpu
