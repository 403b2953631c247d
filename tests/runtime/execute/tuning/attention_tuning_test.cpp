// Attention on GPUs in tables: which tasks have a choice of engines, the names of engines, and the choices of a table.
#include "runtime/execute/tuning/attention_tuning.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "runtime/execute/tuning/gemm_trials.h"
#include "runtime/execute/tuning/gemm_tuning.h"

namespace weft::execute {
namespace {

// Three sequences of eight tokens, twice forward and once backward. Q|K|V, and its gradient, are matrices of 4 + 2 + 2
// heads of eight.
std::vector<AttentionUse> uses_of(DType dtype, std::int64_t window = 0) {
  graph::GraphBuilder builder;
  const auto matrix = [&](const char* name, std::int64_t rows, std::int64_t cols) {
    return graph::whole(builder, builder.add_tensor({name, dtype, {rows, cols}, graph::Role::parameter}));
  };
  const auto columns = [](graph::View view, std::int64_t from, std::int64_t cols) {
    view.offset = from, view.cols = cols;
    return view;
  };
  const graph::View qkv = matrix("qkv", 24, 64), dqkv = matrix("dqkv", 24, 64);
  const graph::View out = matrix("out", 24, 32), dout = matrix("dout", 24, 32);
  const graph::View log_sum_exp =
      graph::whole(builder, builder.add_tensor({"log_sum_exp", DType::f32, {96}, graph::Role::parameter}));
  const auto q = graph::read(columns(qkv, 0, 32)), k = graph::read(columns(qkv, 32, 16)),
             v = graph::read(columns(qkv, 48, 16));
  for (const char* name : {"attention", "attention again"}) {
    builder.add_task({name,
                      graph::AttentionForward{3, 8, 4, 2, 8, window},
                      {q, k, v, graph::write(out), graph::write(log_sum_exp)}});
  }
  builder.add_task(
      {"gradient",
       graph::AttentionBackward{3, 8, 4, 2, 8, window},
       {q, k, v, graph::read(out), graph::read(log_sum_exp), graph::read(dout), graph::write(columns(dqkv, 0, 32)),
        graph::write(columns(dqkv, 32, 16)), graph::write(columns(dqkv, 48, 16))}});
  const auto graph = std::make_shared<const graph::Graph>(std::move(builder).build());
  return attention_of(std::array{graph});
}

TEST(AttentionProblems, AreToldWithRowsThatDoNotTouch) {
  EXPECT_EQ(to_string(AttentionProblem{3, 8, 4, 2, 8, {32, 16, 16, 32}}), "3x8, 4 heads of 8 bf16, 2 of keys");
  EXPECT_EQ(to_string(AttentionProblem{3, 8, 4, 4, 8, {96, 96, 96, 32, 32, 96, 96, 40}, true, true}),
            "3x8, 4 heads of 8 bf16 backward, any bits, dv 40 apart, q|k|v|dq|dk 96 apart");
}

TEST(AttentionProblems, AreThoseThatALibraryCanCompute) {
  const std::vector<AttentionUse> uses = uses_of(DType::bf16);
  ASSERT_EQ(uses.size(), 2U);
  EXPECT_EQ(uses[0].tasks, 2);
  EXPECT_EQ(uses[1].tasks, 1);
  EXPECT_EQ(uses[0].problem, (AttentionProblem{3, 8, 4, 2, 8, {64, 64, 64, 32}}));
  EXPECT_EQ(uses[1].problem, (AttentionProblem{3, 8, 4, 2, 8, {64, 64, 64, 32, 32, 64, 64, 64}, true}));
  EXPECT_TRUE(uses_of(DType::f32).empty());
  EXPECT_TRUE(uses_of(DType::bf16, 4).empty());
}

TEST(AttentionMethods, HaveOneForm) {
  for (const AttentionMethod& method : {AttentionMethod{}, AttentionMethod{"eng5"}, AttentionMethod{"eng5_k24=3"},
                                        AttentionMethod{"eng12_k2=0_k24=13", false}}) {
    EXPECT_EQ(parse_attention_method(to_string(method)), method) << to_string(method);
  }
  for (const char* wrong :
       {"", "weft ", "cudnn", "cudnn ", "cudnn eng", "cudnn 5", "cudnn eng5_", "cudnn eng5_k", "cudnn eng5_k2",
        "cudnn eng5_k2=", "cudnn eng5_k=2", "cudnn eng5_k2=-1", "cudnn eng5 ", "cudnn eng5 any", "cudnn k2=1",
        "cudnn eng1_eng2", "weft any-bits", "cudnn eng1234567890123456789"}) {
    EXPECT_EQ(parse_attention_method(wrong), std::nullopt) << wrong;
  }
}

TEST(AttentionTuning, IsPartOfATableAndOfItsFingerprint) {
  const AttentionProblem forward{3, 8, 4, 2, 8, {64, 64, 64, 32}};
  AttentionProblem all = forward, longer = forward;
  all.any_bits = true, longer.seq = 9;
  const auto table = [](std::vector<AttentionChoice> choices) {
    return GemmTuning({}, std::nullopt, std::move(choices));
  };
  const GemmTuning one = table({{forward, {"eng1"}}, {longer, {}}});
  EXPECT_FALSE(one.empty());
  EXPECT_EQ(*one.find(forward), AttentionMethod{"eng1"});
  EXPECT_EQ(*one.find(longer), AttentionMethod{});
  EXPECT_EQ(one.find(all), nullptr);
  EXPECT_EQ(one.fingerprint(), table({{longer, {}}, {forward, {"eng1"}}}).fingerprint());
  EXPECT_NE(one.fingerprint(), table({{forward, {"eng2"}}, {longer, {}}}).fingerprint());
  EXPECT_NE(one.fingerprint(), table({{all, {"eng1"}}, {longer, {}}}).fingerprint());
  EXPECT_NE(one.fingerprint(), GemmTuning().fingerprint());
  EXPECT_THROW(table({{forward, {"eng1"}}, {forward, {}}}), std::logic_error);
}

}  // namespace
}  // namespace weft::execute
