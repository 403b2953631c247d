// The products that are also tried in other layouts on a GPU.
#include "runtime/execute/tuning/device_gemm_trials.h"

#include <gtest/gtest.h>

namespace weft::execute {
namespace {

using Layouts = std::vector<cpu::GemmLayout>;

Layouts layouts_of(std::int64_t m, std::int64_t n, std::int64_t k, DType inputs, bool trans_a, bool trans_b,
                   Epilogue epilogue = Epilogue::none) {
  GemmProblem problem;
  problem.epilogue = epilogue;
  problem.m = m, problem.n = n, problem.k = k;
  problem.trans_a = trans_a, problem.trans_b = trans_b;
  problem.inputs = problem.output = inputs;
  return device_gemm_layouts(problem);
}

TEST(DeviceGemmLayouts, AreOfLargeProducts) {
  using enum cpu::GemmLayout;
  // Forward pass and both gradients of a layer.
  EXPECT_EQ(layouts_of(8192, 6400, 1600, DType::bf16, false, true), (Layouts{nn, tn}));
  EXPECT_EQ(layouts_of(8192, 1600, 6400, DType::bf16, false, false), (Layouts{nt, tn}));
  EXPECT_EQ(layouts_of(6400, 1600, 8192, DType::bf16, true, false), (Layouts{nn, nt}));
  EXPECT_EQ(layouts_of(2048, 768, 768, DType::f32, false, true), (Layouts{nn, tn}));
}

TEST(DeviceGemmLayouts, CopiesHaveToBeWorthIt) {
  using enum cpu::GemmLayout;
  EXPECT_EQ(layouts_of(512, 512, 512, DType::f32, false, true), Layouts{}) << "small";
  EXPECT_EQ(layouts_of(8, 50304, 8192, DType::bf16, false, true), Layouts{}) << "each copied element is used 8 times";
  EXPECT_EQ(layouts_of(16384, 768, 2048, DType::bf16, true, false), (Layouts{})) << "A for 768 columns, or A and B";
  EXPECT_EQ(layouts_of(16384, 768, 2048, DType::bf16, false, false), (Layouts{nt})) << "B for 16384 rows, or A";
  EXPECT_EQ(layouts_of(16384, 50304, 4096, DType::f32, false, true), Layouts{}) << "B takes 786 MiB";
}

TEST(DeviceGemmLayouts, AreNotForProductsWithAnEpilogue) {
  EXPECT_FALSE(layouts_of(8192, 6400, 1600, DType::bf16, false, true).empty());
  EXPECT_EQ(layouts_of(8192, 6400, 1600, DType::bf16, false, true, Epilogue::gelu), Layouts{});
}

}  // namespace
}  // namespace weft::execute
