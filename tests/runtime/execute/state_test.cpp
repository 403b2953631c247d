// State: one tensor a name, at one address, of one type.
#include "runtime/execute/state.h"

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>

#include "tests/base/messages.h"
#include "tests/runtime/toy_graph.h"

namespace weft::execute {
namespace {

std::shared_ptr<const graph::Graph> graph_of(const std::vector<graph::Tensor>& tensors) {
  graph::GraphBuilder builder;
  for (const graph::Tensor& tensor : tensors) builder.add_tensor(tensor);
  return std::make_shared<const graph::Graph>(std::move(builder).build());
}

TEST(State, TensorsOfEqualNameAreOne) {
  const auto train = graph_of({{"w", DType::f32, {3, 5}, graph::Role::parameter},
                               {"scratch", DType::f32, {100}, graph::Role::activation},
                               {"w.m", DType::f32, {3, 5}, graph::Role::optimizer_state}});
  const auto eval =
      graph_of({{"tokens", DType::i32, {7}, graph::Role::input}, {"w", DType::f32, {3, 5}, graph::Role::parameter}});
  const State state(std::array{train, eval});
  EXPECT_TRUE(state.contains("w"));
  EXPECT_TRUE(state.contains("tokens"));
  EXPECT_FALSE(state.contains("scratch"));
  EXPECT_EQ(state.get<float>("w").size(), 15U);
  EXPECT_EQ(state.tensor("tokens").shape, std::vector<std::int64_t>{7});
  EXPECT_EQ(state.bytes(), 3 * 128);
  EXPECT_EQ(state.bytes_of(graph::Role::parameter), 60);
  EXPECT_EQ(state.bytes_of(graph::Role::input), 28);
  EXPECT_EQ(state.bytes_of(graph::Role::cache), 0);
}

TEST(State, BeginsZeroedAndTensorsDontTouch) {
  const auto graph =
      graph_of({{"a", DType::bf16, {65}, graph::Role::parameter}, {"b", DType::i64, {2}, graph::Role::scalar}});
  const State state(std::array{graph});
  for (const std::int64_t value : state.get<std::int64_t>("b")) EXPECT_EQ(value, 0);
  for (bf16& value : state.get<bf16>("a")) value.bits = 0xffff;
  for (const std::int64_t value : state.get<std::int64_t>("b")) EXPECT_EQ(value, 0);
  for (const char* name : {"a", "b"}) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(state.data(name)) % 128, 0U);
}

TEST(State, GraphsThatDisagreeAreRefused) {
  const graph::Tensor agreed{"w", DType::f32, {4, 2}, graph::Role::parameter};
  const auto first = graph_of({agreed});
  for (const graph::Tensor& other : {graph::Tensor{"w", DType::bf16, {4, 2}, graph::Role::parameter},
                                     graph::Tensor{"w", DType::f32, {2, 4}, graph::Role::parameter},
                                     graph::Tensor{"w", DType::f32, {4, 2}, graph::Role::cache}}) {
    const auto second = graph_of({other});
    EXPECT_TRUE(refuses<std::logic_error>([&] { const State state(std::array{first, second}); }, {"'w'"}));
  }
}

TEST(State, AskingForAnotherTypeOrNameIsRefused) {
  const auto graph = graph_of({{"tokens", DType::i32, {4}, graph::Role::input}});
  const State state(std::array{graph});
  EXPECT_EQ(state.get<std::int32_t>("tokens").size(), 4U);
  EXPECT_THROW(state.get<float>("tokens"), std::logic_error);  // as large, but no float
  EXPECT_THROW(state.get<std::int64_t>("tokens"), std::logic_error);
  EXPECT_THROW(state.data("targets"), std::logic_error);
  EXPECT_THROW(state.tensor("targets"), std::logic_error);
}

}  // namespace
}  // namespace weft::execute
