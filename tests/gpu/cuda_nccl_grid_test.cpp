// Grids of ranks in one process, each with its own GPU and NCCL collectives. Skipped if there are too few GPUs.
#include <gtest/gtest.h>
#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/grid.h"
#include "runtime/comm/communicator.h"
#include "runtime/execute/cuda/nccl_transport.h"
#include "tests/gpu/gpu_run.h"
#include "tests/gpu/gpu_test.h"
#include "tests/runtime/comm/ranks.h"

namespace weft {
namespace {

class CudaNcclGrid : public testing::SeveralGpus<8> {};

// Threads enqueue in step: none leaves a collective before all members of its group have come to it.
TEST_F(CudaNcclGrid, AllMembersHaveComeToWhatIsEnqueued) {
  const graph::Grid grid{.x = 2, .data = 2};
  std::vector<std::atomic<int>> prepared(4), steps(4), calls(4);
  testing::on_ranks(4, [&](comm::World& world) {
    const auto own = static_cast<std::size_t>(world.rank());
    const auto device = execute::make_cuda_device(world.rank());
    const execute::DeviceStream stream = device->add_stream("collectives", execute::StreamPriority::high);
    std::byte* const sum = device->allocate(4);
    const auto transport = execute::make_nccl_transport(world, grid, *device);
    for (const graph::Channel channel : {graph::Channel::x, graph::Channel::data}) transport->join(channel);
    ++prepared[own];
    transport->prepare(*device, {});
    for (const std::atomic<int>& each : prepared) EXPECT_EQ(each, 1);
    for (int step = 1; step <= 20; ++step) {
      ++steps[own];
      transport->begin_step(false);
      for (const std::atomic<int>& each : steps) EXPECT_GE(each, step);
      for (const graph::Channel channel : {graph::Channel::x, graph::Channel::data, graph::Channel::x}) {
        const int call = ++calls[own];
        transport->enqueue(*device, channel, stream,
                           {comm::CollectiveKind::all_reduce, DType::i32, 1, 0, nullptr, sum, nullptr});
        for (const std::int64_t rank : graph::group_ranks(grid, channel, world.rank())) {
          EXPECT_GE(calls[static_cast<std::size_t>(rank)], call) << "rank " << rank;
        }
      }
    }
    device->synchronize(stream);
  });
}

// A run that doesn't fit because of its communicators' buffers is refused before the first step.
TEST_F(CudaNcclGrid, BuffersCountAsMemory) {
  const testing::GridRun run = testing::small_run(ops::Family::gpt2, DType::f32, graph::Grid{1, 2, 1, 2});
  const auto exit_code_with = [&](std::int64_t memory_bytes) {
    return testing::run_grid(testing::on_gpus(run, {.memory_bytes = memory_bytes})).exit_code;
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

// In groups of two NCCL's sums have the bits of one GPU. An all-to-all has none to add.
TEST_F(CudaNcclGrid, ContextsTrainLikeOneGpu) {
  for (const graph::Grid& grid : {graph::Grid{.z = 2, .context = 2}, graph::Grid{.z = 4, .context = 2}}) {
    SCOPED_TRACE(graph::to_string(grid));
    const testing::GridRun run = testing::small_run(ops::Family::llama, DType::f32, grid);
    const testing::GridOutcome found = testing::run_grid(testing::on_gpus(run));
    testing::expect_near(found, testing::run_grid(run), 1e-5);
    testing::expect_equal(testing::run_grid(testing::on_gpus(run, true)), found);
    if (grid.z == 4) continue;
    testing::expect_equal(found, testing::run_grid(testing::on_gpu(run)));
    testing::expect_equal_under_policies(testing::on_gpus(run), found, {"serial", "lhs"});
  }
}

// The other rank takes the communicator's id and then goes another way.
TEST_F(CudaNcclGrid, ARankWaitsAsLongAsItIsTold) {
  const auto body = [&](comm::World& world) {
    if (world.rank() == 0) {
      execute::CudaDevice device(0);
      EXPECT_THROW(execute::NcclTransport(world, std::nullopt, device, {.peers_come = 0.05}), comm::PeerLost);
    } else {
      (void)comm::of_ranks(world, ncclUniqueId{});
    }
    world.barrier();
  };
  testing::on_ranks(2, body);
}

}  // namespace
}  // namespace weft
