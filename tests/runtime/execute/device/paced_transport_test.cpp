// Ranks that are threads enqueue in step: none leaves a collective before all members of its group have enqueued it.
#include "runtime/execute/device/paced_transport.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "tests/runtime/comm/ranks.h"
#include "tests/runtime/execute/device/fake_device.h"

namespace weft::execute {
namespace {

constexpr int kRanks = 4;

// What the hosts of all ranks have done so far.
struct Done {
  std::atomic<int> prepared = 0;
  std::vector<std::atomic<int>> steps = std::vector<std::atomic<int>>(kRanks),
                                enqueued = std::vector<std::atomic<int>>(kRanks);
};

class CountingTransport final : public DeviceTransport {
 public:
  CountingTransport(int rank, Done& done) : rank_(static_cast<std::size_t>(rank)), done_(done) {}

  std::string_view name() const override { return "counting"; }
  bool needs_host() const override { return false; }
  void join(graph::Channel /*channel*/) override {}
  void prepare(Device& /*device*/, std::span<const ChannelCalls> /*plans*/) override { ++done_.prepared; }
  void begin_step(bool /*loads*/) override { ++done_.steps[rank_]; }
  void enqueue(Device& /*device*/, graph::Channel /*channel*/, DeviceStream /*stream*/,
               const comm::CollectiveCall& /*call*/) override {
    ++done_.enqueued[rank_];
  }
  void check() override {}
  void stop() noexcept override {}

 private:
  std::size_t rank_;
  Done& done_;
};

graph::Grid grid_of_pairs() {
  graph::Grid grid;
  grid.x = grid.data = 2;
  return grid;
}

TEST(PacedTransport, AllMembersHaveEnqueuedWhatIsEnqueued) {
  Done done;
  const auto body = [&](comm::World& world) {
    const auto device = testing::make_fake_device();
    const DeviceStream stream = device->add_stream("collectives", StreamPriority::high);
    PacedTransport transport(world, grid_of_pairs(), std::make_unique<CountingTransport>(world.rank(), done));
    transport.join(graph::Channel::x);
    transport.join(graph::Channel::data);
    transport.prepare(*device, {});
    EXPECT_EQ(done.prepared, kRanks);
    int calls = 0;
    for (int step = 0; step < 50; ++step) {
      transport.begin_step(false);
      for (const std::atomic<int>& each : done.steps) EXPECT_GE(each, step);
      for (const graph::Channel channel : {graph::Channel::x, graph::Channel::data, graph::Channel::x}) {
        transport.enqueue(*device, channel, stream, {});
        ++calls;
        for (int rank = 0; rank < kRanks; ++rank) {
          const graph::Grid grid = grid_of_pairs();
          if (graph::group_color(grid, channel, rank) != graph::group_color(grid, channel, world.rank())) continue;
          EXPECT_GE(done.enqueued[static_cast<std::size_t>(rank)], calls) << "rank " << rank;
        }
      }
    }
  };
  testing::on_ranks(kRanks, body);
}

TEST(PacedTransport, ALostRankEndsTheWait) {
  Done done;
  const auto body = [&](comm::World& world) {
    const auto device = testing::make_fake_device();
    const DeviceStream stream = device->add_stream("collectives", StreamPriority::high);
    PacedTransport transport(world, grid_of_pairs(), std::make_unique<CountingTransport>(world.rank(), done));
    transport.join(graph::Channel::x);
    if (world.rank() == 3) throw std::runtime_error("lost");
    EXPECT_THROW(
        {
          transport.enqueue(*device, graph::Channel::x, stream, {});  // the group of rank 0 is whole
          transport.begin_step(false);
        },
        comm::PeerLost);
  };
  const testing::RanksEnd end = testing::end_of_ranks(kRanks, body);
  EXPECT_EQ(end.code, 3);
}

}  // namespace
}  // namespace weft::execute
