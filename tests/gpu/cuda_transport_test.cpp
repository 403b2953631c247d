// The transports that carry collectives between executors' GPUs: through the host, where ranks on one GPU know nothing
// of each other's streams; and NCCL, of which one GPU can only show that the calls are legal.
#include <gtest/gtest.h>

#include <stdexcept>

#include "runtime/comm/local.h"
#include "runtime/execute/cuda/nccl_transport.h"
#include "tests/gpu/gpu_run.h"
#include "tests/gpu/gpu_test.h"

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

TEST_F(CudaStaged, ALostRankEndsTheRun) {
  testing::expect_a_lost_rank_ends(
      testing::on_gpu_staged(testing::small_run(ops::Family::gpt2, DType::f32, graph::Grid{1, 1, 1, 2})));
}

// A single rank: its sum is its own data, a gather is a copy.
class CudaNccl : public testing::GpuTest {
 protected:
  static constexpr std::int64_t kCount = 1000;
  static constexpr std::int64_t kBytes = kCount * 4;

  void SetUp() override {
    testing::GpuTest::SetUp();
    if (IsSkipped()) return;
    worlds_ = comm::make_local_worlds(1);
    device_ = std::make_unique<execute::CudaDevice>(0);
    stream_ = device_->add_stream("collectives", execute::StreamPriority::high);
    end_ = device_->add_event(false);
    host_ = reinterpret_cast<std::int32_t*>(device_->allocate_pinned(kBytes));
    for (std::byte*& buffer : buffers_) buffer = device_->allocate(kBytes);
    transport_ = std::make_unique<execute::NcclTransport>(*worlds_.front(), std::nullopt, *device_);
    for (const graph::Channel channel :
         {graph::Channel::x, graph::Channel::z_gather, graph::Channel::z_scatter, graph::Channel::data}) {
      transport_->join(channel);
    }
    transport_->prepare(*device_, {});
  }

  // From the first buffer to the last, one collective after the other.
  void enqueue_all(DType dtype = DType::i32) {
    auto* const b = buffers_;
    const auto call = [&](graph::Channel channel, comm::CollectiveKind kind, std::byte* from, std::byte* to) {
      const auto count = kBytes / static_cast<std::int64_t>(size_of(dtype));
      transport_->enqueue(*device_, channel, stream_, {kind, dtype, count, 0, from, to, nullptr});
    };
    call(graph::Channel::x, comm::CollectiveKind::all_reduce, nullptr, b[0]);
    call(graph::Channel::z_scatter, comm::CollectiveKind::reduce_scatter, b[0], b[1]);
    call(graph::Channel::z_gather, comm::CollectiveKind::all_gather, b[1], b[2]);
    call(graph::Channel::data, comm::CollectiveKind::broadcast, nullptr, b[2]);
  }

  void write(std::int32_t value) {
    for (std::int64_t i = 0; i < kCount; ++i) host_[i] = value + static_cast<std::int32_t>(i);
    device_->copy(stream_, buffers_[0], host_, kBytes);
    device_->synchronize(stream_);
  }
  void expect(std::int32_t value) {
    device_->copy(stream_, host_, buffers_[2], kBytes);
    device_->record(end_, stream_);
    execute::wait_for(*device_, end_, *transport_);
    device_->synchronize(end_);
    EXPECT_EQ(host_[0], value);
    EXPECT_EQ(host_[kCount - 1], value + kCount - 1);
  }

  std::vector<std::unique_ptr<comm::World>> worlds_;
  std::unique_ptr<execute::CudaDevice> device_;
  execute::DeviceStream stream_;
  execute::DeviceEvent end_;
  std::int32_t* host_ = nullptr;
  std::byte* buffers_[3] = {};
  std::unique_ptr<execute::NcclTransport> transport_;  // destroyed before the device
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
  const execute::DeviceGraph graph = device_->end_capture(stream_);
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

// The whole executor with NCCL's collectives, eager and replayed.
TEST_F(CudaNccl, ATrainingStep) {
  testing::GridRun run = testing::small_run(ops::Family::gpt2, DType::bf16, {});
  const testing::GridOutcome local = testing::run_grid(testing::on_gpu(run));
  for (const bool graphs : {false, true}) {
    SCOPED_TRACE(graphs ? "replayed" : "eager");
    run.make_executor = [grid = run.step.grid, graphs](comm::World& world, const execute::State& state) {
      const execute::DeviceExecutorOptions options{.kept_steps = 1, .trace_every = 4, .graphs = graphs};
      auto device = execute::make_cuda_device(0);
      auto transport = execute::make_nccl_transport(world, grid, *device);
      auto team = std::make_shared<execute::DeviceTeam>(std::move(device), 1, grid, options, std::move(transport));
      return std::make_unique<execute::DeviceExecutor>(std::move(team), world, state);
    };
    testing::expect_equal(testing::run_grid(run), local);
  }
}

}  // namespace
}  // namespace weft
