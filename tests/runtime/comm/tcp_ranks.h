// Ranks that meet over TCP on this machine's loopback: as threads of a test, each with a world of its own.
#pragma once

#include <sys/socket.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/comm/socket.h"
#include "runtime/comm/tcp.h"

namespace weft::testing {

inline const comm::Address kLoopback = comm::Address::of("127.0.0.1", 0).front();

/// A port that nothing listens at. Tests run at once, so that none may have a fixed one.
inline int free_port() {
  return comm::Socket::listening(kLoopback).local().port();
}

inline comm::TcpLaunch launch_of(int rank, int ranks, int port) {
  return {.rank = rank, .ranks = ranks, .port = port};
}

inline comm::TcpSettings tcp_settings(double peer_timeout = 60) {
  return {.token = "the token of this test", .peer_timeout = peer_timeout};
}

/// Calls `body(rank)` on a thread for each rank, and returns when all have.
inline void on_threads(int ranks, const std::function<void(int)>& body) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&body, rank] { body(rank); });
}

/// Calls `body(world)` on each rank.
inline void on_tcp_worlds(int ranks, const std::function<void(comm::TcpWorld&)>& body) {
  const int port = free_port();
  on_threads(ranks, [&](int rank) {
    const auto world = comm::make_tcp_world(launch_of(rank, ranks, port), tcp_settings());
    body(*world);
  });
}

}  // namespace weft::testing
