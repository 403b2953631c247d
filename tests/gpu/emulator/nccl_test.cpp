// NCCL's ways between emulated GPUs: each keeps the bits or repeats them, and what the emulator counts shows that the
// way was taken.
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "runtime/execute/cuda/nccl_transport.h"
#include "tests/base/messages.h"
#include "tests/gpu/emulator/failures.h"
#include "tests/gpu/emulator/gpu.h"
#include "tests/gpu/gpu_run.h"
#include "tests/gpu/gpu_test.h"
#include "tests/runtime/comm/ranks.h"

namespace weft {
namespace {

using execute::NcclSettings;
using Protocol = NcclSettings::Protocol;

class NcclWays : public testing::SeveralGpus<4> {
 protected:
  // The environment is the process's.
  ~NcclWays() override { ::setenv("NCCL_PROTO", "Simple", 1); }

  static testing::GridRun with(const testing::GridRun& run, const NcclSettings& settings, bool graphs = false) {
    return testing::on_gpus(run, graphs, false, settings);
  }

  static std::uint64_t calls_of(const std::string& name) {
    std::uint64_t count = 0;
    for (const auto& [call, of] : emulator::calls()) count += call.name == name ? of.count : 0;
    return count;
  }
};

// Sums of four begin at another rank with each choice.
TEST_F(NcclWays, ProtocolsAndChannelsRepeatTheirBits) {
  testing::GridRun run = testing::small_run(ops::Family::gpt2, DType::bf16, graph::Grid{.data = 4});
  run.steps = 2;
  std::vector<testing::GridOutcome> found;
  for (const NcclSettings& settings :
       {NcclSettings{}, NcclSettings{.protocol = Protocol::ll}, NcclSettings{.protocol = Protocol::automatic},
        NcclSettings{.channels = 1}, NcclSettings{.protocol = Protocol::ll, .channels = 2}}) {
    ::setenv("NCCL_PROTO", "Simple", 1);
    const testing::GridOutcome outcome = testing::run_grid(with(run, settings));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
    testing::expect_equal(testing::run_grid(with(run, settings)), outcome);
    for (const testing::GridOutcome& other : found) EXPECT_NE(outcome.arrays, other.arrays);
    found.push_back(outcome);
  }
}

TEST_F(NcclWays, ChannelsCountAsMemory) {
  testing::on_ranks(2, [](comm::World& world) {
    const auto device = execute::make_cuda_device(world.rank());
    const graph::Grid grid{.data = 2};
    const auto transport = execute::make_nccl_transport(world, grid, *device, {}, {.channels = 3});
    transport->join(graph::Channel::data);
    EXPECT_EQ(transport->device_bytes(graph::Channel::data), 3 * execute::kNcclChannelBytes);
  });
}

TEST_F(NcclWays, GroupedGathersKeepTheBits) {
  for (const bool graphs : {false, true}) {
    const testing::GridRun run = testing::small_run(ops::Family::gpt2, DType::bf16, graph::Grid{.x = 2, .z = 2});
    const std::uint64_t before = calls_of("ncclGroupEnd");
    const testing::GridOutcome plain = testing::run_grid(with(run, {}, graphs));
    EXPECT_EQ(calls_of("ncclGroupEnd"), before);
    testing::expect_equal(testing::run_grid(with(run, {.grouped_gathers = true}, graphs)), plain);
    EXPECT_GT(calls_of("ncclGroupEnd") + calls_of("ncclGroupEnd in a capture"), before);
  }
}

TEST_F(NcclWays, ASupervisorKeepsTheBits) {
  for (const bool graphs : {false, true}) {
    const testing::GridRun run = testing::small_run(ops::Family::gpt2, DType::f32, graph::Grid{.x = 2, .data = 2});
    testing::expect_equal(testing::run_grid(with(run, {.grouped_gathers = true, .supervised = true}, graphs)),
                          testing::run_grid(with(run, {}, graphs)));
  }
}

TEST_F(NcclWays, EveryBufferIsKnown) {
  for (const bool supervised : {false, true}) {
    const testing::GridRun run = testing::small_run(ops::Family::gpt2, DType::bf16, graph::Grid{.x = 2, .z = 2});
    const emulator::BufferCalls before = emulator::buffer_calls();
    testing::expect_equal(testing::run_grid(with(run, {.supervised = supervised, .registered = true})),
                          testing::run_grid(with(run, {})));
    EXPECT_GT(emulator::buffer_calls().known, before.known);
    EXPECT_EQ(emulator::buffer_calls().unknown, before.unknown);
  }
}

// One rank comes to a collective and the other doesn't: the supervisor names the limit, and the abort leaves nobody
// behind.
TEST_F(NcclWays, ASupervisorEndsACallWithoutPeers) {
  const std::size_t misuses = emulator::misuses();
  testing::on_ranks(2, [](comm::World& world) {
    execute::CudaDevice device(world.rank());
    const execute::DeviceStream stream = device.add_stream("collectives", execute::StreamPriority::high);
    std::byte* const sum = device.allocate(4);
    execute::NcclTransport transport(world, graph::Grid{.data = 2}, device, {.peers_come = 0.2, .peers_leave = 0.2},
                                     false, {.supervised = true});
    transport.join(graph::Channel::data);
    const comm::CollectiveCall call{comm::CollectiveKind::all_reduce, DType::i32, 1, 0, nullptr, sum, nullptr};
    if (world.rank() == 0) {
      try {
        transport.enqueue(device, graph::Channel::data, stream, call);
        ADD_FAILURE() << "it ended without its peer";
      } catch (const comm::PeerLost& error) {
        EXPECT_TRUE(testing::contains(error.what(), "all_reduce of 1 i32: the other ranks didn't come within 0.2 s"))
            << error.what();
      }
      EXPECT_THROW(transport.check(), comm::PeerLost);
      EXPECT_THROW(transport.enqueue(device, graph::Channel::data, stream, call), comm::PeerLost);
    }
    transport.stop();
    EXPECT_THROW(transport.check(), std::runtime_error);
    EXPECT_NO_THROW(device.synchronize(stream));
    world.barrier();
  });
  EXPECT_EQ(emulator::misuses(), misuses);
}

}  // namespace
}  // namespace weft
