// The places where cuBLASLt is searched, and the error if it isn't there. Needs the library, but no GPU.
#include "kernels/cuda/gemm/cublas_lt_functions.h"

#include <gtest/gtest.h>

#include <array>

#include "base/error.h"
#include "tests/base/messages.h"

namespace weft::cuda {
namespace {

TEST(CublasLtFunctions, AreTheLibrarysOwn) {
  const CublasLtFunctions& functions = cublas_lt();
  EXPECT_EQ(functions.version() / 10000, CUBLAS_VER_MAJOR);
  EXPECT_STREQ(functions.status_name(CUBLAS_STATUS_NOT_SUPPORTED), "CUBLAS_STATUS_NOT_SUPPORTED");
  EXPECT_EQ(&functions, &cublas_lt());
}

// Functions that need no GPU, called through the table: each argument arrives at its parameter.
TEST(CublasLtFunctions, DescribeWithoutAGpu) {
  const CublasLtFunctions& functions = cublas_lt();
  cublasLtMatmulDescOpaque_t descriptor{};
  ASSERT_EQ(functions.init_descriptor(&descriptor, sizeof(descriptor), CUBLAS_COMPUTE_32F, CUDA_R_32F),
            CUBLAS_STATUS_SUCCESS);
  const std::int32_t transpose = CUBLAS_OP_T;
  EXPECT_EQ(functions.set_descriptor(&descriptor, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof(transpose)),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(functions.set_descriptor(&descriptor, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, 1),
            CUBLAS_STATUS_INVALID_VALUE);
  cublasLtMatrixLayoutOpaque_t layout{};
  EXPECT_EQ(functions.init_layout(&layout, sizeof(layout), CUDA_R_16BF, 8, 4, 8), CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulPreferenceOpaque_t preference{};
  ASSERT_EQ(functions.init_preference(&preference, sizeof(preference)), CUBLAS_STATUS_SUCCESS);
  const std::uint64_t bytes = 1 << 20;
  EXPECT_EQ(functions.set_preference(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof(bytes)),
            CUBLAS_STATUS_SUCCESS);
}

TEST(CublasLtFunctions, AMissingLibraryIsNamedWithItsPlacesAndAWayOut) {
  const std::array<std::string, 2> names{"libnowhere.so.13", "/no/folder/libnowhere.so.13"};
  EXPECT_TRUE(refuses([&] { load_cublas_lt(names); },
                      {"cuBLASLt", "libnowhere.so.13: cannot open", "; /no/folder/libnowhere.so.13: cannot",
                       "LD_LIBRARY_PATH", "weft doctor"}));
}

TEST(CublasLtFunctions, AnotherLibraryIsRefused) {
  EXPECT_THROW(load_cublas_lt(std::array<std::string, 1>{"libm.so.6"}), RuntimeFault);
}

}  // namespace
}  // namespace weft::cuda
