// Collectives through pinned memory and the CPU's communicators, on fake devices: the promised bits for every kind and
// type, several channels under way at once, and a rank that is lost.
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <stdexcept>
#include <thread>

#include "runtime/execute/channel_groups.h"
#include "runtime/execute/device/transport.h"
#include "tests/runtime/comm/collectives_check.h"
#include "tests/runtime/comm/ranks.h"
#include "tests/runtime/execute/device/fake_device.h"

namespace weft::execute {
namespace {

constexpr graph::Channel kFirst = graph::Channel::data, kSecond = graph::Channel::z_gather;

// One rank's device, with a stream for each of two channels.
struct StagedRank {
  explicit StagedRank(comm::World& world, std::uint64_t seed = 1)
      : device(testing::make_fake_device({.seed = seed + static_cast<std::uint64_t>(world.rank())})),
        first(device->add_stream("first", StreamPriority::high)),
        second(device->add_stream("second", StreamPriority::high)),
        transport(make_staged_transport(world, std::nullopt)) {
    transport->join(kFirst);
    transport->join(kSecond);
  }

  std::unique_ptr<testing::FakeDevice> device;
  DeviceStream first, second;
  std::unique_ptr<DeviceTransport> transport;
};

// An event after all work enqueued on the stream so far.
DeviceEvent end_of(Device& device, DeviceStream stream) {
  const DeviceEvent event = device.add_event(false);
  device.record(event, stream);
  return event;
}

// Every kind in and out of place, some counts, all on two channels, at once unless the step `loads`; "" or a
// description of the error.
template <class T>
std::string check_all(comm::World& world, DType dtype, bool loads = false) {
  StagedRank rank(world);
  std::deque<test::Case<T>> cases;
  ChannelCalls first{kFirst, {}}, second{kSecond, {}};
  std::uint64_t salt = 0;
  for (const comm::CollectiveKind kind : test::kAllKinds) {
    for (const std::int64_t count : {0, 1, 7, 1000, 70000}) {
      for (const bool in_place : {false, true}) {
        const std::int64_t root = count % world.size();
        cases.emplace_back(kind, dtype, world.rank(), world.size(), count, root, in_place, ++salt);
        (in_place ? first : second).calls.push_back(cases.back().call());
      }
    }
  }
  rank.transport->prepare(*rank.device, std::vector{first, second});
  for (int step = 0; step < 2; ++step) {
    rank.transport->begin_step(loads);
    // The second step works on the data that the first step has changed: only the first step's results are known
    // beforehand.
    for (std::size_t i = 0; i < first.calls.size(); ++i) {
      rank.transport->enqueue(*rank.device, kFirst, rank.first, first.calls[i]);
      rank.transport->enqueue(*rank.device, kSecond, rank.second, second.calls[i]);
    }
    wait_for(*rank.device, end_of(*rank.device, rank.first), *rank.transport);
    wait_for(*rank.device, end_of(*rank.device, rank.second), *rank.transport);
    rank.device->synchronize(rank.first);
    rank.device->synchronize(rank.second);
    if (step > 0) break;
    Fingerprint ignored;
    for (const auto& of : cases) {
      if (std::string text = of.check(ignored); !text.empty()) return text;
    }
  }
  return "";
}

// Rows there and back, one exchange after the other in the same pinned memory.
template <class T>
std::string check_rows(comm::World& world, DType dtype) {
  StagedRank rank(world);
  std::deque<test::RowsCase<T>> cases;
  ChannelCalls calls{kFirst, {}};
  for (const std::int64_t rows : {0, 1, 61}) {
    for (const test::RowShares shares : {test::RowShares::uneven, test::RowShares::all_to_one}) {
      cases.emplace_back(dtype, world.rank(), world.size(), 7, rows, shares, cases.size());
      calls.calls.insert(calls.calls.end(), {cases.back().there(), cases.back().back()});
    }
  }
  rank.transport->prepare(*rank.device, std::vector{calls});
  rank.transport->begin_step(false);
  for (const comm::CollectiveCall& call : calls.calls) rank.transport->enqueue(*rank.device, kFirst, rank.first, call);
  wait_for(*rank.device, end_of(*rank.device, rank.first), *rank.transport);
  rank.device->synchronize(rank.first);
  Fingerprint ignored;
  for (auto& of : cases) {
    if (std::string text = of.check(ignored, /*rest_stays=*/false); !text.empty()) return text;
  }
  return "";
}

class StagedRanks : public ::testing::TestWithParam<int> {};

TEST_P(StagedRanks, EveryCollectiveHasThePromisedBits) {
  testing::on_ranks(GetParam(), [](comm::World& world) {
    EXPECT_EQ(check_all<float>(world, DType::f32), "");
    EXPECT_EQ(check_all<float>(world, DType::f32, true), "");
    EXPECT_EQ(check_all<bf16>(world, DType::bf16), "");
    EXPECT_EQ(check_all<std::int32_t>(world, DType::i32), "");
    EXPECT_EQ(check_all<std::int64_t>(world, DType::i64), "");
    EXPECT_EQ(check_rows<float>(world, DType::f32), "");
    EXPECT_EQ(check_rows<bf16>(world, DType::bf16), "");
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, StagedRanks, ::testing::Values(1, 2, 3, 4));

TEST(StagedTransport, MessagesReachBothNeighbours) {
  using graph::Channel;
  for (const graph::Grid& grid : {graph::Grid{.pipe = 2}, graph::Grid{.pipe = 3}, graph::Grid{.x = 2, .pipe = 4}}) {
    testing::on_ranks(static_cast<int>(grid.ranks()), [&](comm::World& world) {
      const auto device = testing::make_fake_device({.seed = static_cast<std::uint64_t>(world.rank())});
      const auto transport = make_staged_transport(world, grid);
      auto* const values = reinterpret_cast<std::int32_t*>(device->allocate(16));
      std::vector<ChannelCalls> calls;
      std::vector<DeviceStream> streams;
      for (const Channel channel :
           {Channel::send_next, Channel::receive_previous, Channel::receive_next, Channel::send_previous}) {
        transport->join(channel);
        const bool sends = is_send(channel);
        const int place = place_in_pair(grid, channel, world.rank());
        std::int32_t& value = values[calls.size()];
        value = sends ? world.rank() : -1;
        calls.push_back(
            {channel,
             {{comm::CollectiveKind::broadcast, DType::i32, 1, sends ? place : 1 - place, nullptr, &value, nullptr}}});
        streams.push_back(device->add_stream(std::string(graph::to_string(channel)), StreamPriority::high));
      }
      transport->prepare(*device, calls);
      for (std::size_t i = 0; i < calls.size(); ++i) {
        transport->enqueue(*device, calls[i].channel, streams[i], calls[i].calls.front());
      }
      for (const DeviceStream stream : streams) wait_for(*device, end_of(*device, stream), *transport);
      EXPECT_EQ(values[1], graph::peer_rank(grid, Channel::receive_previous, world.rank()));
      EXPECT_EQ(values[2], graph::peer_rank(grid, Channel::receive_next, world.rank()));
    });
  }
}

// The collective is in flight, or this rank's own stream is far from it.
TEST(StagedTransport, ALostPeerEndsTheWait) {
  for (const bool in_flight : {true, false}) {
    SCOPED_TRACE(in_flight);
    std::atomic<bool> waits{false};
    const testing::RanksEnd end = testing::end_of_ranks(2, [&](comm::World& world) {
      StagedRank rank(world);
      std::vector<float> values(1000), workspace(1000);
      std::atomic<std::uint32_t> ready{in_flight ? 1U : 0U};
      const comm::CollectiveCall call{
          comm::CollectiveKind::all_reduce, DType::f32, 1000, 0, nullptr, values.data(), workspace.data()};
      rank.transport->prepare(*rank.device, std::vector{ChannelCalls{kFirst, {call}}});
      if (world.rank() == 1) {
        while (!waits) std::this_thread::yield();
        throw std::runtime_error("gone");
      }
      rank.device->wait_value(rank.first, &ready, 1);
      rank.transport->enqueue(*rank.device, kFirst, rank.first, call);
      const DeviceEvent after = end_of(*rank.device, rank.first);
      EXPECT_FALSE(rank.device->done(after));
      waits = true;
      EXPECT_THROW(wait_for(*rank.device, after, *rank.transport), comm::PeerLost);
      if (in_flight) {
        EXPECT_THROW(rank.transport->check(), comm::PeerLost);
      }
      rank.transport->stop();
      ready = 1;
      rank.device->synchronize(rank.first);  // the stream continues, with undefined data
    });
    EXPECT_EQ(end.code, 3);
    EXPECT_EQ(end.errors, "weft: error: rank 1: gone\n");
  }
}

TEST(StagedTransport, StopsWithACollectiveThatNobodyJoins) {
  testing::on_ranks(2, [](comm::World& world) {
    StagedRank rank(world);
    std::vector<float> values(1000), workspace(1000);
    const comm::CollectiveCall call{
        comm::CollectiveKind::all_reduce, DType::f32, 1000, 0, nullptr, values.data(), workspace.data()};
    rank.transport->prepare(*rank.device, std::vector{ChannelCalls{kFirst, {call}}});
    if (world.rank() == 0) rank.transport->enqueue(*rank.device, kFirst, rank.first, call);
  });
}

TEST(StagedTransport, RefusesMoreThanWasPrepared) {
  testing::on_ranks(1, [](comm::World& world) {
    StagedRank rank(world);
    float value = 1;
    const comm::CollectiveCall call{comm::CollectiveKind::all_reduce, DType::f32, 1, 0, nullptr, &value, nullptr};
    rank.transport->prepare(*rank.device, std::vector{ChannelCalls{kFirst, {call}}});
    rank.transport->enqueue(*rank.device, kFirst, rank.first, call);
    EXPECT_THROW(rank.transport->enqueue(*rank.device, kFirst, rank.first, call), std::logic_error);
    EXPECT_THROW(rank.transport->enqueue(*rank.device, kSecond, rank.second, call), std::logic_error);
    EXPECT_TRUE(rank.transport->needs_host());
  });
}

}  // namespace
}  // namespace weft::execute
