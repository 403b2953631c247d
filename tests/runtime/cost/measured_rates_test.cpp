#include "runtime/cost/measured_rates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runtime/cost/cost_model.h"
#include "runtime/cost/machine_fit.h"
#include "tests/runtime/toy_graph.h"

namespace weft::cost {
namespace {

/// 1 Gflop/s in f32 and 2 in bf16, with memory so fast that bytes don't count.
Machine machine_of(std::vector<GemmPoint> gemms, std::vector<AttentionPoint> attention = {}) {
  Machine machine;
  machine.flops_f32 = 1e9;
  machine.flops_bf16 = 2e9;
  machine.memory_bandwidth = 1e18;
  machine.gemms = std::move(gemms);
  machine.attention = std::move(attention);
  return machine;
}

/// A square product that takes `factor` times as long as by the device's rate.
GemmPoint square(std::int64_t n, double factor, DType dtype = DType::f32, bool trans_b = false) {
  const double flops = 2 * std::pow(static_cast<double>(n), 3);
  return {.m = n,
          .n = n,
          .k = n,
          .trans_b = trans_b,
          .dtype = dtype,
          .seconds = factor * flops / (dtype == DType::f32 ? 1e9 : 2e9)};
}

/// The ratio of a time to the time by the device's rate.
double factor_of(const Machine& machine, const graph::Gemm& gemm, DType dtype = DType::f32) {
  const double flops = gemm.work(4).flops;
  return MeasuredRates(machine).arithmetic(gemm, flops, dtype).seconds * machine.flops(dtype) / flops;
}

TEST(MeasuredRates, GiveTheMeasuredTimeAtAPoint) {
  const Machine machine = machine_of({square(128, 3), square(256, 2), square(512, 1.5)});
  for (const GemmPoint& point : machine.gemms) {
    const graph::Gemm gemm = operation_of(point);
    const ArithmeticTime time = MeasuredRates(machine).arithmetic(gemm, gemm.work(4).flops, DType::f32);
    EXPECT_NEAR(time.seconds, point.seconds, 1e-12 * point.seconds);
    EXPECT_TRUE(time.at_point);
    EXPECT_NEAR(predicted_seconds(machine, point), point.seconds, 1e-12 * point.seconds);
  }
}

TEST(MeasuredRates, WeightPointsByTheInverseSquareOfTheirDistance) {
  const Machine machine = machine_of({square(128, 4), square(512, 1)});
  // Halfway, on the scale of logarithms.
  EXPECT_NEAR(factor_of(machine, {256, 256, 256}), 2, 1e-12);
  // A step along m to the first point; to the other point a step along m, and two each along n and k.
  const double near = 1.0 / 1, far = 1.0 / (1 + 4 + 4);
  EXPECT_NEAR(factor_of(machine, {256, 128, 128}), std::exp(near * std::log(4.0) / (near + far)), 1e-12);
  // Far from all points it is their mean.
  EXPECT_NEAR(factor_of(machine, {1 << 28, 1 << 28, 1 << 28}), 2, 0.2);
}

TEST(MeasuredRates, StayBetweenThePointsAndChangeSmoothly) {
  const Machine machine = machine_of({square(64, 5), square(256, 2), square(1024, 1.2)});
  double before = factor_of(machine, {64, 64, 64});
  for (std::int64_t n = 65; n < 1100; ++n) {
    const double factor = factor_of(machine, {n, n, n});
    EXPECT_GE(factor, 1.2 - 1e-9) << n;
    EXPECT_LE(factor, 5 + 1e-9) << n;
    EXPECT_NEAR(factor / before, 1, 0.06) << n;
    before = factor;
  }
}

TEST(MeasuredRates, TakePointsOfTheSameLayoutThenOfTheSameDtypeThenTheEfficiency) {
  Machine machine = machine_of({square(128, 4), square(128, 2, DType::f32, true), square(64, 9, DType::bf16)});
  machine.efficiency = 0.25;
  EXPECT_NEAR(factor_of(machine, {256, 256, 256, false, false}), 4, 1e-12);
  EXPECT_NEAR(factor_of(machine, {256, 256, 256, false, true}), 2, 1e-12);
  EXPECT_NEAR(factor_of(machine, {256, 256, 256, true, false}), std::sqrt(8.0), 1e-12);
  // The same sizes in other layouts are no measurement of this one.
  EXPECT_NEAR(factor_of(machine, {128, 128, 128, true, false}), std::sqrt(8.0), 1e-12);
  EXPECT_NEAR(factor_of(machine, {256, 256, 256, false, false}, DType::bf16), 9, 1e-12);
  machine.gemms.pop_back();
  EXPECT_NEAR(factor_of(machine, {256, 256, 256, false, false}, DType::bf16), 4, 1e-12);
  const MeasuredRates rates(machine);
  EXPECT_NEAR(rates.arithmetic(graph::Add{100}, 1e9, DType::f32).seconds, 4, 1e-12);
  EXPECT_NEAR(rates.arithmetic(graph::AttentionForward{1, 8, 1, 1, 8}, 1e9, DType::f32).seconds, 4, 1e-12);
}

TEST(MeasuredRates, KeepTheRateOfSmallProductsInTheBase) {
  Machine machine = machine_of({});
  machine.gemm_half = 100;
  EXPECT_NEAR(factor_of(machine, {100, 1000, 1000}), 2, 1e-12);
  machine.gemms = {square(100, 2), square(400, 1.25)};
  // Both points lie on the base model, so all products do.
  EXPECT_NEAR(factor_of(machine, {200, 200, 200}), 1.5, 1e-12);
  EXPECT_NEAR(factor_of(machine, {50, 5000, 700}), 3, 1e-12);
}

TEST(MeasuredRates, OfGroupedProductsAreThoseOfEachGroupsShare) {
  const Machine machine = machine_of({square(128, 3), square(256, 2), square(64, 5, DType::f32, true)});
  const auto seconds = [&](const graph::Operation& operation) {
    return MeasuredRates(machine).arithmetic(operation, graph::work_of(operation, 4).flops, DType::f32).seconds;
  };
  EXPECT_DOUBLE_EQ(seconds(graph::GroupedGemm{512, 160, 96, 4}), 4 * seconds(graph::Gemm{128, 160, 96}));
  EXPECT_DOUBLE_EQ(seconds(graph::GroupedGemm{512, 160, 96, 4, true}),
                   4 * seconds(graph::Gemm{128, 160, 96, false, true}));
  EXPECT_DOUBLE_EQ(seconds(graph::GroupedGemmGradient{512, 160, 96, 4}), 4 * seconds(graph::Gemm{160, 96, 128, true}));
  EXPECT_DOUBLE_EQ(seconds(graph::GroupedGemm{4096, 160, 96, 4, true, 512}),
                   4 * seconds(graph::Gemm{128, 160, 96, false, true}));
  EXPECT_DOUBLE_EQ(seconds(graph::GroupedGemmGradient{4096, 160, 96, 4, false, 512}),
                   4 * seconds(graph::Gemm{160, 96, 128, true}));
  // Two rows of eight groups, as in a decoded token's.
  EXPECT_DOUBLE_EQ(seconds(graph::GroupedGemm{2, 160, 96, 8}), 2 * seconds(graph::Gemm{1, 160, 96}));
}

TEST(MeasuredRates, CutProductsIntoTilesThatProcessorsComputeInWaves) {
  Machine machine = machine_of({});
  machine.processors = 4;
  // Without a penalty for small tiles the time counts results with those that fill the last wave up.
  EXPECT_NEAR(factor_of(machine, {512, 256, 1000}), 1, 1e-12);          // four tiles of 256 x 128
  EXPECT_NEAR(factor_of(machine, {64, 64 * 5, 1000}), 8.0 / 5, 1e-12);  // five of 64 x 64 take two waves
  EXPECT_NEAR(factor_of(machine, {1, 1, 1000}), 4 * 64 * 64, 1e-6);
  machine.gemm_half = 1e6;  // counts no more
  EXPECT_NEAR(factor_of(machine, {512, 256, 1000}), 1, 1e-12);
  machine.tile_half = 64;  // a tile of 64 x 64 reaches half of the rate, one of 256 x 128 8/11
  EXPECT_NEAR(factor_of(machine, {512, 256, 1000}), 1, 1e-12);
  EXPECT_NEAR(factor_of(machine, {128, 128, 1000}), (8.0 / 11) / 0.5,
              1e-12);  // four of 64 x 64, not a fourth of a wave
  machine.product_start = 1;
  const double seconds = 2.0 * 512 * 256 * 1000 / machine.flops_f32;
  EXPECT_NEAR(factor_of(machine, {512, 256, 1000}), 1 + 1 / seconds, 1e-9);
}

TEST(MeasuredRates, OfWholeStepsAreSustainedInPart) {
  Machine machine = machine_of({square(128, 4)});
  machine.sustained = 0.5;
  machine.efficiency = 0.1;
  EXPECT_NEAR(factor_of(machine, {128, 128, 128}), 8, 1e-12);
  EXPECT_NEAR(factor_of(machine, {256, 256, 256}), 8, 1e-12);
  EXPECT_NEAR(MeasuredRates(machine).arithmetic(graph::Add{100}, 1e9, DType::f32).seconds, 10, 1e-12);
  // A measurement of a product alone is still predicted by itself.
  EXPECT_NEAR(predicted_seconds(machine, machine.gemms[0]), machine.gemms[0].seconds, 1e-12);
}

TEST(MeasuredRates, TakeTheAttentionOfOneLibrary) {
  AttentionPoint own{.batch = 1, .heads = 4, .seq = 128, .head_dim = 64, .seconds = 1};
  AttentionPoint other = own;
  other.library = "slow";
  other.seconds = 5;
  const Machine machine = machine_of({}, {own, other});
  const auto seconds = [&](const char* library) {
    const graph::Operation operation = operation_of(own);
    return MeasuredRates(with_attention_of(machine, library))
        .arithmetic(operation, graph::work_of(operation, 4).flops, DType::f32)
        .seconds;
  };
  EXPECT_NEAR(seconds(""), 1, 1e-12);
  EXPECT_NEAR(seconds("slow"), 5, 1e-12);
  EXPECT_NEAR(seconds("unknown"), 1, 1e-12);
  EXPECT_NEAR(predicted_seconds(machine, other), 5, 1e-12);
}

TEST(MeasuredRates, OfAnH100AreRightWhereAPointIsLeftOut) {
  const Machine machine = load_machine(WEFT_SOURCE_DIR "/machines/hgx-h100.toml");
  std::vector<double> errors;
  for (const CheckedPoint& point : check_points(machine)) {
    if (point.what.starts_with("gemm")) errors.push_back(std::abs(point.error()));
  }
  ASSERT_GE(errors.size(), 25U);
  std::ranges::sort(errors);
  EXPECT_LT(errors[errors.size() / 2], 0.06);
  EXPECT_LT(errors.back(), 0.4);
}

TEST(MeasuredRates, OfAttentionGoByHeadsSequenceAndHeadSize) {
  const auto point = [](bool backward, std::int64_t batch, std::int64_t seq, double factor) {
    AttentionPoint p{.backward = backward, .batch = batch, .heads = 4, .seq = seq, .head_dim = 64};
    p.seconds = factor * graph::work_of(operation_of(p), 4).flops / 1e9;
    return p;
  };
  const Machine machine = machine_of({}, {point(false, 1, 128, 4), point(false, 1, 512, 1), point(true, 1, 128, 3)});
  const MeasuredRates rates(machine);
  const auto factor = [&](const graph::Operation& operation) {
    const double flops = graph::work_of(operation, 4).flops;
    return rates.arithmetic(operation, flops, DType::f32).seconds * 1e9 / flops;
  };
  EXPECT_NEAR(factor(graph::AttentionForward{1, 128, 4, 4, 64}), 4, 1e-12);
  EXPECT_NEAR(factor(graph::AttentionForward{4, 128, 1, 1, 64}), 4, 1e-12);  // as many heads in all
  EXPECT_NEAR(factor(graph::AttentionForward{1, 256, 4, 2, 64}), 2, 1e-12);
  EXPECT_NEAR(factor(graph::AttentionBackward{1, 256, 4, 4, 64}), 3, 1e-12);
  EXPECT_NEAR(predicted_seconds(machine, machine.attention[2]), machine.attention[2].seconds, 1e-15);
}

TEST(MeasuredRates, LeaveTheTimeForBytesToModelledComputationsAlone) {
  Machine machine = machine_of({square(64, 0.5)});
  machine.memory_bandwidth = 1e6;
  machine.task_overhead = 1e-6;
  testing::ToyGraph toy;
  const graph::View a = toy.tensor("a", 128 * 128, graph::Role::parameter), c = toy.tensor("c", 128 * 128);
  toy.add({"measured", graph::Gemm{64, 64, 64}, {graph::read(a), graph::read(a), graph::write(c)}});
  toy.add({"modelled", graph::Gemm{128, 128, 128}, {graph::read(a), graph::read(a), graph::write(c)}});
  const TaskCosts costs = analytic_costs(machine, graph::Grid())->costs(*toy.build());
  EXPECT_NEAR(costs.ns[0], 1e3 + 0.5 * 2 * 64 * 64 * 64, 1e-6);
  EXPECT_NEAR(costs.ns[1], 1e3 + 3 * 128 * 128 * 4 * 1e3, 1e-3);
}

}  // namespace
}  // namespace weft::cost
