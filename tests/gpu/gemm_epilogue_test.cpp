// The products whose epilogue is fused in the library's product. CudaTasks.GemmWithGelu compares their results.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <stdexcept>

#include "kernels/cuda/elementwise/elementwise.h"
#include "kernels/cuda/gemm/gemm.h"
#include "tests/gpu/gpu_test.h"

namespace weft {
namespace {

using cpu::Matrix;

class GemmEpilogues : public testing::GpuTest {
 protected:
  static constexpr std::int64_t kM = 48, kN = 64, kK = 40;

  Matrix matrix(std::int64_t rows, std::int64_t cols, DType dtype = DType::bf16) {
    cpu::testing::Tensor tensor = cpu::testing::Tensor::random(dtype, rows, cols, ++seed_);
    return memory_.upload(tensor);
  }
  static cuda::GemmKey key_of(const Matrix& a, const Matrix& b, const Matrix& c, bool trans_a) {
    cuda::GemmKey key{.m = kM, .n = kN, .k = kK, .trans_a = trans_a, .inputs = a.dtype, .output = c.dtype};
    key.strides = {a.row_stride, b.row_stride, c.row_stride};
    return key;
  }
  cuda::Launch launch() { return {nullptr, memory_.poisoned(cuda::kGemmWorkspace), nullptr}; }

  void expect_near(const Matrix& actual, const Matrix& expected) {
    const cpu::testing::Values a = memory_.download(actual).values(), e = memory_.download(expected).values();
    ASSERT_EQ(a.size(), e.size());
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      difference += std::pow(a[i] - e[i], 2);
      norm += std::pow(e[i], 2);
    }
    EXPECT_GT(norm, 0);
    EXPECT_LT(std::sqrt(difference / norm), 0.01);
  }
  // Whether the library has the product.
  static bool is_there(const std::optional<cuda::PreparedGemm>& product) {
    EXPECT_TRUE(product || !testing::kEmulated);
    return product.has_value();
  }

  testing::GpuMemory memory_;
  cuda::CublasLt library_;

 private:
  std::uint32_t seed_ = 0;
};

TEST_F(GemmEpilogues, OfATransformersBlockAreTheLibrarys) {
  const Matrix x = matrix(512, 768), up = matrix(3072, 768), down = matrix(768, 3072), bias = matrix(1, 3072);
  const Matrix y = matrix(512, 3072), z = matrix(512, 3072);
  cuda::GemmKey key{.m = 512, .n = 3072, .k = 768, .trans_b = true, .has_bias = true};
  key.inputs = key.output = DType::bf16;
  key.strides = {768, 768, 3072};
  key.epilogue = Epilogue::gelu;
  EXPECT_TRUE(cuda::GemmWithEpilogue(library_, key, x, up, y, &bias, &z, nullptr).fused());
  key.trans_b = key.has_bias = false;
  key.strides = {768, 3072, 3072};
  key.epilogue = Epilogue::gelu_gradient;
  EXPECT_TRUE(cuda::GemmWithEpilogue(library_, key, x, down, y, nullptr, &z, nullptr).fused());
  const Matrix dw = matrix(3072, 768, DType::f32), db = matrix(1, 3072, DType::f32);
  key = {.m = 3072, .n = 768, .k = 512, .trans_a = true, .inputs = DType::bf16, .strides = {3072, 768, 768}};
  key.epilogue = Epilogue::bias_gradient;
  for (const bool accumulate : {false, true}) {
    key.accumulate = accumulate;
    const bool fused = cuda::GemmWithEpilogue(library_, key, y, x, dw, nullptr, &db, nullptr).fused();
    EXPECT_TRUE(fused || !testing::kEmulated) << "a library need not have it";
  }
}

TEST_F(GemmEpilogues, OfOddRowsRunBehindTheProduct) {
  const Matrix a = matrix(16, 64), b = matrix(64, 44), c = matrix(16, 44), other = matrix(16, 44);
  cuda::GemmKey key{.m = 16, .n = 44, .k = 64};
  key.inputs = key.output = DType::bf16;
  key.strides = {64, 44, 44};
  key.epilogue = Epilogue::gelu_gradient;
  EXPECT_FALSE(cuda::GemmWithEpilogue(library_, key, a, b, c, nullptr, &other, nullptr).fused());
  EXPECT_THROW(cuda::GemmWithEpilogue(library_, key, a, b, c, nullptr, nullptr, nullptr), std::logic_error);
}

// Side matrices hold what kernels after the product would compute. A library need not have them.
TEST_F(GemmEpilogues, AWeightGradientSumsItsRows) {
  const Matrix a = matrix(kK, kM), b = matrix(kK, kN), c = matrix(kM, kN, DType::f32), c2 = matrix(kM, kN, DType::f32);
  const Matrix sums = matrix(1, kM, DType::f32), sums2 = matrix(1, kM, DType::f32);
  const cuda::GemmKey key = key_of(a, b, c, true);
  const auto product = cuda::PreparedGemm::with_epilogue(library_, key, a, b, c2, {.bias_gradient = &sums2}, nullptr);
  if (!is_there(product)) GTEST_SKIP() << "the library has no BGRADB here";
  product->run(launch());
  cuda::PreparedGemm(library_, key, a, b, c, nullptr, nullptr).run(launch());
  cuda::bias_gradient(launch(), a, sums, false);
  expect_near(c2, c);
  expect_near(sums2, sums);
}

TEST_F(GemmEpilogues, GelusGradientSumsItsColumns) {
  const Matrix a = matrix(kM, kK), b = matrix(kK, kN), c = matrix(kM, kN), c2 = matrix(kM, kN), x = matrix(kM, kN);
  const Matrix sums = matrix(1, kN, DType::f32), sums2 = matrix(1, kN);
  cuda::GemmKey key = key_of(a, b, c, false);
  cuda::PreparedGemm(library_, key, a, b, c, nullptr, nullptr).run(launch());
  cuda::gelu_backward(launch(), x, c, c);
  cuda::bias_gradient(launch(), c, sums, false);
  key.epilogue = Epilogue::gelu_gradient;
  const auto product =
      cuda::PreparedGemm::with_epilogue(library_, key, a, b, c2, {.second = &x, .bias_gradient = &sums2}, nullptr);
  if (!is_there(product)) GTEST_SKIP() << "the library has no DGELU_BGRAD here";
  product->run(launch());
  expect_near(c2, c);
  expect_near(sums2, sums);
}

TEST_F(GemmEpilogues, AProductIsAddedToAnotherMatrix) {
  const Matrix a = matrix(kM, kK), b = matrix(kK, kN), c = matrix(kM, kN), c2 = matrix(kM, kN);
  const Matrix addend = matrix(kM, kN), bias = matrix(1, kN);
  cuda::GemmKey key = key_of(a, b, c, false);
  key.has_bias = true;
  cuda::PreparedGemm(library_, key, a, b, c, &bias, nullptr).run(launch());
  cuda::add(launch(), c, addend, c);
  key.accumulate = true;
  const auto product =
      cuda::PreparedGemm::with_epilogue(library_, key, a, b, c2, {.bias = &bias, .addend = &addend}, nullptr);
  if (!is_there(product)) GTEST_SKIP() << "the library adds no other matrix here";
  product->run(launch());
  expect_near(c2, c);
}

TEST_F(GemmEpilogues, OnesThatDontFitAreRefused) {
  const Matrix a = matrix(kM, kK), b = matrix(kK, kN), c = matrix(kM, kN), short_sums = matrix(1, kN);
  const cuda::GemmKey key = key_of(a, b, c, false);
  const auto make = [&](const cuda::GemmSideMatrices& side) {
    return cuda::PreparedGemm::with_epilogue(library_, key, a, b, c, side, nullptr);
  };
  EXPECT_THROW(make({.bias_gradient = &short_sums}), std::logic_error);
  EXPECT_THROW(make({.addend = &c}), std::logic_error) << "the key doesn't accumulate";
  EXPECT_THROW(make({.second = &c}), std::logic_error) << "the key has no epilogue";
}

}  // namespace
}  // namespace weft
