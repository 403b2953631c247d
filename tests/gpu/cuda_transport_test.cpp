// What carries collectives from one executor's GPU to another's: through the host, where the ranks know nothing of
// each other's streams on the one GPU, and NCCL, of which one GPU shows that its calls are legal.
#include <gtest/gtest.h>

#include <stdexcept>

#include "runtime/comm/local.h"
#include "runtime/execute/cuda/nccl_transport.h"
#include "runtime/execute/device/staged_transport.h"
#include "tests/gpu/gpu_run.h"
#include "tests/gpu/gpu_test.h"

namespace weft {
namespace {

GridRun on_gpu_staged(GridRun run) {
  run.make_executor = [grid = run.step.grid](World& world, const State& state) {
    const DeviceExecutorOptions options{.kept_steps = 1, .trace_every = 4};
    auto team = std::make_shared<DeviceTeam>(make_cuda_device(0), 1, grid, options,
                                             std::make_unique<StagedTransport>(world, grid));
    return std::make_unique<DeviceExecutor>(std::move(team), world, state);
  };
  return run;
}

class CudaStaged : public GpuTest {};

TEST_F(CudaStaged, HasTheBitsOfLocal) {
  for (const Grid& grid : {grid_of(2, 1, 1, 2), grid_of(1, 2, 2, 1)}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(to_string(grid) + " " + std::string(to_string(dtype)));
      const GridRun run = small_run(Family::gpt2, dtype, grid);
      expect_equal(run_grid(on_gpu_staged(run)), run_grid(on_gpu(run)));
    }
  }
}

TEST_F(CudaStaged, ALostRankEndsTheRun) {
  expect_a_lost_rank_ends(on_gpu_staged(small_run(Family::gpt2, DType::f32, grid_of(1, 1, 1, 2))));
}

// One rank alone: a sum is its own, a gather a copy.
class CudaNccl : public GpuTest {
 protected:
  static constexpr std::int64_t kCount = 1000;
  static constexpr std::int64_t kBytes = kCount * 4;

  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    worlds_ = make_local_worlds(1);
    device_ = std::make_unique<CudaDevice>(0);
    stream_ = device_->add_stream("collectives", StreamPriority::high);
    end_ = device_->add_event(false);
    host_ = reinterpret_cast<std::int32_t*>(device_->allocate_pinned(kBytes));
    for (std::byte*& buffer : buffers_) buffer = device_->allocate(kBytes);
    transport_ = std::make_unique<NcclTransport>(*worlds_.front(), std::nullopt, *device_);
    for (const Channel channel : {Channel::x, Channel::z_gather, Channel::z_scatter, Channel::data}) {
      transport_->join(channel);
    }
    transport_->prepare(*device_, {});
  }

  // From the first buffer to the last, one collective after the other.
  void enqueue_all(DType dtype = DType::i32) {
    auto* const b = buffers_;
    const auto call = [&](Channel channel, CollectiveKind kind, std::byte* from, std::byte* to) {
      const auto count = kBytes / static_cast<std::int64_t>(size_of(dtype));
      transport_->enqueue(*device_, channel, stream_, {kind, dtype, count, 0, from, to, nullptr});
    };
    call(Channel::x, CollectiveKind::all_reduce, nullptr, b[0]);
    call(Channel::z_scatter, CollectiveKind::reduce_scatter, b[0], b[1]);
    call(Channel::z_gather, CollectiveKind::all_gather, b[1], b[2]);
    call(Channel::data, CollectiveKind::broadcast, nullptr, b[2]);
  }

  void write(std::int32_t value) {
    for (std::int64_t i = 0; i < kCount; ++i) host_[i] = value + static_cast<std::int32_t>(i);
    device_->copy(stream_, buffers_[0], host_, kBytes);
    device_->synchronize(stream_);
  }
  void expect(std::int32_t value) {
    device_->copy(stream_, host_, buffers_[2], kBytes);
    device_->record(end_, stream_);
    wait_for(*device_, end_, *transport_);
    device_->synchronize(end_);
    EXPECT_EQ(host_[0], value);
    EXPECT_EQ(host_[kCount - 1], value + kCount - 1);
  }

  std::vector<std::unique_ptr<World>> worlds_;
  std::unique_ptr<CudaDevice> device_;
  DeviceStream stream_;
  DeviceEvent end_;
  std::int32_t* host_ = nullptr;
  std::byte* buffers_[3] = {};
  std::unique_ptr<NcclTransport> transport_;  // goes before the device
};

TEST_F(CudaNccl, EveryKindOnChannelsOfTheirOwn) {
  for (const DType dtype : {DType::i32, DType::i64, DType::f32, DType::bf16}) {
    SCOPED_TRACE(to_string(dtype));
    write(7);
    enqueue_all(dtype);
    expect(7);
  }
}

TEST_F(CudaNccl, AGraphReplaysThem) {
  write(1);
  enqueue_all();
  expect(1);
  device_->begin_capture(stream_);
  enqueue_all();
  const DeviceGraph graph = device_->end_capture(stream_);
  for (const std::int32_t value : {2, 3}) {
    write(value);
    device_->launch(stream_, graph);
    expect(value);
  }
  device_->destroy(graph);
}

TEST_F(CudaNccl, NothingFollowsAStop) {
  write(1);
  enqueue_all();
  transport_->stop();
  EXPECT_THROW(transport_->check(), std::logic_error);
  EXPECT_THROW(enqueue_all(), std::logic_error);
  EXPECT_NO_THROW(device_->synchronize(stream_));
}

// The whole executor with its collectives in NCCL's hands, eager and replayed.
TEST_F(CudaNccl, ATrainingStep) {
  GridRun run = small_run(Family::gpt2, DType::bf16, {});
  const GridOutcome local = run_grid(on_gpu(run));
  for (const bool graphs : {false, true}) {
    SCOPED_TRACE(graphs ? "replayed" : "eager");
    run.make_executor = [grid = run.step.grid, graphs](World& world, const State& state) {
      const DeviceExecutorOptions options{.kept_steps = 1, .trace_every = 4, .graphs = graphs};
      auto device = make_cuda_device(0);
      auto transport = make_nccl_transport(world, grid, *device);
      auto team = std::make_shared<DeviceTeam>(std::move(device), 1, grid, options, std::move(transport));
      return std::make_unique<DeviceExecutor>(std::move(team), world, state);
    };
    expect_equal(run_grid(run), local);
  }
}

}  // namespace
}  // namespace weft
