// Costs are scaled by patterns; a pattern that matches nothing is refused.
#include "runtime/cost/scaled_costs.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/opaque_graph.h"
#include "runtime/cost/recorded_costs.h"
#include "tests/base/messages.h"
#include "tests/graph/open_graph_sample.h"

namespace weft::cost {
namespace {

TEST(ScaledCosts, PatternsMatchWholeNames) {
  EXPECT_TRUE(matches_pattern("gemm", "gemm"));
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("mb*.L*.up.*", "mb0.L12.up.fwd.gemm"));
  EXPECT_TRUE(matches_pattern("*ab", "aab"));
  EXPECT_FALSE(matches_pattern("gemm", "gemm2"));
  EXPECT_FALSE(matches_pattern("*.fwd.*x", "L0.fwd.gemm"));
  EXPECT_FALSE(matches_pattern("", "a"));
}

TEST(ScaledCosts, AllTimesOfATaskAreScaled) {
  const graph::Graph graph = graph::opaque_graph(testing::sample_open_graph(), 0);
  const std::shared_ptr<const CostModel> plain = recorded_costs(std::nullopt);
  const auto scaled = scaled_costs(plain, {{"gemm", 0.5}, {"o*r", 3}, {"all_reduce", 2}});
  const TaskCosts before = plain->costs(graph), after = scaled->costs(graph);
  const std::vector<double> factors = {1, 0.5, 1.5, 1, 2, 1};
  for (std::size_t i = 0; i < factors.size(); ++i) {
    EXPECT_DOUBLE_EQ(after.ns[i], factors[i] * before.ns[i]) << graph.tasks()[i].name;
    EXPECT_DOUBLE_EQ(after.link_ns[i], factors[i] * before.link_ns[i]) << graph.tasks()[i].name;
  }
  EXPECT_TRUE(testing::contains(scaled->source(), "gemm × 0.5"));
  EXPECT_EQ(scaled_costs(plain, {}), plain);
}

TEST(ScaledCosts, RefusesPatternsAndFactors) {
  const graph::Graph graph = graph::opaque_graph(testing::sample_open_graph(), 0);
  const auto none = scaled_costs(recorded_costs(std::nullopt), {{"gem", 2}});
  EXPECT_TRUE(testing::has_parts(testing::message_of<UserError>([&] { none->costs(graph); }), {"--scale gem: no"}));
  for (const char* text : {"gemm", "gemm=", "=2", "gemm=-1", "gemm=x", "gemm=1e9"}) {
    EXPECT_TRUE(testing::has_parts(testing::message_of<UserError>([&] { parse_cost_scale(text); }), {text, "factor"}))
        << text;
  }
  EXPECT_EQ(parse_cost_scale("a=b=0.5").pattern, "a=b");
}

}  // namespace
}  // namespace weft::cost
