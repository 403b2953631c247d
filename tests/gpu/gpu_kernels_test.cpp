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
      const auto results = [&](const cuda::Launch& launch) {
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
