// Pipelines on GPUs: stages that share one, by copies on it and through the host, and stages with a GPU each over NCCL.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "ops/pipeline_layout.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/gpu/gpu_run.h"
#include "tests/gpu/gpu_test.h"

namespace weft {
namespace {

testing::GridRun run_of(ops::Family family, DType dtype, const graph::Grid& grid, const std::string& policy) {
  testing::GridRun run = testing::small_run(family, dtype, grid);
  run.model = testing::of_family(family, {.layers = grid.pipe == 3 ? 6 : 4, .heads = 2, .vocab = 24});
  run.step.seq_len = run.model.context;
  run.step.micro_batch = 1;
  run.step.micro_batches = (grid.pipe == 3 ? 6 : 4) / grid.batch_ranks();
  run.step.clip = 0.5F;
  run.policy = policy;
  if (grid.pipe > 1) {
    run.step.pipeline =
        ops::balanced_layout(run.model, run.step.seq_len, grid.pipe, policy::make_policy(policy)->chunks());
  }
  return run;
}

class CudaPipelines : public testing::GpuTest {};

// An embedding that isn't tied lets stages change no bit; the sum of a tied one's gradients has another order.
TEST_F(CudaPipelines, TrainLikeOneStage) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    SCOPED_TRACE(to_string(dtype));
    const auto outcome_of = [&](ops::Family family, std::int64_t pipe) {
      return testing::run_grid(testing::on_gpu(run_of(family, dtype, {.pipe = pipe}, "program")));
    };
    testing::expect_equal(outcome_of(ops::Family::llama, 2), outcome_of(ops::Family::llama, 1));
    testing::expect_near(outcome_of(ops::Family::gpt2, 2), outcome_of(ops::Family::gpt2, 1),
                         dtype == DType::bf16 ? 3e-3 : 1e-5);
  }
}

TEST_F(CudaPipelines, SchedulesAndCommunicatorsDontChangeBits) {
  for (const ops::Family family : {ops::Family::gpt2, ops::Family::llama}) {
    for (const graph::Grid& grid : {graph::Grid{.pipe = 2}, graph::Grid{.data = 2, .pipe = 2}, graph::Grid{.pipe = 3},
                                    graph::Grid{.z = 2, .pipe = 2}}) {
      if (testing::kEmulated && (family == ops::Family::gpt2) == (grid.pipe == 3 || grid.z == 2))
        continue;  // half of them take long enough
      const auto with = [&](const char* policy) { return run_of(family, DType::bf16, grid, policy); };
      const testing::GridOutcome expected = testing::run_grid(testing::on_gpu(with("program")));
      for (const char* policy : {"1f1b", "zb-h1", "zb-v"}) {
        SCOPED_TRACE(std::string(ops::to_string(family)) + " " + graph::to_string(grid) + " " + policy);
        testing::expect_equal(testing::run_grid(testing::on_gpu(with(policy))), expected);
        // Streams of four ranks that wait for the host need more hardware queues than a process has.
        if (grid.ranks() > 3 && !testing::kEmulated) continue;
        testing::expect_equal(testing::run_grid(testing::on_gpu_staged(with(policy))), expected);
      }
    }
  }
}

TEST_F(CudaPipelines, AGraphReplaysTheSameBits) {
  for (const char* policy : {"1f1b", "zb-v"}) {
    const testing::GridRun run = run_of(ops::Family::gpt2, DType::bf16, {.pipe = 2}, policy);
    testing::expect_equal(testing::run_grid(testing::on_gpu(run, true)), testing::run_grid(testing::on_gpu(run)));
  }
}

TEST_F(CudaPipelines, ALostStageEndsTheRun) {
  testing::expect_a_lost_rank_ends(testing::on_gpu_staged(run_of(ops::Family::llama, DType::f32, {.pipe = 2}, "1f1b")));
}

class CudaNcclPipelines : public testing::SeveralGpus<4> {};

// All sums are of at most two numbers beside zeros, so NCCL's order adds them to the same bits.
TEST_F(CudaNcclPipelines, BitsAreThoseOfOneGpu) {
  for (const ops::Family family : {ops::Family::gpt2, ops::Family::llama}) {
    for (const graph::Grid& grid :
         {graph::Grid{.pipe = 2}, graph::Grid{.pipe = 3}, graph::Grid{.data = 2, .pipe = 2}}) {
      if (testing::kEmulated && (family == ops::Family::llama) != (grid.pipe == 3)) continue;
      const auto with = [&](const char* policy) { return run_of(family, DType::bf16, grid, policy); };
      const testing::GridOutcome expected = testing::run_grid(testing::on_gpu(with("program")));
      for (const char* policy : {"program", "1f1b", "zb-h1", "zb-v"}) {
        SCOPED_TRACE(std::string(ops::to_string(family)) + " " + graph::to_string(grid) + " " + policy);
        testing::expect_equal(testing::run_grid(testing::on_gpus(with(policy))), expected);
      }
      testing::expect_equal(testing::run_grid(testing::on_gpus(with("zb-v"), true)), expected);
    }
  }
}

TEST_F(CudaNcclPipelines, ALostStageEndsTheRun) {
  testing::expect_a_lost_rank_ends(testing::on_gpus(run_of(ops::Family::llama, DType::f32, {.pipe = 3}, "1f1b")));
}

}  // namespace
}  // namespace weft
