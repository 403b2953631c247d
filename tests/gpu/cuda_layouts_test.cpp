// Products that cuBLASLt computes in another layout. The transposed copies are compared bit for bit, and the results
// with the product's results in its own layout.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>

#include "kernels/cuda/elementwise/elementwise.h"
#include "kernels/cuda/gemm/gemm.h"
#include "runtime/execute/cuda/cuda_tasks.h"
#include "runtime/execute/tuning/gemm_trials.h"
#include "tests/gpu/gpu_test.h"
#include "tests/gpu/operation_case.h"
#include "tests/kernels/reference.h"

namespace weft {
namespace {

using cpu::Matrix;
using cpu::testing::Tensor;
using cuda::GemmLayout;
using testing::kFloats;

class CudaLayouts : public testing::GpuTest {
 protected:
  testing::GpuMemory memory_;
};

// Whole and ragged tiles, with rows that begin at word boundaries and rows that don't.
TEST_F(CudaLayouts, TransposeMovesEveryBit) {
  for (const DType dtype : kFloats) {
    const std::size_t element = size_of(dtype);
    for (const auto& [rows, cols] : {std::array<std::int64_t, 2>{1, 1},
                                     {64, 64},
                                     {32, 96},
                                     {1, 300},
                                     {300, 1},
                                     {7, 5},
                                     {65, 33},
                                     {130, 257},
                                     {1000, 768},
                                     {5001, 64}}) {
      for (const std::int64_t padding : {0, 1, 2}) {
        SCOPED_TRACE(::testing::Message() << to_string(dtype) << " " << rows << "x" << cols << " padding " << padding);
        Tensor from(dtype, rows, cols, padding), to(dtype, cols, rows, 3 - padding);
        std::mt19937 random(7);
        for (std::byte& byte : from.bytes()) byte = static_cast<std::byte>(random());
        const Matrix a = memory_.upload(from), b = memory_.upload(to);
        cuda::transpose({}, a, b);
        EXPECT_EQ(memory_.download(a).bytes(), from.bytes());
        to = memory_.download(b);
        EXPECT_TRUE(to.padding_untouched());
        int wrong = 0;
        for (std::int64_t row = 0; row < rows; ++row) {
          for (std::int64_t col = 0; col < cols; ++col) {
            const auto* x = from.bytes().data() + static_cast<std::size_t>(row * (cols + padding) + col) * element;
            const auto* y = to.bytes().data() + static_cast<std::size_t>(col * (rows + 3 - padding) + row) * element;
            wrong += std::memcmp(x, y, element) != 0 ? 1 : 0;
          }
        }
        EXPECT_EQ(wrong, 0);
      }
    }
  }
}

// Each product in each layout except its own, twice, in poisoned scratch: both runs give equal bits, close to the
// result in its own layout.
TEST_F(CudaLayouts, ProductsAreTheSame) {
  const cuda::CublasLt library;
  constexpr std::int64_t kScratch = cuda::kGemmWorkspace + (std::int64_t{8} << 20);
  std::byte* const scratch = memory_.poisoned(kScratch);
  for (const DType dtype : kFloats) {
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{64, 96, 128}, {33, 65, 17}, {256, 1000, 520}}) {
      for (int bits = 0; bits < 16; ++bits) {
        cuda::GemmKey key{m, n, k, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0, dtype};
        if (key.has_bias && key.accumulate) continue;
        key.output = key.accumulate ? DType::f32 : dtype;
        const auto tensor = [&](DType type, std::int64_t rows, std::int64_t cols, std::int64_t padding) {
          return Tensor::random(type, rows, cols, std::random_device{}(), 1.0, padding);
        };
        Tensor a = key.trans_a ? tensor(dtype, k, m, 8) : tensor(dtype, m, k, 8);
        Tensor b = key.trans_b ? tensor(dtype, n, k, 0) : tensor(dtype, k, n, 0), c = tensor(key.output, m, n, 0);
        Tensor bias = tensor(key.output, 1, n, 0);
        const Matrix at = memory_.upload(a), bt = memory_.upload(b), ct = memory_.upload(c);
        const Matrix added = memory_.upload(bias);
        key.strides = {at.row_stride, bt.row_stride, ct.row_stride};
        const auto run = [&](GemmLayout layout) {
          const cuda::PreparedGemm gemm(library, key, at, bt, ct, key.has_bias ? &added : nullptr, nullptr, layout);
          memory_.write(ct, c);
          EXPECT_LE(gemm.scratch_bytes(), kScratch);
          cuda::check(cudaMemset(scratch, 0xff, kScratch), "cudaMemset");
          gemm.run({nullptr, scratch, nullptr});
          return memory_.download(ct);
        };
        Tensor expected = run(GemmLayout::own);
        for (const GemmLayout layout : {GemmLayout::nn, GemmLayout::nt, GemmLayout::tn}) {
          SCOPED_TRACE(::testing::Message() << to_string(dtype) << " " << m << "x" << n << "x" << k << " flags " << bits
                                            << cpu::layout_suffix(layout));
          const cpu::GemmShape shape{m, n, k, key.trans_a, key.trans_b};
          if (cpu::shown_as(layout, shape) == shape) {
            EXPECT_THROW(run(layout), std::logic_error);
            continue;
          }
          Tensor actual = run(layout);
          EXPECT_EQ(actual.bytes(), run(layout).bytes());
          const double relative = 1e-4 + (key.output == DType::bf16 ? 0x1p-7 : 0);
          cpu::testing::expect_close(actual.values(), expected.values(), {relative, 1e-3});
        }
      }
    }
  }
}

// A task uses the layout in the table, with an algorithm for that layout.
TEST_F(CudaLayouts, TasksTakeTheLayoutOfTheTable) {
  constexpr std::int64_t m = 256, n = 384, k = 512;
  Tensor a = Tensor::random(DType::bf16, m, k, 1), b = Tensor::random(DType::bf16, n, k, 2), c(DType::f32, m, n);
  const Matrix at = memory_.upload(a), bt = memory_.upload(b), ct = memory_.upload(c);
  const graph::Gemm operation{m, n, k, false, true};
  const std::vector<Matrix> arguments = {at, bt, ct};
  const execute::GemmProblem problem = execute::problem_of(operation, arguments);
  const cuda::CublasLt library;
  const auto run = [&](const execute::DeviceGemmMethod& method) {
    execute::CudaLibraries libraries(
        {.tuning = std::make_shared<const execute::GemmTuning>(std::vector<execute::GemmChoice>{{problem, method}})});
    testing::prepare_on_gpu(operation, arguments, memory_, libraries)->run(nullptr, nullptr);
    return std::pair(memory_.download(ct).values(), execute::cuda_scratch_bytes(operation, arguments, libraries));
  };
  const auto method_in = [&](GemmLayout layout) {
    const cuda::PreparedGemm gemm(library, execute::key_of(problem, arguments), at, bt, ct, nullptr, nullptr, layout);
    return execute::DeviceGemmMethod{cuda::to_hex(gemm.candidates(1).front()), layout};
  };
  const auto [expected, usual_bytes] = run(method_in(GemmLayout::own));
  EXPECT_EQ(usual_bytes, cuda::kGemmWorkspace);
  for (const GemmLayout layout : {GemmLayout::nn, GemmLayout::tn}) {
    const auto [actual, bytes] = run(method_in(layout));
    EXPECT_GE(bytes, usual_bytes + n * k * 2);
    cpu::testing::expect_close(actual, expected, {1e-4, 1e-2});
  }
}

// A product large enough for trials in all layouts.
TEST_F(CudaLayouts, TrialsRunThem) {
  execute::GemmProblem problem;
  // Smaller products aren't tried in other layouts.
  problem.m = 1024, problem.n = 1024, problem.k = 512;
  problem.trans_a = true;
  problem.strides = {1024, 1024, 1024};
  ASSERT_EQ(execute::device_gemm_layouts(problem).size(), 2U);
  const execute::GemmTrial trial = execute::device_gemm_trials({.rounds = testing::kEmulated ? 1 : 3})(problem);
  EXPECT_GT(trial.candidates, 2U);
  EXPECT_EQ(std::get<execute::DeviceGemmMethod>(trial.usual).layout, GemmLayout::own);
  EXPECT_EQ(execute::parse_gemm_method(execute::to_string(trial.chosen)), trial.chosen);
  RecordProperty("chosen", execute::to_string(trial.chosen));
  const execute::GemmTrial cold = execute::device_gemm_trials({.rounds = 1, .cold_gpu = true})(problem);
  EXPECT_EQ(cold.candidates, trial.candidates);
  EXPECT_GT(cold.usual_seconds, 0);
}

}  // namespace
}  // namespace weft
