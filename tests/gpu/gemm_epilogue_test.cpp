// The products whose epilogue is fused in the library's product. CudaTasks.GemmWithGelu compares their results.
#include "kernels/cuda/gemm/gemm_epilogue.h"

#include <gtest/gtest.h>

#include "tests/gpu/gpu_test.h"

namespace weft {
namespace {

using cpu::Matrix;

class GemmEpilogues : public testing::GpuTest {
 protected:
  Matrix matrix(std::int64_t rows, std::int64_t cols, DType dtype = DType::bf16) {
    return {memory_.zeroed(rows * cols * 4), rows, cols, cols, dtype};
  }

 private:
  testing::GpuMemory memory_;
};

TEST_F(GemmEpilogues, OfATransformersBlockAreTheLibrarys) {
  const cuda::CublasLt library;
  const Matrix x = matrix(512, 768), up = matrix(3072, 768), down = matrix(768, 3072), bias = matrix(1, 3072);
  const Matrix y = matrix(512, 3072), z = matrix(512, 3072);
  cuda::GemmKey key{.m = 512, .n = 3072, .k = 768, .trans_b = true, .has_bias = true};
  key.inputs = key.output = DType::bf16;
  key.strides = {768, 768, 3072};
  key.epilogue = Epilogue::gelu;
  EXPECT_TRUE(cuda::GemmWithEpilogue(library, key, x, up, y, &bias, &z, nullptr).fused());
  key.trans_b = key.has_bias = false;
  key.strides = {768, 3072, 3072};
  key.epilogue = Epilogue::gelu_gradient;
  EXPECT_TRUE(cuda::GemmWithEpilogue(library, key, x, down, y, nullptr, &z, nullptr).fused());
}

TEST_F(GemmEpilogues, OfOddRowsRunBehindTheProduct) {
  const cuda::CublasLt library;
  const Matrix a = matrix(16, 64), b = matrix(64, 44), c = matrix(16, 44), other = matrix(16, 44);
  cuda::GemmKey key{.m = 16, .n = 44, .k = 64};
  key.inputs = key.output = DType::bf16;
  key.strides = {64, 44, 44};
  key.epilogue = Epilogue::gelu_gradient;
  EXPECT_FALSE(cuda::GemmWithEpilogue(library, key, a, b, c, nullptr, &other, nullptr).fused());
  EXPECT_THROW(cuda::GemmWithEpilogue(library, key, a, b, c, nullptr, nullptr, nullptr), std::logic_error);
}

}  // namespace
}  // namespace weft
