// Products of fp32 by TF32: as close as docs/gpu.md says, for products alone and in training.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/cuda/gemm/gemm.h"
#include "runtime/execute/tuning/gemm_trials.h"
#include "tests/gpu/gpu_run.h"
#include "train/step/device_choice.h"

namespace weft {
namespace {

using cpu::testing::Tensor;
using cpu::testing::Values;

class CudaTf32 : public testing::GpuTest {};

/// To 10 bits after the point, ties to even.
double rounded(double value) {
  auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  bits += 0xfffU + (bits >> 13 & 1U);
  return static_cast<double>(std::bit_cast<float>(bits & ~0x1fffU));
}

TEST_F(CudaTf32, ProductsRoundTheirFactorsAlone) {
  constexpr std::int64_t kM = 48, kN = 64, kK = 40;
  testing::GpuMemory memory;
  const cuda::CublasLt library;
  Tensor a = Tensor::random(DType::f32, kM, kK, 1), b = Tensor::random(DType::f32, kK, kN, 2), c(DType::f32, kM, kN);
  const cpu::Matrix on_a = memory.upload(a), on_b = memory.upload(b), on_c = memory.upload(c);
  const auto product = [&](bool tf32) {
    cuda::GemmKey key{.m = kM, .n = kN, .k = kK, .strides = {kK, kN, kN}, .tf32 = tf32};
    cuda::PreparedGemm(library, key, on_a, on_b, on_c, nullptr, nullptr)
        .run({nullptr, memory.poisoned(cuda::kGemmWorkspace), nullptr});
    return memory.download(on_c).values();
  };
  const Values plain = product(false), found = product(true), of_a = a.values(), of_b = b.values();
  double largest = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::size_t row = i / kN, column = i % kN;
    double exact = 0, magnitude = 0;
    for (std::size_t p = 0; p < kK; ++p) {
      const double x = of_a[row * kK + p], y = of_b[p * kN + column];
      exact += testing::kEmulated ? rounded(x) * rounded(y) : x * y;
      magnitude += std::abs(x * y);
    }
    EXPECT_NEAR(found[i], exact, (testing::kEmulated ? 1e-6 : 0x1p-10) * magnitude) << i;
    EXPECT_NEAR(plain[i], found[i], 0x1p-10 * magnitude) << i;
    largest = std::max(largest, std::abs(plain[i] - found[i]) / magnitude);
  }
  EXPECT_GT(largest, 1e-6);
  cuda::GemmKey half{.m = kM, .n = kN, .k = kK, .strides = {kK, kN, kN}, .tf32 = true};
  half.inputs = half.output = DType::bf16;
  Tensor bf(DType::bf16, kM, kN);
  const cpu::Matrix m = memory.upload(bf);
  EXPECT_THROW(cuda::PreparedGemm(library, half, m, m, m, nullptr, nullptr), std::logic_error);
}

class Tf32Run : public CudaTf32 {
 protected:
  Tf32Run() : run_(testing::small_run(ops::Family::gpt2, DType::f32, {})) { config_.device = train::DeviceKind::cuda; }
  testing::GridOutcome outcome(bool tf32, const std::shared_ptr<const execute::GemmTuning>& table = nullptr) {
    config_.tf32 = tf32;
    run_.make_executor = train::executor_of(config_, table);
    return testing::run_grid(run_);
  }

  testing::GridRun run_;
  train::RunConfig config_;
};

TEST_F(Tf32Run, TrainsAlmostAsInFp32) {
  const testing::GridOutcome plain = outcome(false), found = outcome(true);
  testing::expect_near(found, plain, 1e-3);
  EXPECT_NE(found.arrays, plain.arrays);
  testing::expect_equal(outcome(true), found);
}

// A table has products by TF32 apart from those of fp32, of which each run takes its own.
TEST_F(Tf32Run, ATableHasItsOwnProducts) {
  if (!testing::kEmulated) GTEST_SKIP() << "the algorithm is the emulated library's, which splits k";
  const cuda::GemmAlgorithm splitting{{0x57656674, 2}};
  const auto graph = ops::lower_train(run_.model, run_.step);
  std::vector<execute::GemmChoice> choices;
  for (execute::GemmUse& use : execute::products_of(std::array{graph})) {
    use.problem.tf32 = true;
    choices.push_back({use.problem, execute::DeviceGemmMethod{cuda::to_hex(splitting)}});
  }
  const auto table = std::make_shared<const execute::GemmTuning>(std::move(choices));
  const testing::GridOutcome rounded = outcome(true), split = outcome(true, table);
  testing::expect_near(split, rounded, 1e-4);
  EXPECT_NE(split.arrays, rounded.arrays);
  testing::expect_equal(outcome(false, table), outcome(false));
}

}  // namespace
}  // namespace weft
