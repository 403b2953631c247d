// Shares of zipf, the most loaded rank, and scaled rows, against numbers computed by hand.
#include "runtime/cost/expert_rows.h"

#include <gtest/gtest.h>

#include <numeric>
#include <tuple>
#include <variant>

#include "runtime/cost/cost_model.h"

namespace weft::cost {
namespace {

void expect_near(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << i;
}

TEST(ExpertRows, ZipfsSharesFallAndNoneIsMoreThanEveryToken) {
  expect_near(zipf_shares(4, 2, 0), {0.25, 0.25, 0.25, 0.25});
  // 1 + 1/2 + 1/3 + 1/4 = 25/12.
  expect_near(zipf_shares(4, 1, 1), {12 / 25., 6 / 25., 4 / 25., 3 / 25.});
  // 1/4 + 1/9 + 1/16 = 61/144 share what the first leaves, which every token takes.
  expect_near(zipf_shares(4, 2, 2), {0.5, 18 / 61., 8 / 61., 4.5 / 61});
  expect_near(zipf_shares(3, 3, 5), {1 / 3., 1 / 3., 1 / 3.});
  const std::vector<double> many = zipf_shares(128, 8, 1.5);
  EXPECT_NEAR(std::accumulate(many.begin(), many.end(), 0.0), 1, 1e-12);
  EXPECT_EQ(many[0], 0.125);
  EXPECT_LT(many[127], many[126]);
}

TEST(ExpertRows, TheMostLoadedRankHasNeighbouringExperts) {
  const std::vector<double> loads = {10, 30, 40, 0};
  EXPECT_DOUBLE_EQ(most_loaded(loads, 1), 1);
  EXPECT_DOUBLE_EQ(most_loaded(loads, 2), 1);  // 40 and 40 of 80
  EXPECT_DOUBLE_EQ(most_loaded(loads, 4), 2);  // 40 of 80, four times the mean's 20
  EXPECT_DOUBLE_EQ(most_loaded(std::vector<double>{0, 0, 3, 5}, 2), 2);
}

TEST(ExpertRows, AreThoseOfExchangesAndOfWhatExpertsCompute) {
  const auto exchange = with_rows(graph::ExchangeRows{graph::Channel::expert, 4, 8, 100, 240, 8}, 1.5);
  EXPECT_EQ(std::get<graph::ExchangeRows>(exchange).rows, 150);
  const auto full = with_rows(graph::ExchangeRows{graph::Channel::expert, 4, 8, 100, 240, 8}, 3);
  EXPECT_EQ(std::get<graph::ExchangeRows>(full).rows, 240);
  const auto product = with_rows(graph::GroupedGemm{400, 16, 8, 2, true, 100}, 1.5);
  EXPECT_EQ(std::get<graph::GroupedGemm>(product).expected, 150);
  EXPECT_EQ(std::get<graph::GroupedGemm>(product).rows, 400);
  const auto gradient = with_rows(graph::GroupedGemmGradient{400, 16, 8, 2, true, 100}, 2.5);
  EXPECT_EQ(std::get<graph::GroupedGemmGradient>(gradient).expected, 250);
  graph::SwiGluForward activation;
  activation.rows = 400, activation.cols = 8, activation.groups = 2, activation.expected = 100;
  EXPECT_EQ(std::get<graph::SwiGluForward>(with_rows(activation, 1.5)).expected, 150);
  // Products whose rows no rank exchanges, and all other tasks.
  const auto whole = with_rows(graph::GroupedGemm{400, 16, 8, 2}, 1.5);
  EXPECT_EQ(std::get<graph::GroupedGemm>(whole).used_rows(), 400);
  const auto gather = with_rows(graph::AllGather{graph::Channel::expert, 4, 9}, 1.5);
  EXPECT_EQ(std::get<graph::AllGather>(gather).count, 9);
}

/// One task of an operation in a layer, with tensors that nothing checks.
graph::Graph graph_of(graph::Operation operation, std::int32_t layer) {
  graph::GraphBuilder builder{graph::Arguments::of_any_form};
  const auto tensor = builder.add_tensor({"t", DType::f32, {1}, graph::Role::parameter});
  builder.add_task({.name = "task",
                    .operation = std::move(operation),
                    .accesses = {graph::read(graph::whole(builder, tensor))},
                    .layer = layer});
  return std::move(builder).build();
}

TEST(ExpertRows, CostsAreThoseOfTheLayersFactor) {
  Machine machine;
  machine.devices_per_node = 2;
  machine.node.latency = machine.node.setup = 0;
  const graph::Grid grid{.z = 2, .expert = 2};
  const auto ns = [&](const graph::Operation& operation, std::int32_t layer, const RowFactors& rows) {
    return analytic_costs(machine, grid, rows)->costs(graph_of(operation, layer)).ns.front();
  };
  const graph::ExchangeRows exchange{graph::Channel::expert, 2, 4096, 1 << 16, 1 << 17, 8};
  const RowFactors rows{.usual = 1.25, .layers = {1, 1.5}};
  const double even = ns(exchange, 0, {});
  EXPECT_EQ(ns(exchange, 0, rows), even);
  EXPECT_NEAR(ns(exchange, 1, rows) / even, 1.5, 1e-3);
  EXPECT_NEAR(ns(exchange, -1, rows) / even, 1.25, 1e-3);
  // As many as there is place for, in whatever layer.
  const RowFactors whole{.usual = 1.25, .layers = {1, 1.5}, .segments = true};
  EXPECT_NEAR(ns(exchange, 0, whole) / even, 2, 1e-3);
  EXPECT_EQ(ns(exchange, 1, whole), ns(exchange, 0, whole));
  const graph::GroupedGemm product{1 << 17, 512, 512, 4, true, 1 << 16};
  EXPECT_EQ(ns(product, 1, whole), ns(product, 1, rows));
  const graph::Gemm other{512, 512, 512};
  EXPECT_EQ(ns(other, 1, rows), ns(other, 1, {}));
  EXPECT_EQ(RowFactors().text(), "");
  EXPECT_EQ(analytic_costs(machine, grid)->source(), "machine " + machine.name);
  EXPECT_EQ(rows.text(), ", experts' rows × 1 to 1.5");
  EXPECT_EQ((RowFactors{.usual = 1.25}).text(), ", experts' rows × 1.25");
  EXPECT_EQ((RowFactors{.segments = true}).text(), ", rows sent in whole segments");
}

}  // namespace
}  // namespace weft::cost
