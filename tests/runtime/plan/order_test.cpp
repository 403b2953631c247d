#include "runtime/plan/order.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/runtime/random_graph.h"
#include "tests/runtime/toy_graph.h"

namespace weft {
namespace {

TEST(Order, SurvivesTheWayThroughBytes) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto graph = testing::random_graph(seed);
    const Order order = testing::RandomPolicy(seed, 5).order(*graph, {2});
    EXPECT_EQ(decode_order(encode(order), *graph), order);
  }
}

TEST(Order, EveryCutIsRefused) {
  const auto graph = testing::random_graph(1, {.tasks = 6, .tensors = 4});
  const std::vector<std::byte> bytes = encode(testing::RandomPolicy(1, 2).order(*graph, {1}));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(decode_order(std::span(bytes).first(size), *graph), std::runtime_error) << size;
  }
}

TEST(Order, BytesLeftOverAreRefused) {
  const auto graph = testing::random_graph(1);
  std::vector<std::byte> bytes = encode(testing::RandomPolicy(1).order(*graph, {1}));
  bytes.push_back(std::byte{0});
  EXPECT_THROW(decode_order(bytes, *graph), std::runtime_error);
}

TEST(Order, CorruptBytesNeverNameWhatDoesNotExist) {
  const auto graph = testing::random_graph(3, {.tasks = 10, .tensors = 6});
  const std::vector<std::byte> good = encode(testing::RandomPolicy(3, 3).order(*graph, {2}));
  int refused = 0;
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::vector<std::byte> bytes = good;
    bytes[at] = std::byte{0xFF};
    try {
      const Order order = decode_order(bytes, *graph);
      for (const Placement& placement : order.sequence) {
        EXPECT_LT(placement.task.index(), graph->tasks().size());
        EXPECT_LT(placement.stream.index(), order.streams.size());
        EXPECT_LT(placement.reason, order.reasons.size());
      }
    } catch (const std::runtime_error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(Order, OfALargerGraphIsRefused) {
  const auto large = testing::random_graph(4, {.tasks = 12});
  const auto small = testing::random_graph(4, {.tasks = 11});
  const std::vector<std::byte> bytes = encode(testing::RandomPolicy(4).order(*large, {1}));
  try {
    decode_order(bytes, *small);
    FAIL() << "accepted";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "malformed order: it names task 11 of 11");
  }
}

}  // namespace
}  // namespace weft
