// Ranks as threads of a test, and how they end.
#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "runtime/comm/launch.h"
#include "runtime/comm/local.h"

namespace weft::testing {

struct RanksEnd {
  int code;
  std::string errors;  // as the user would see them
};

/// Calls `body(world)` on each rank.
template <class Body>
RanksEnd end_of_ranks(int ranks, const Body& body) {
  std::ostringstream errors;
  const auto rank = [&](comm::World& world) {
    body(world);
    return 0;
  };
  const int code = comm::run_ranks(ranks, rank, errors);
  return {code, errors.str()};
}

/// All ranks have to end well.
template <class Body>
void on_ranks(int ranks, const Body& body) {
  const RanksEnd end = end_of_ranks(ranks, body);
  EXPECT_EQ(end.code, 0) << end.errors;
}

/// Calls `body(world)` on each rank, none of which ends the others.
template <class Body>
void on_own_worlds(int ranks, const Body& body) {
  const auto worlds = comm::make_local_worlds(ranks);
  std::vector<std::jthread> threads;
  for (const auto& world : worlds) threads.emplace_back([&] { body(*world); });
}

}  // namespace weft::testing
