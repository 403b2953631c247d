// Collectives over TCP give the bits of local ranks; ranks that fail or are lost are named on all others.
#include "runtime/comm/tcp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "runtime/comm/control.h"
#include "runtime/comm/launch.h"
#include "tests/base/messages.h"
#include "tests/runtime/comm/collectives_check.h"
#include "tests/runtime/comm/ranks.h"
#include "tests/runtime/comm/tcp_ranks.h"

namespace weft::comm {
namespace {

using weft::testing::has_parts;
using weft::testing::on_tcp_worlds;

class TcpRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Numbers, TcpRanks, ::testing::Values(2, 3, 4));

TEST_P(TcpRanks, ExchangeAsAllWorldsDo) {
  on_tcp_worlds(GetParam(), [](TcpWorld& world) {
    EXPECT_EQ(test::check_world(world), "");
    EXPECT_EQ(world.ranks_on_node(), world.size());
    EXPECT_EQ(world.rank_on_node(), world.rank());
    world.leave();
  });
}

TEST_P(TcpRanks, GiveTheBitsOfLocalRanks) {
  std::vector<std::uint64_t> hashes(1);
  weft::testing::on_ranks(GetParam(), [&](World& world) {
    const test::CheckResult result = test::check_collectives(world);
    if (world.rank() == 0) hashes[0] = result.hash;
  });
  on_tcp_worlds(GetParam(), [&](TcpWorld& world) {
    const test::CheckResult result = test::check_collectives(world);
    EXPECT_TRUE(result.failures.empty()) << result.failures.front();
    EXPECT_EQ(result.hash, hashes[0]);
    world.leave();
  });
}

// A launcher may give GPUs in another order than ranks; where it doesn't tell all places, the order decides.
TEST(Tcp, TakesTheLaunchersPlacesOnANode) {
  for (const bool all_tell : {true, false}) {
    const int port = weft::testing::free_port();
    weft::testing::on_threads(3, [&](int rank) {
      TcpLaunch launch = weft::testing::launch_of(rank, 3, port);
      if (all_tell || rank > 0) launch.rank_on_node = 2 - rank;
      const auto world = make_tcp_world(launch, weft::testing::tcp_settings());
      EXPECT_EQ(world->rank_on_node(), all_tell ? 2 - rank : rank);
      EXPECT_EQ(world->ranks_on_node(), 3);
      world->leave();
    });
  }
}

// The root waits for nobody: what it sends ahead is kept for the others, or waits in the connection.
TEST(Tcp, ARootMayBeFarAhead) {
  constexpr std::int64_t kCount = 1 << 20;
  constexpr int kTimes = 40;  // 160 MiB, more than is kept
  on_tcp_worlds(2, [](TcpWorld& world) {
    const auto group = world.split(0);
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::vector<std::int32_t> values(kCount);
    for (int i = 0; i < kTimes; ++i) {
      if (world.rank() == 0) std::ranges::fill(values, i);
      run_blocking(*group, {CollectiveKind::broadcast, DType::i32, kCount, 0, nullptr, values.data(), nullptr});
      EXPECT_EQ(values.front(), i);
      EXPECT_EQ(values.back(), i);
    }
    world.leave();
  });
}

// Ranks end their groups as soon as they have done their part, while others still work on the last collective.
TEST(Tcp, AGroupEndsAtDifferentTimes) {
  for (int i = 0; i < 20; ++i) {
    on_tcp_worlds(4, [](TcpWorld& world) {
      {
        const auto group = world.split(0);
        std::vector<float> values(1003), workspace(2000);
        const CollectiveCall call{
            CollectiveKind::all_reduce, DType::f32, 1003, 0, nullptr, values.data(), workspace.data()};
        if (world.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        EXPECT_NO_THROW(run_blocking(*group, call));
      }
      world.leave();
    });
  }
}

TEST(Tcp, DifferingCollectivesAreNamed) {
  std::atomic<int> named = 0;
  on_tcp_worlds(2, [&](TcpWorld& world) {
    const auto group = world.split(0);
    const std::int64_t count = world.rank() == 0 ? 5 : 6;
    std::vector<float> in(6), out(12);
    try {
      run_blocking(*group, {CollectiveKind::all_gather, DType::f32, count, 0, in.data(), out.data(), nullptr});
      world.barrier();
    } catch (const RuntimeFault& error) {
      if (has_parts(error.what(), {"all_gather: rank ", "bytes where", "differ"})) ++named;
      world.abort(error.what(), 3);
    } catch (const PeerLost&) {
    }
  });
  EXPECT_GE(named, 1);
}

/// What each rank but `silent` throws when that rank's connections close without a word.
std::vector<std::string> losses(int ranks, int silent, const std::function<void(TcpWorld&)>& wait) {
  std::vector<std::string> texts(static_cast<std::size_t>(ranks));
  on_tcp_worlds(ranks, [&](TcpWorld& world) {
    world.barrier();
    if (world.rank() == silent) return;
    texts[static_cast<std::size_t>(world.rank())] = weft::testing::message_of<PeerLost>([&] { wait(world); });
  });
  return texts;
}

void expect_named(const std::vector<std::string>& texts, int silent) {
  for (std::size_t r = 0; r < texts.size(); ++r) {
    if (static_cast<int>(r) == silent) continue;
    EXPECT_TRUE(has_parts(texts[r], {"rank " + std::to_string(silent) + " (process ", " on ", "is lost"})) << r;
  }
}

TEST(Tcp, ALostRankIsNamedInBarriers) {
  for (const int silent : {0, 2}) {
    expect_named(losses(3, silent, [](TcpWorld& world) { world.barrier(); }), silent);
  }
}

TEST(Tcp, ALostRankIsNamedInCollectives) {
  for (const int silent : {0, 1}) {
    std::vector<std::string> texts(3);
    on_tcp_worlds(3, [&](TcpWorld& world) {
      const auto group = world.split(0);
      world.barrier();
      if (world.rank() == silent) return;
      std::vector<float> values(1000), workspace(1000);
      texts[static_cast<std::size_t>(world.rank())] = weft::testing::message_of<PeerLost>([&] {
        run_blocking(*group,
                     {CollectiveKind::all_reduce, DType::f32, 1000, 0, nullptr, values.data(), workspace.data()});
      });
    });
    expect_named(texts, silent);
  }
}

TEST(Tcp, WaitsThatSeeNoPeersNoticeALostOne) {
  expect_named(losses(2, 1,
                      [](TcpWorld& world) {
                        for (;;) world.expect_peers();
                      }),
               1);
}

TEST(Tcp, AnAbortTellsItsReason) {
  on_tcp_worlds(3, [](TcpWorld& world) {
    if (world.rank() == 1) world.abort("the disk is full", 3);
    EXPECT_EQ(weft::testing::message_of<PeerLost>([&] { world.barrier(); }), "the disk is full");
    RunEnd end;
    ASSERT_TRUE(world.ended(end));
    EXPECT_EQ(end.rank, 1);
    EXPECT_EQ(end.code, 3);
  });
}

/// The exit codes of ranks that call `body`, and all that they print.
struct Ends {
  std::vector<int> codes;
  std::string errors;
};
Ends ends_of_ranks(int ranks, const std::function<int(World&)>& body) {
  Ends ends{std::vector<int>(static_cast<std::size_t>(ranks)), ""};
  const int port = weft::testing::free_port();
  ::testing::internal::CaptureStderr();
  weft::testing::on_threads(ranks, [&](int rank) {
    ends.codes[static_cast<std::size_t>(rank)] =
        run_tcp(weft::testing::launch_of(rank, ranks, port), weft::testing::tcp_settings(), body);
  });
  ends.errors = ::testing::internal::GetCapturedStderr();
  return ends;
}

TEST(RunTcp, ReturnsEachRanksCode) {
  const Ends ends = ends_of_ranks(3, [](World& world) { return world.rank(); });
  EXPECT_EQ(ends.codes, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(ends.errors, "");
}

TEST(RunTcp, ReportsAnErrorOfAllRanksOnce) {
  const Ends ends = ends_of_ranks(3, [](World&) -> int { throw UserError("grid 3", "a divisor of 4", ""); });
  EXPECT_EQ(ends.codes, (std::vector<int>{2, 2, 2}));
  EXPECT_EQ(ends.errors, "weft: error: grid 3; expected a divisor of 4\n");
}

TEST(RunTcp, NamesTheRankThatFailed) {
  const Ends user_error = ends_of_ranks(3, [](World& world) {
    if (world.rank() == 1) throw UserError("no such file", "", "");
    world.barrier();
    return 0;
  });
  EXPECT_EQ(user_error.codes, (std::vector<int>{2, 2, 2}));
  EXPECT_EQ(user_error.errors, "weft: error: rank 1: no such file\n");
  const Ends fault = ends_of_ranks(3, [](World& world) {
    if (world.rank() == 2) throw RuntimeFault("disk full");
    world.barrier();
    return 0;
  });
  EXPECT_EQ(fault.codes, (std::vector<int>{3, 3, 3}));
  EXPECT_EQ(fault.errors, "weft: error: rank 2: disk full\n");
}

TEST(Frames, ReadBackInAnyPieces) {
  const std::vector<std::vector<std::byte>> of_ranks = {{}, std::vector<std::byte>(300, std::byte{7}), {std::byte{1}}};
  std::vector<std::byte> bytes = to_bytes({Frame::Kind::result, to_content(of_ranks)});
  const RunEnd end{2, 3, true, "disk full"};
  const std::vector<std::byte> second = to_bytes({Frame::Kind::end, to_content(end)});
  bytes.insert(bytes.end(), second.begin(), second.end());
  for (const std::size_t piece : {1U, 7U, 1000U}) {
    FrameReader reader;
    std::vector<Frame> frames;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      reader.add(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
      while (auto frame = reader.next()) frames.push_back(std::move(*frame));
    }
    ASSERT_EQ(frames.size(), 2U);
    EXPECT_EQ(parse_result(frames[0].content), of_ranks);
    const RunEnd back = parse_end(frames[1].content);
    EXPECT_EQ(back.rank, 2);
    EXPECT_EQ(back.text, end.text);
    EXPECT_TRUE(back.reported);
  }
}

TEST(Frames, NonsenseIsRefused) {
  FrameReader reader;
  reader.add(std::vector<std::byte>(9, std::byte{0x77}));
  EXPECT_THROW(reader.next(), RuntimeFault);
  std::vector<std::byte> content = to_content(std::vector<std::vector<std::byte>>{{std::byte{1}}, {}});
  for (std::size_t size = 0; size < content.size(); ++size) {
    EXPECT_THROW(parse_result(std::span(content).first(size)), RuntimeFault) << size;
  }
  content.push_back(std::byte{0});
  EXPECT_THROW(parse_result(content), RuntimeFault);
  EXPECT_THROW(parse_end({}), RuntimeFault);
  EXPECT_THROW(parse_end(to_content(RunEnd{.rank = -2})), RuntimeFault);
}

}  // namespace
}  // namespace weft::comm
