#include "runtime/plan/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/policy/builtin/anneal.h"
#include "runtime/policy/builtin/axonn.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/schedules/gpipe.h"
#include "tests/base/messages.h"
#include "tests/runtime/random_graph.h"
#include "tests/runtime/toy_graph.h"

namespace weft::plan {
namespace {

TEST(Order, SurvivesTheWayThroughBytes) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto graph = testing::random_graph(seed);
    const Order order = testing::RandomPolicy(seed, 5).order(*graph, {2});
    EXPECT_EQ(decode_order(encode(order), *graph, policy::reason_tables()), order);
  }
}

/// An order with each reason of all tables, with all data that it has, and a text; each of a portfolio's choice and
/// not.
Order with_all_reasons(const graph::Graph& graph) {
  Order order = testing::RandomPolicy(1, 2).order(graph, {1});
  order.reasons.push_back({.text = "for fun"});
  for (const ReasonTable* table : policy::reason_tables()) {
    for (std::uint16_t code = 0; code < table->texts.size(); ++code) {
      Reason reason{.table = table, .code = code};
      const ReasonData data = data_of(reason);
      for (std::size_t i = 0; i < data.numbers; ++i) reason.numbers[i] = table->words.empty() ? (i + 1) << 20 : i + 1;
      for (std::size_t i = 0; i < data.ns; ++i) reason.ns[i] = static_cast<double>(i + 1) * 1e6;
      order.reasons.push_back(std::move(reason));
    }
  }
  for (std::size_t i = 0, all = order.reasons.size(); i < all; ++i) {
    Reason& selected = order.reasons.emplace_back(order.reasons[i]);
    selected.selection = Selection{"lhs", 13, i % 2 * 4096, i % 4 == 3, 2e6, i % 3 == 0 ? "recompute=1" : ""};
  }
  return order;
}

TEST(Order, ReasonsOfAllTablesSurviveAsBytesAndAsTexts) {
  const auto graph = testing::random_graph(1, {.tasks = 6, .tensors = 4});
  const Order order = with_all_reasons(*graph);
  EXPECT_EQ(decode_order(encode(order), *graph, policy::reason_tables()), order);
  for (const Reason& reason : order.reasons)
    EXPECT_EQ(parse_reason(to_string(reason), policy::reason_tables()), reason);
}

TEST(Order, EveryCutIsRefused) {
  const auto graph = testing::random_graph(1, {.tasks = 6, .tensors = 4});
  const std::vector<std::byte> bytes = encode(with_all_reasons(*graph));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(decode_order(std::span(bytes).first(size), *graph, policy::reason_tables()), std::runtime_error)
        << size;
  }
}

TEST(Order, BytesLeftOverAreRefused) {
  const auto graph = testing::random_graph(1);
  std::vector<std::byte> bytes = encode(testing::RandomPolicy(1).order(*graph, {1}));
  bytes.push_back(std::byte{0});
  EXPECT_THROW(decode_order(bytes, *graph, policy::reason_tables()), std::runtime_error);
}

TEST(Order, CorruptBytesNeverNameWhatDoesNotExist) {
  const auto graph = testing::random_graph(3, {.tasks = 10, .tensors = 6});
  const std::vector<std::byte> good = encode(testing::RandomPolicy(3, 3).order(*graph, {2}));
  int refused = 0;
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::vector<std::byte> bytes = good;
    bytes[at] = std::byte{0xFF};
    try {
      const Order order = decode_order(bytes, *graph, policy::reason_tables());
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
    order.reasons = {{.text = "first"}, std::move(reason)};
    return encode(order);
  };
  const auto message = [&](const std::vector<std::byte>& bytes) {
    return testing::message_of<std::runtime_error>([&] { decode_order(bytes, *graph, policy::reason_tables()); });
  };
  // The byte by which two orders differ first, with another value.
  const auto damaged = [&](const Reason& reason, const Reason& other, std::uint8_t value) {
    std::vector<std::byte> bytes = bytes_of(reason);
    *std::ranges::mismatch(bytes, bytes_of(other)).in1 = std::byte{value};
    return message(bytes);
  };
  const Reason best{.table = &policy::AnnealPolicy::kReasons}, tied{.table = best.table, .code = 1};
  const Reason forward{.table = &policy::GpipePolicy::kReasons}, input{.table = forward.table, .numbers = {1}};
  EXPECT_EQ(message(bytes_of(best)), "");
  EXPECT_EQ(damaged(best, {.table = &policy::AxonnPolicy::kReasons}, 'b'), "malformed order: unknown table of reasons");
  EXPECT_EQ(damaged(best, tied, 2), "malformed order: unknown code of a reason");
  EXPECT_EQ(damaged(forward, input, 200), "malformed order: unknown word of a reason");
  Reason selected = best;
  selected.selection.emplace();
  EXPECT_EQ(damaged(best, selected, 2), "malformed order: unknown mark of a selection");
  for (const double ns : {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(message(bytes_of({.selection = Selection{.makespan_ns = ns}})),
              "malformed order: a time is negative or not finite");
  }
}

TEST(Order, OfALargerGraphIsRefused) {
  const auto large = testing::random_graph(4, {.tasks = 12});
  const auto small = testing::random_graph(4, {.tasks = 11});
  const std::vector<std::byte> bytes = encode(testing::RandomPolicy(4).order(*large, {1}));
  EXPECT_EQ(testing::message_of<std::runtime_error>([&] { decode_order(bytes, *small, policy::reason_tables()); }),
            "malformed order: it names task 11 of 11");
}

}  // namespace
}  // namespace weft::plan
