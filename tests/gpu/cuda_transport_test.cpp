// The transports that carry collectives between executors' GPUs: through the host, where ranks on one GPU know nothing
// of each other's streams; and NCCL, of which one GPU can only show that the calls are legal.
#include <gtest/gtest.h>

#include <stdexcept>

#include "runtime/comm/local.h"
#include "tests/gpu/gpu_run.h"
#include "tests/gpu/gpu_test.h"
#include "tests/gpu/nccl_calls.h"

namespace weft {
namespace {

class CudaStaged : public testing::GpuTest {};

TEST_F(CudaStaged, HasTheBitsOfLocal) {
  struct Case {
    graph::Grid grid;
    DType dtype;
    bool emulated_too;  // emulated GPUs are slow: each grid with one type
  };
  const graph::Grid rows = graph::Grid{2, 1, 1, 2}, columns = graph::Grid{1, 2, 2, 1};
  for (const Case& each : {Case{rows, DType::f32, true}, Case{rows, DType::bf16, false},
                           Case{columns, DType::f32, false}, Case{columns, DType::bf16, true}}) {
    if (testing::kEmulated && !each.emulated_too) continue;
    SCOPED_TRACE(graph::to_string(each.grid) + " " + std::string(to_string(each.dtype)));
    const testing::GridRun run = testing::small_run(ops::Family::gpt2, each.dtype, each.grid);
    testing::expect_equal(testing::run_grid(testing::on_gpu_staged(run)), testing::run_grid(testing::on_gpu(run)));
  }
}

// A single rank: its sum is its own data, a gather is a copy.
class CudaNccl : public testing::GpuTest {
 protected:
  void SetUp() override {
    testing::GpuTest::SetUp();
    if (IsSkipped()) return;
    worlds_ = comm::make_local_worlds(1);
    device_ = std::make_unique<execute::CudaDevice>(0);
    calls_ = std::make_unique<testing::NcclCalls>(
        *worlds_.front(), graph::Grid{}, *device_,
        std::vector{graph::Channel::x, graph::Channel::z_gather, graph::Channel::z_scatter, graph::Channel::data});
  }

  std::vector<std::unique_ptr<comm::World>> worlds_;
  std::unique_ptr<execute::CudaDevice> device_;
  std::unique_ptr<testing::NcclCalls> calls_;  // destroyed before the device
};

TEST_F(CudaNccl, EveryKindOnChannelsOfTheirOwn) {
  calls_->run(false);
}

TEST_F(CudaNccl, AGraphReplaysThem) {
  calls_->run(true);
}

TEST_F(CudaNccl, NothingFollowsAStop) {
  calls_->write(1);
  calls_->enqueue();
  calls_->transport().stop();
  EXPECT_THROW(calls_->transport().check(), std::logic_error);
  EXPECT_THROW(calls_->enqueue(), std::logic_error);
  EXPECT_NO_THROW(device_->synchronize(calls_->origin()));
}

// The whole executor with NCCL's collectives, eager and replayed.
TEST_F(CudaNccl, ATrainingStep) {
  const testing::GridRun run = testing::small_run(ops::Family::gpt2, DType::bf16, {});
  const testing::GridOutcome local = testing::run_grid(testing::on_gpu(run));
  for (const bool graphs : {false, true}) {
    SCOPED_TRACE(graphs ? "replayed" : "eager");
    testing::expect_equal(testing::run_grid(testing::on_gpus(run, graphs)), local);
  }
}

}  // namespace
}  // namespace weft
