#include "runtime/plan/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/random_graph.h"
#include "tests/runtime/toy_graph.h"

namespace weft::plan {
namespace {

TEST(Order, SurvivesTheWayThroughBytes) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto graph = testing::random_graph(seed);
    const Order order = testing::RandomPolicy(seed, 5).order(*graph, {2});
    EXPECT_EQ(decode_order(encode(order), *graph), order);
  }
}

/// An order with a reason of every kind, with all data that it has, each of a portfolio's choice and not.
Order with_all_reasons(const graph::Graph& graph) {
  Order order = testing::RandomPolicy(1, 2).order(graph, {1});
  for (std::size_t kind = 0; kind <= static_cast<std::size_t>(ReasonKind::other); ++kind) {
    for (std::size_t p = 0; p <= static_cast<std::size_t>(Priority::annealed); ++p) {
      Reason reason{.kind = static_cast<ReasonKind>(kind)};
      if (has_priority(reason.kind)) reason.priority = static_cast<Priority>(p);
      const ReasonData data = data_of(reason.kind, reason.priority);
      for (std::size_t i = 0; i < data.numbers; ++i) reason.numbers[i] = UINT64_MAX - i;
      for (std::size_t i = 0; i < data.ns; ++i) reason.ns[i] = 1.5 + static_cast<double>(i);
      if (reason.kind == ReasonKind::other) reason.text = "for fun";
      if (p % 2 == 1) reason.selection = Selection{"lhs", 13, p - 1, p == 3, 0.25, p == 3 ? "recompute=1" : ""};
      order.reasons.push_back(std::move(reason));
    }
  }
  return order;
}

TEST(Order, ReasonsOfAllKindsSurvive) {
  const auto graph = testing::random_graph(1, {.tasks = 6, .tensors = 4});
  const Order order = with_all_reasons(*graph);
  EXPECT_EQ(decode_order(encode(order), *graph), order);
}

TEST(Order, EveryCutIsRefused) {
  const auto graph = testing::random_graph(1, {.tasks = 6, .tensors = 4});
  const std::vector<std::byte> bytes = encode(with_all_reasons(*graph));
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

TEST(Order, DamagedReasonsAreRefused) {
  const auto graph = testing::random_graph(1, {.tasks = 6, .tensors = 4});
  Order order = testing::RandomPolicy(1).order(*graph, {1});
  const auto bytes_of = [&](Reason reason) {
    order.reasons = {{.kind = ReasonKind::program_order}, std::move(reason)};
    return encode(order);
  };
  const auto message = [&](const std::vector<std::byte>& bytes) -> std::string {
    try {
      decode_order(bytes, *graph);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  // The byte by which two orders differ first, with another value.
  const auto damaged = [&](const Reason& reason, const Reason& other, std::uint8_t value) {
    std::vector<std::byte> bytes = bytes_of(reason);
    *std::ranges::mismatch(bytes, bytes_of(other)).in1 = std::byte{value};
    return message(bytes);
  };
  const Reason best{.kind = ReasonKind::best_ready}, tied{.kind = ReasonKind::tied_ready};
  const Reason swept{.kind = ReasonKind::best_ready, .priority = Priority::swept};
  const auto past = [](auto last) { return static_cast<std::uint8_t>(static_cast<std::uint8_t>(last) + 1); };
  EXPECT_EQ(message(bytes_of(best)), "");
  EXPECT_EQ(damaged(best, tied, past(ReasonKind::other)), "malformed order: unknown kind of reason");
  EXPECT_EQ(damaged(best, swept, past(Priority::annealed)), "malformed order: unknown priority");
  const Reason selected{.kind = ReasonKind::best_ready, .selection = Selection{}};
  EXPECT_EQ(damaged(best, selected, 2), "malformed order: unknown mark of a selection");
  for (const double ns : {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(message(bytes_of({.kind = ReasonKind::program_order, .selection = Selection{.makespan_ns = ns}})),
              "malformed order: a time is negative or not finite");
  }
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
}  // namespace weft::plan
