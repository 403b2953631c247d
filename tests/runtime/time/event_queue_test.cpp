#include "runtime/time/event_queue.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "tests/runtime/random_graph.h"

namespace weft::time {
namespace {

TEST(EventQueue, TheEarliestComesFirstAndOfEqualTimesTheFirstSlot) {
  for (const std::size_t slots : {1U, 7U, 200U}) {
    testing::Draws draws(slots);
    EventQueue queue(slots);
    std::map<std::size_t, double> expected;  // by slot
    for (int step = 0; step < 2000; ++step) {
      const std::size_t slot = draws.below(slots);
      if (draws.chance(60)) {
        const auto time = static_cast<double>(draws.below(20));
        queue.set(slot, time);
        expected[slot] = time;
      } else {
        queue.remove(slot);
        expected.erase(slot);
      }
      ASSERT_EQ(queue.empty(), expected.empty());
      if (expected.empty()) continue;
      std::pair<double, std::size_t> first{EventQueue::kNever, 0};
      for (const auto& [at, time] : expected) first = std::min(first, std::pair(time, at));
      ASSERT_EQ(std::pair(queue.time(queue.first()), queue.first()), first);
    }
  }
}

}  // namespace
}  // namespace weft::time
