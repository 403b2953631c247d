// All ranks meet, or each ends within the limit with the cause.
#include "runtime/comm/rendezvous.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/runtime/comm/tcp_ranks.h"

namespace weft::comm {
namespace {

using weft::testing::free_port;
using weft::testing::launch_of;
using weft::testing::tcp_settings;

/// How each of several processes, as threads, ends: "" if it meets the others.
std::vector<std::string> ends_of(const std::vector<TcpLaunch>& launches, double peer_timeout) {
  std::vector<std::string> ends(launches.size());
  std::vector<Meeting> meetings(launches.size());
  weft::testing::on_threads(static_cast<int>(launches.size()), [&](int i) {
    const auto index = static_cast<std::size_t>(i);
    ends[index] = weft::testing::message_of<UserError>(
        [&] { meetings[index] = meet(launches[index], tcp_settings(peer_timeout)); });
  });
  return ends;
}

TEST(Rendezvous, TellsEachRankOfTheOthers) {
  const int port = free_port();
  std::vector<Meeting> meetings(4);
  weft::testing::on_threads(4, [&](int rank) {
    TcpLaunch launch = launch_of(rank, 4, port);
    launch.rank_on_node = 3 - rank;
    meetings[static_cast<std::size_t>(rank)] = meet(launch, tcp_settings());
  });
  for (const Meeting& meeting : meetings) {
    ASSERT_EQ(meeting.peers.size(), 4U);
    EXPECT_EQ(meeting.peers, meetings.front().peers);
  }
  EXPECT_EQ(meetings[0].connections.size(), 4U);
  EXPECT_EQ(meetings[3].connections.size(), 1U);
  for (std::size_t r = 0; r < 4; ++r) {
    const Peer& peer = meetings[0].peers[r];
    EXPECT_EQ(peer.rank_on_node, 3 - static_cast<int>(r));
    EXPECT_EQ(peer.address, r == 0 ? "" : "127.0.0.1");
    EXPECT_EQ(peer.node, meetings[0].peers[0].node);
    EXPECT_FALSE(peer.host.empty());
  }
}

TEST(Rendezvous, NamesALatePeer) {
  const int port = free_port();
  const auto begin = std::chrono::steady_clock::now();
  const auto ends = ends_of({launch_of(0, 4, port), launch_of(2, 4, port)}, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  for (const std::string& end : ends) {
    EXPECT_TRUE(
        has_parts(end, {"ranks 1, 3 of 4 didn't come within 1 s", "rank 0 on ", "rank 2 on ", "--peer-timeout"}));
  }
}

TEST(Rendezvous, NamesAMissingRank0) {
  EXPECT_TRUE(has_parts(ends_of({launch_of(1, 2, free_port())}, 1).front(), {"rank 0 at 127.0.0.1:", "didn't answer"}));
}

TEST(Rendezvous, NamesAnotherNumberOfRanks) {
  const int port = free_port();
  for (const std::string& end : ends_of({launch_of(0, 2, port), launch_of(1, 3, port)}, 30)) {
    EXPECT_TRUE(has_parts(end, {"rank 1 (process ", "was started for 3 ranks, rank 0 for 2", "WORLD_SIZE"}));
  }
}

TEST(Rendezvous, NamesARankThatCameTwice) {
  const int port = free_port();
  for (const std::string& end : ends_of({launch_of(0, 3, port), launch_of(1, 3, port), launch_of(1, 3, port)}, 30)) {
    EXPECT_TRUE(has_parts(end, {"two processes were started as rank 1: process ", "RANK"}));
  }
}

// The second one finds the port taken by the first one of the same run, which hears of it.
TEST(Rendezvous, NamesTwoRanks0) {
  const int port = free_port();
  for (const std::string& end : ends_of({launch_of(0, 2, port), launch_of(0, 2, port)}, 30)) {
    EXPECT_TRUE(has_parts(end, {"two processes were started as rank 0", "RANK"}));
  }
}

TEST(Rendezvous, NamesATakenPort) {
  const Socket other = Socket::listening(weft::testing::kLoopback);
  const auto ends = ends_of({launch_of(0, 2, other.local().port())}, 1);
  EXPECT_TRUE(has_parts(ends.front(), {"rank 0 can't listen at 127.0.0.1:", "Address already in use", "MASTER_PORT"}));
}

// Of two runs at one port, the later rank is told, and the earlier run isn't disturbed.
TEST(Rendezvous, TurnsAwayRanksOfAnotherRun) {
  const int port = free_port();
  std::vector<TcpLaunch> launches = {launch_of(0, 2, port), launch_of(1, 2, port), launch_of(1, 2, port)};
  launches[0].run = launches[1].run = "torchrun/one/0";
  launches[2].run = "torchrun/other/0";
  std::string end_of_other;
  std::vector<std::string> ends;
  std::jthread first([&] { ends = ends_of({launches[0]}, 30); });
  end_of_other = ends_of({launches[2]}, 30).front();
  const std::string end_of_second = ends_of({launches[1]}, 30).front();
  first.join();
  EXPECT_TRUE(has_parts(end_of_other, {"belongs to another run", "MASTER_PORT"}));
  EXPECT_EQ(end_of_second, "");
  EXPECT_EQ(ends.front(), "");
}

TEST(Rendezvous, StrangersDontDisturb) {
  const int port = free_port();
  std::vector<std::string> ends;
  std::jthread first([&] { ends = ends_of({launch_of(0, 2, port)}, 30); });
  std::vector<Socket> strangers;
  std::string why;
  while (strangers.size() < 3) {
    if (auto socket = Socket::connected(weft::testing::kLoopback.with_port(port), seconds_from_now(1), why)) {
      std::ignore =
          socket->send_all(std::as_bytes(std::span(std::string_view("GET / HTTP/1.0\r\n\r\n"))), seconds_from_now(1));
      strangers.push_back(std::move(*socket));
    }
  }
  EXPECT_EQ(ends_of({launch_of(1, 2, port)}, 30).front(), "");
  first.join();
  EXPECT_EQ(ends.front(), "");
}

TEST(Rendezvous, StaysOnTheMachineUnlessTold) {
  TcpLaunch launch = launch_of(0, 2, free_port());
  launch.host = "192.0.2.1";  // of documentation: no machine has it
  const auto addresses = [&](bool beyond) {
    TcpSettings settings = tcp_settings();
    settings.beyond_loopback = beyond;
    return addresses_of_rank_0(launch, settings);
  };
  EXPECT_TRUE(weft::testing::refuses([&] { addresses(false); }, {"192.0.2.1", "loopback", "--network any"}));
  EXPECT_EQ(addresses(true).front().text(), fmt::format("192.0.2.1:{}", launch.port));
  launch.host = "localhost";
  EXPECT_TRUE(addresses(false).front().is_loopback());
  launch.host = "no-such-host.invalid";
  EXPECT_TRUE(weft::testing::refuses([&] { addresses(true); },
                                     {"no-such-host.invalid of rank 0's machine isn't known", "MASTER_ADDR"}));
}

TEST(Introduction, ReadsBack) {
  const Introduction one{3, 8, 1, 4711, "loom", "9a0c/net:[4026531840]", "slurm/12.0"};
  EXPECT_EQ(parse_introduction(to_text(one)), one);
  for (const char* wrong : {"", "1", "0\n2\n0\n1\nloom\nnode", "2\n2\n0\n1\nloom\nnode\n", "0\n0\n0\n1\nloom\nnode\n",
                            "-1\n2\n0\n1\nloom\nnode\n", "0\n2\n0\n1\nlo\x1bom\nnode\n", "0\n2\n0\nx\nloom\nnode\n",
                            "0\n2\n0\n1\nloom\nnode\nrun\n"}) {
    EXPECT_TRUE(weft::testing::refuses([&] { parse_introduction(wrong); }, {"an introduction"})) << wrong;
  }
}

TEST(Peers, ReadBack) {
  const std::vector<Peer> peers = {{"loom", "a/b", "", 12, -1}, {"spindle", "c/d", "fe80::1", 13, 2}};
  EXPECT_EQ(parse_peers(to_text(peers)), peers);
  for (const char* wrong : {"", "loom", "loom\ta/b\t\t12\t-2", "loom\ta/b\t\t12\t0\n", "lo\x1bom\ta\t\t1\t0"}) {
    EXPECT_TRUE(weft::testing::refuses([&] { parse_peers(wrong); }, {"a list of ranks"})) << wrong;
  }
}

}  // namespace
}  // namespace weft::comm
