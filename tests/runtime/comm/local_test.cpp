// Collectives of ranks that are threads: right bits, right failures.
#include "runtime/comm/local.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/runtime/comm/collectives_check.h"
#include "tests/runtime/comm/ranks.h"

namespace weft::comm {
namespace {

class LocalCollectives : public ::testing::TestWithParam<int> {};

TEST_P(LocalCollectives, GiveTheBitsOfASumInRankOrder) {
  const auto ranks = static_cast<std::size_t>(GetParam());
  std::vector<test::CheckResult> results(ranks);
  testing::on_ranks(GetParam(), [&](World& world) {
    results[static_cast<std::size_t>(world.rank())] = test::check_collectives(world);
  });
  for (const auto& result : results) {
    EXPECT_EQ(result.failures, std::vector<std::string>{});
    EXPECT_EQ(result.hash, results[0].hash);
  }
}

TEST_P(LocalCollectives, WorldExchangesBytes) {
  testing::on_ranks(GetParam(), [](World& world) { EXPECT_EQ(test::check_world(world), ""); });
}

INSTANTIATE_TEST_SUITE_P(Ranks, LocalCollectives, ::testing::Values(1, 2, 3, 4));

// Otherwise the checks of order above would prove nothing.
TEST(CollectivesCheck, InputsTellOrdersOfSummationApart) {
  int different = 0;
  for (int i = 0; i < 1000; ++i) {
    const float a = test::element<float>(1, 0, i), b = test::element<float>(1, 1, i), c = test::element<float>(1, 2, i);
    if ((a + b) + c != (c + b) + a) ++different;
  }
  EXPECT_GT(different, 100);
}

TEST(LocalCommunicator, NothingCompletesBeforeAllHaveStarted) {
  auto worlds = make_local_worlds(2);
  std::unique_ptr<Communicator> other;
  std::thread splitter([&] { other = worlds[1]->split(0); });
  const auto own = worlds[0]->split(0);
  splitter.join();
  std::vector<float> a = {1, 2, 3}, b = {10, 20, 30}, workspace(2);
  EXPECT_TRUE(own->progress());  // nothing in flight
  own->start({CollectiveKind::all_reduce, DType::f32, 3, 0, nullptr, a.data(), workspace.data()});
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(own->progress());
  EXPECT_EQ(a, (std::vector<float>{1, 2, 3}));
  other->start({CollectiveKind::all_reduce, DType::f32, 3, 0, nullptr, b.data(), workspace.data()});
  bool own_done = false, other_done = false;
  for (int i = 0; i < 10; ++i) {  // one thread drives both ends: no call of progress() waits
    own_done = own->progress();
    other_done = other->progress();
  }
  EXPECT_TRUE(own_done);
  EXPECT_TRUE(other_done);
  EXPECT_EQ(a, (std::vector<float>{11, 22, 33}));
  EXPECT_EQ(b, a);
}

TEST(LocalCommunicator, OneCallOfProgressMovesABoundedAmount) {
  auto worlds = make_local_worlds(1);
  const auto group = worlds[0]->split(0);
  std::vector<std::int32_t> in(1 << 20, 5), out(1 << 20);
  group->start({CollectiveKind::all_gather, DType::i32, 1 << 20, 0, in.data(), out.data(), nullptr});
  int calls = 1;
  while (!group->progress()) ++calls;
  EXPECT_GE(calls, 4);  // 4 MB at 1 MB a call
  EXPECT_EQ(out, in);
}

TEST(LocalCommunicator, RefusesWrongCalls) {
  auto worlds = make_local_worlds(1);
  const auto group = worlds[0]->split(0);
  float value = 1;
  EXPECT_THROW(group->start({CollectiveKind::broadcast, DType::f32, -1, 0, nullptr, &value, nullptr}),
               std::logic_error);
  EXPECT_THROW(group->start({CollectiveKind::broadcast, DType::f32, 1, 1, nullptr, &value, nullptr}), std::logic_error);
  EXPECT_THROW(group->start({CollectiveKind::all_gather, DType::f32, 1, 0, nullptr, &value, nullptr}),
               std::logic_error);
  group->start({CollectiveKind::broadcast, DType::f32, 1, 0, nullptr, &value, nullptr});
  EXPECT_THROW(group->start({CollectiveKind::broadcast, DType::f32, 1, 0, nullptr, &value, nullptr}), std::logic_error);
  while (!group->progress()) {
  }
}

TEST(LocalCommunicator, RanksThatDisagreeAreTold) {
  const testing::RanksEnd end = testing::end_of_ranks(2, [](World& world) {
    const auto group = world.split(0);
    float value = 1, workspace = 0;
    run_blocking(*group, {CollectiveKind::all_reduce, world.rank() == 0 ? DType::f32 : DType::i32, 1, 0, nullptr,
                          &value, &workspace});
  });
  EXPECT_EQ(end.code, 3);
  EXPECT_TRUE(testing::has_parts(end.errors, {"ranks disagree", "all_reduce of 1 i32"}));
}

TEST(LocalWorld, AbortWakesWhoeverWaits) {
  std::atomic<int> woken{0};
  testing::on_ranks(3, [&](World& world) {
    const auto group = world.split(0);
    EXPECT_NO_THROW(world.expect_peers());
    world.barrier();
    if (world.rank() == 2) return world.abort("the disk is full", 3);
    try {
      if (world.rank() == 0) world.barrier();
      float value = 1, workspace[2] = {};
      run_blocking(*group, {CollectiveKind::all_reduce, DType::f32, 1, 0, nullptr, &value, workspace});
    } catch (const PeerLost& error) {
      if (std::string(error.what()) == "the disk is full") ++woken;
      EXPECT_THROW(world.expect_peers(), PeerLost);
    }
  });
  EXPECT_EQ(woken, 2);
}

// A rank unwinds in the middle of a collective, and its buffers die while others read them: they must have stopped.
TEST(LocalWorld, RankThatFailsMidwayLeavesNobodyReadingItsBuffers) {
  for (int repetition = 0; repetition < 50; ++repetition) {
    const testing::RanksEnd end = testing::end_of_ranks(3, [&](World& world) {
      std::vector<float> buffer(300000, 1.0F), workspace(300000);
      const auto group = world.split(0);
      group->start({CollectiveKind::all_reduce, DType::f32, 300000, 0, nullptr, buffer.data(), workspace.data()});
      for (int calls = 0; !group->progress(); ++calls) {
        if (world.rank() == 1 && calls == repetition) throw RuntimeFault("gave up");
      }
      world.barrier();
    });
    EXPECT_TRUE(end.code == 0 || (end.code == 3 && end.errors == "weft: error: rank 1: gave up\n")) << end.errors;
  }
}

}  // namespace
}  // namespace weft::comm
