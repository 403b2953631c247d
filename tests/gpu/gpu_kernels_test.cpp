// The forms of kernels that nobody gets who doesn't ask (--gpu-kernels), beside the plain ones: those that keep every
// bit do so, for kernels alone and in training.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/experts/experts.h"
#include "kernels/cuda/loss/cross_entropy.h"
#include "runtime/execute/cuda/cuda_tasks.h"
#include "tests/gpu/gpu_run.h"
#include "train/step/device_choice.h"

namespace weft {
namespace {

using cpu::Matrix;
using cpu::testing::Tensor;

class KernelForms : public testing::GpuTest {};

// Rows of 512 and 1024 threads, of single elements, and one too short for a cluster. Some are ignored; of some all
// logits but few are −∞.
TEST_F(KernelForms, AClusterSumsLikeABlock) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const auto& [rows, cols, vocab] : {std::tuple<std::int64_t, std::int64_t, std::int64_t>{5, 4224, 4201},
                                            {3, 1003, 999},
                                            {2, 57344, 57301},
                                            {4, 512, 512}}) {
      SCOPED_TRACE(std::string(to_string(dtype)) + " " + std::to_string(cols));
      testing::GpuMemory memory;
      Tensor logits = Tensor::random(dtype, rows, cols, 7);
      cpu::testing::Values values = logits.values();
      for (std::int64_t c = 0; c < cols; c += 2) values[static_cast<std::size_t>(c)] = -HUGE_VAL;
      logits.assign(values);
      std::vector<std::int64_t> ids;
      for (std::int64_t r = 0; r < rows; ++r) ids.push_back(r == 1 ? -1 : (r * 7919 + 1) % vocab);
      Tensor targets = Tensor::integers(DType::i32, ids), losses(DType::f32, 1, rows);
      Tensor scale(DType::f32, 1, 1, cpu::testing::Values{0.25});
      const Matrix on_targets = memory.upload(targets), on_scale = memory.upload(scale);
      execute::CudaLibraries plain, clustered({.kernels = {.clustered_loss = true}});
      const auto results = [&, vocab = vocab](const cuda::Launch& launch) {
        const Matrix on_logits = memory.upload(logits), on_losses = memory.upload(losses);
        cuda::cross_entropy(launch, vocab, on_logits, on_targets, on_losses, &on_scale);
        Tensor gradients = memory.download(on_logits), found = memory.download(on_losses);
        return std::pair(std::vector(gradients.bytes().begin(), gradients.bytes().end()),
                         std::vector(found.bytes().begin(), found.bytes().end()));
      };
      EXPECT_EQ(results(clustered.launch()), results(plain.launch()));
    }
  }
}

// Masks on tensor cores round the weights to bf16, as attention without masks does.
TEST_F(KernelForms, MasksOnTensorCoresAreOtherKernels) {
  const cpu::AttentionShape shape{1, 100, 2, 1, 64, 30};
  const auto out = [&](bool mma) {
    testing::GpuMemory memory;
    const auto random = [&](std::int64_t cols, std::uint32_t seed) {
      Tensor tensor = Tensor::random(DType::bf16, shape.seq, cols, seed);
      return memory.upload(tensor);
    };
    Tensor result(DType::bf16, shape.seq, 128), statistics(DType::f32, 1, 200);
    const cpu::AttentionTensors tensors{random(128, 1), random(64, 2), random(64, 3), memory.upload(result),
                                        memory.upload(statistics)};
    execute::CudaLibraries libraries({.kernels = {.masked_mma = mma}});
    cuda::attention_forward(libraries.launch(), shape, tensors);
    return memory.download(tensors.out).values();
  };
  const cpu::testing::Values plain = out(false), found = out(true);
  EXPECT_NE(found, plain);
  cpu::testing::expect_close(found, plain, {0x1p-6, 2e-2}, "out");
}

// Both halves of k cancel, so that results are what kernels rounded away. Columns or rows that are no whole vectors of
// eight go to the plain kernels.
TEST_F(KernelForms, GroupsOnTensorCoresAreOtherKernels) {
  constexpr std::int64_t kRows = 40, kHalf = 48;
  for (const std::int64_t cols : {24, 20}) {
    for (const std::int64_t padding : {0, 4}) {
      testing::GpuMemory memory;
      Tensor half = Tensor::random(DType::bf16, kRows, kHalf, 1), weights = Tensor::random(DType::bf16, cols, kHalf, 2);
      const auto doubled = [&](Tensor& of, std::int64_t rows, double sign) {
        cpu::testing::Values values;
        const cpu::testing::Values from = of.values();
        for (std::int64_t i = 0; i < rows * 2 * kHalf; ++i) {
          const std::int64_t row = i / (2 * kHalf), col = i % (2 * kHalf);
          values.push_back((col < kHalf ? 1 : sign) * from[static_cast<std::size_t>(row * kHalf + col % kHalf)]);
        }
        return Tensor(DType::bf16, rows, 2 * kHalf, values, padding);
      };
      Tensor a = doubled(half, kRows, 1), b = doubled(weights, cols, -1), c(DType::bf16, kRows, cols),
             dw(DType::f32, cols, 2 * kHalf), offsets = Tensor::integers(DType::i32, {0, kRows});
      const Matrix on_a = memory.upload(a), on_b = memory.upload(b), at = memory.upload(offsets);
      const auto results = [&](bool mma) {
        execute::CudaLibraries libraries({.kernels = {.grouped_mma = mma}});
        const Matrix on_c = memory.upload(c), on_dw = memory.upload(dw);
        cuda::grouped_gemm(libraries.launch(), true, on_a, on_b, at, on_c, kRows);
        Tensor dy = Tensor::random(DType::bf16, kRows, cols, 3);
        cuda::grouped_gemm_gradient(libraries.launch(), memory.upload(dy), on_a, at, on_dw, false);
        return std::pair(memory.download(on_c).values(), memory.download(on_dw).values());
      };
      const auto plain = results(false), found = results(true);
      const bool whole = cols % 8 == 0 && padding % 8 == 0;
      EXPECT_EQ(found.first != plain.first, whole) << cols << " " << padding;
      EXPECT_EQ(found.second != plain.second, whole) << cols << " " << padding;
      cpu::testing::expect_close(found.first, plain.first, {0, 1e-4}, "C");
      cpu::testing::expect_close(found.second, plain.second, {1e-4, 1e-4}, "dW");
    }
  }
}

// The choices of the plain run, so that another rounding of logits moves no token.
TEST_F(KernelForms, ExpertsTrainOnTensorCores) {
  testing::GridRun run = testing::small_run(ops::Family::qwen3_moe, DType::bf16, {});
  run.model.tied = false;
  const testing::GridOutcome plain = testing::run_grid(testing::on_gpu(testing::recording(run)));
  run = testing::replaying(plain, run);
  train::RunConfig config;
  config.device = train::DeviceKind::cuda;
  config.gpu_kernels = {.grouped_mma = true};
  std::vector<testing::GridOutcome> found;
  for (const bool graphs : {false, true}) {
    config.cuda_graph = graphs;
    run.make_executor = train::executor_of(config, nullptr);
    found.push_back(testing::run_grid(run));
  }
  testing::expect_near(found[0], plain, 3e-3);
  EXPECT_NE(found[0].arrays, plain.arrays);
  testing::expect_equal(found[1], found[0]);
}

TEST_F(KernelForms, TrainWithTheSameBits) {
  for (const ops::Family family : {ops::Family::gpt2, ops::Family::llama}) {
    testing::GridRun run = testing::small_run(family, DType::bf16, {});
    if (!testing::kEmulated) run.model.vocab = 5000;  // rows for clusters
    const testing::GridOutcome plain = testing::run_grid(testing::on_gpu(run));
    train::RunConfig config;
    config.device = train::DeviceKind::cuda;
    config.gpu_kernels = {.early_start = true, .clustered_loss = true};
    for (const bool graphs : {false, true}) {
      config.cuda_graph = graphs;
      run.make_executor = train::executor_of(config, nullptr);
      testing::expect_equal(testing::run_grid(run), plain);
    }
  }
}

}  // namespace
}  // namespace weft
