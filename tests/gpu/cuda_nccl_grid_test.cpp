// Grids of ranks in one process, each with its own GPU and NCCL collectives. Skipped if there are too few GPUs.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/execute/cuda/nccl_transport.h"
#include "tests/gpu/gpu_run.h"
#include "tests/gpu/gpu_test.h"
#include "tests/gpu/nccl_calls.h"
#include "tests/runtime/comm/ranks.h"

namespace weft {
namespace {

class CudaNcclGrid : public testing::SeveralGpus<8> {};

TEST_F(CudaNcclGrid, CollectivesStayWithinTheirGroups) {
  const graph::Grid grid = graph::Grid{2, 1, 2, 2};
  const auto body = [&](comm::World& world) {
    execute::CudaDevice device(world.rank());
    testing::NcclCalls calls(
        world, grid, device,
        {graph::Channel::x, graph::Channel::z_gather, graph::Channel::z_scatter, graph::Channel::data});
    calls.write(0);
    calls.enqueue();
    calls.expect(0);
  };
  testing::on_ranks(static_cast<int>(grid.ranks()), body);
}

// A run that doesn't fit because of its communicators' buffers is refused before the first step.
TEST_F(CudaNcclGrid, BuffersCountAsMemory) {
  const testing::GridRun run = testing::small_run(ops::Family::gpt2, DType::f32, graph::Grid{1, 2, 1, 2});
  const auto exit_code_with = [&](std::int64_t memory_bytes) {
    testing::GridRun limited = run;
    limited.make_executor = [grid = run.step.grid, memory_bytes](comm::World& world, const execute::State& state) {
      const execute::DeviceExecutorOptions options{.memory_bytes = memory_bytes};
      auto device = execute::make_cuda_device(world.rank());
      auto transport = execute::make_nccl_transport(world, grid, *device);
      auto team = std::make_shared<execute::DeviceTeam>(std::move(device), 1, grid, options, std::move(transport));
      return std::make_unique<execute::DeviceExecutor>(std::move(team), world, state);
    };
    return testing::run_grid(limited).exit_code;
  };
  constexpr std::int64_t kRest = std::int64_t{64} << 20;
  EXPECT_EQ(exit_code_with(2 * execute::kNcclCommunicatorBytes + kRest), 2)
      << "three channels are used: y, data and world";
  EXPECT_EQ(exit_code_with(3 * execute::kNcclCommunicatorBytes + kRest), 0);
}

// Sums go around rings, so they equal the local sums up to rounding.
TEST_F(CudaNcclGrid, LossesAreThoseOfOneGpu) {
  for (const ops::Family family : {ops::Family::gpt2, ops::Family::llama}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const testing::GridOutcome serial = testing::run_grid(testing::on_gpu(testing::small_run(family, dtype, {})));
      for (const graph::Grid& grid : {graph::Grid{2, 2, 2, 1}, graph::Grid{1, 1, 1, 4}}) {
        SCOPED_TRACE(std::string(ops::to_string(family)) + " " + std::string(to_string(dtype)) + " " +
                     graph::to_string(grid));
        testing::expect_near(testing::run_grid(testing::on_gpus(testing::small_run(family, dtype, grid))), serial,
                             dtype == DType::bf16 ? 5e-3 : 1e-5);
      }
    }
  }
}

TEST_F(CudaNcclGrid, SchedulesDontChangeBits) {
  const testing::GridRun run = testing::small_run(ops::Family::gpt2, DType::bf16, graph::Grid{2, 1, 2, 1});
  const testing::GridOutcome first = testing::run_grid(testing::on_gpus(run));
  testing::expect_equal_under_policies(testing::on_gpus(run), first);
  testing::expect_equal(testing::run_grid(testing::on_gpus(run, true)), first);
}

// A second collective on each of two channels waits for a peer that never arrives; at a first one the host itself would
// wait. Each must be abortable while the other waits.
TEST_F(CudaNcclGrid, AStopEndsEveryChannel) {
  const graph::Grid grid = graph::Grid{2, 1, 1, 2};
  const auto body = [&](comm::World& world) {
    execute::CudaDevice device(world.rank());
    constexpr std::int64_t kCount = 4;
    std::byte* const memory = device.allocate(kCount * 8);
    execute::NcclTransport transport(world, grid, device);
    for (const graph::Channel channel : {graph::Channel::x, graph::Channel::data}) {
      transport.join(channel);
      const execute::DeviceStream stream = device.add_stream("collectives", execute::StreamPriority::high);
      std::byte* const out = memory + (channel == graph::Channel::x ? 0 : kCount * 4);
      for (int call = 0; call < (world.rank() == 0 ? 2 : 1); ++call) {
        transport.enqueue(device, channel, stream,
                          {comm::CollectiveKind::all_reduce, DType::i32, kCount, 0, nullptr, out, nullptr});
      }
    }
    transport.stop();
    const execute::DeviceStream after = device.add_stream("after", execute::StreamPriority::normal);
    device.copy(after, memory, memory + kCount * 4, kCount * 4);
    EXPECT_NO_THROW(device.synchronize(after));
  };
  testing::on_ranks(static_cast<int>(grid.ranks()), body);
}

// The other rank takes the communicator's id and then goes another way.
TEST_F(CudaNcclGrid, ARankWaitsAsLongAsItIsTold) {
  const auto body = [&](comm::World& world) {
    if (world.rank() == 0) {
      execute::CudaDevice device(0);
      EXPECT_THROW(execute::NcclTransport(world, std::nullopt, device, {.peers_come = 0.05}), comm::PeerLost);
    } else {
      std::vector<std::byte> id;
      world.broadcast(id, 0);
    }
    world.barrier();
  };
  testing::on_ranks(2, body);
}

TEST_F(CudaNcclGrid, ALostRankEndsTheRun) {
  testing::expect_a_lost_rank_ends(
      testing::on_gpus(testing::small_run(ops::Family::gpt2, DType::f32, graph::Grid{1, 2, 1, 2})));
}

}  // namespace
}  // namespace weft
