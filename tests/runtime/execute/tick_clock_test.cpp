// Ticks become nanoseconds of steady_clock, between threads as well, and never run backwards.
#include "runtime/execute/tick_clock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace weft::execute {
namespace {

TEST(TickClock, AnEventLiesBetweenTheReadingsAroundIt) {
  for (const bool counter : {false, true}) {
    const TickClock clock(counter);
    for (int i = 0; i < 1000; ++i) {
      const std::int64_t before = steady_now();
      const TickClock::Reading begin = clock.read();
      const std::int64_t event = clock.now_after_loads();
      const TickClock::Reading end = clock.read();
      const std::int64_t after = steady_now();
      const std::int64_t ns = nanoseconds(event, begin, end);
      ASSERT_LE(before, begin.ns);
      ASSERT_LE(begin.ns, ns);
      ASSERT_LE(ns, end.ns);
      ASSERT_LE(end.ns, after);
      ASSERT_LE(begin.ticks, event);
      ASSERT_LE(event, end.ticks);
    }
  }
}

TEST(TickClock, NanosecondsFollowTheLineBetweenTwoReadings) {
  const TickClock::Reading begin{1000, 5'000'000}, end{4000, 5'001'000};
  EXPECT_EQ(nanoseconds(1000, begin, end), 5'000'000);
  EXPECT_EQ(nanoseconds(2500, begin, end), 5'000'500);
  EXPECT_EQ(nanoseconds(4000, begin, end), 5'001'000);
  EXPECT_EQ(nanoseconds(0, begin, end), 5'000'000);
  EXPECT_EQ(nanoseconds(9999, begin, end), 5'001'000);
  EXPECT_EQ(nanoseconds(1000, begin, begin), 5'000'000);
  std::int64_t last = 0;
  for (std::int64_t ticks = 900; ticks < 4100; ++ticks) {
    EXPECT_LE(last, nanoseconds(ticks, begin, end));
    last = nanoseconds(ticks, begin, end);
  }
}

TEST(TickClock, ATickOfSteadyClockIsANanosecond) {
  EXPECT_EQ(TickClock(false).ticks_in(1'000'000), 1'000'000);
  EXPECT_GT(TickClock(true).ticks_in(1'000'000), 1000);
}

// A thread that has seen another thread's write never has an earlier time.
TEST(TickClock, WhatComesAfterIsNoEarlierOnAnotherThread) {
  const TickClock clock;
  constexpr int kTurns = 2000;
  std::atomic<int> turn{0};
  std::int64_t latest = 0;  // handed to and fro with the turn
  std::atomic<int> backwards{0};
  const auto play = [&](int parity) {
    for (int i = parity; i < kTurns; i += 2) {
      while (turn.load(std::memory_order_acquire) != i) std::this_thread::yield();
      const std::int64_t now = clock.now_after_loads();
      if (now < latest) ++backwards;
      latest = clock.now();
      turn.store(i + 1, std::memory_order_release);
    }
  };
  std::thread other([&] { play(1); });
  play(0);
  other.join();
  EXPECT_EQ(backwards, 0);
}

}  // namespace
}  // namespace weft::execute
