// The choice of a method, with artificial timers, so that no test depends on real speed; the products that are also
// tried in other layouts on a GPU.
#include "runtime/execute/tuning/gemm_trials.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace weft::execute {
namespace {

GemmMethod method(std::size_t candidate) {
  return DeviceGemmMethod{std::string(1 + candidate, 'a')};
}

GemmTrial choose_of(std::size_t candidates, const GemmTimer& timer, const GemmTrialOptions& options = {}) {
  std::vector<GemmMethod> methods;
  for (std::size_t i = 0; i < candidates; ++i) methods.push_back(method(i));
  return choose_method({}, methods, timer, options);
}

GemmTrial choose(const std::vector<double>& seconds, const GemmTrialOptions& options = {}) {
  return choose_of(
      seconds.size(), [&](std::size_t candidate) { return seconds[candidate]; }, options);
}

TEST(ChooseCandidate, TakesTheFastest) {
  const GemmTrial trial = choose({1.0, 1.2, 0.9, 0.5, 0.8, 2.0, 0.7});
  EXPECT_EQ(trial.chosen, method(3));
  EXPECT_DOUBLE_EQ(trial.gain, 2.0);
  EXPECT_DOUBLE_EQ(trial.usual_seconds, 1.0);
  EXPECT_DOUBLE_EQ(trial.chosen_seconds, 0.5);
}

TEST(ChooseCandidate, KeepsTheDefaultWithoutAGainWorthIt) {
  EXPECT_EQ(choose({1.0, 0.98, 0.99}).chosen, method(0));
  EXPECT_EQ(choose({1.0, 0.96}).chosen, method(1));
  EXPECT_EQ(choose({1.0, 0.96}, {.least_gain = 0.1}).chosen, method(0));
  EXPECT_EQ(choose({1.0, 1.5, 2.0}).chosen, method(0));
}

TEST(ChooseCandidate, ADefaultAloneStays) {
  const GemmTrial trial = choose({3.0});
  EXPECT_EQ(trial.chosen, method(0));
  EXPECT_DOUBLE_EQ(trial.usual_seconds, 3.0);
  EXPECT_DOUBLE_EQ(trial.gain, 1.0);
}

// The second of two candidates is faster until the final is over, and never again.
TEST(ChooseCandidate, LuckHasToRepeatItself) {
  const GemmTrialOptions options;
  std::map<std::size_t, int> calls;
  const auto timer = [&](std::size_t candidate) {
    return candidate == 1 && calls[candidate]++ < options.rounds ? 0.5 : 1.0;
  };
  const GemmTrial trial = choose_of(2, timer, options);
  EXPECT_EQ(trial.chosen, method(0));
  EXPECT_DOUBLE_EQ(trial.gain, 1.0);
}

// Much faster in six rounds of ten, slower in four: the median says yes, the rounds don't.
TEST(ChooseCandidate, AGainThatOftenFailsIsNone) {
  std::map<std::size_t, int> calls;
  const auto timer = [&](std::size_t candidate) {
    const int call = calls[candidate]++;
    return candidate == 0 ? 1.0 : (call % 10 < 6 ? 0.5 : 1.1);
  };
  EXPECT_EQ(choose_of(2, timer, {.rounds = 10, .repeatable = 0.75}).chosen, method(0));
  calls.clear();
  EXPECT_EQ(choose_of(2, timer, {.rounds = 10, .repeatable = 0.5}).chosen, method(1));
}

// A machine that slows down slows all of them: only the ratio within a round counts.
TEST(ChooseCandidate, ADriftingMachineDoesNotDecide) {
  double drift = 1;
  const auto timer = [&](std::size_t candidate) { return (candidate == 2 ? 0.8 : 1.0) * (drift *= 1.01); };
  EXPECT_EQ(choose_of(3, timer).chosen, method(2));
}

TEST(ProductsOf, CountsEachOnce) {
  graph::GraphBuilder builder;
  const auto matrix = [&](const char* name, std::int64_t rows, std::int64_t cols) {
    return graph::whole(builder, builder.add_tensor({name, DType::f32, {rows, cols}, graph::Role::parameter}));
  };
  const graph::View x = matrix("x", 4, 8), w = matrix("w", 8, 8), y = matrix("y", 4, 8), z = matrix("z", 4, 8);
  builder.add_task({"first", graph::Gemm{4, 8, 8}, {graph::read(x), graph::read(w), graph::write(y)}});
  builder.add_task({"turned", graph::Gemm{4, 8, 8, false, true}, {graph::read(x), graph::read(w), graph::write(z)}});
  builder.add_task({"sum", graph::Add{32}, {graph::read(y), graph::read(z), graph::write(x)}});
  builder.add_task({"again", graph::Gemm{4, 8, 8}, {graph::read(z), graph::read(w), graph::write(y)}});
  const auto graph = std::make_shared<const graph::Graph>(std::move(builder).build());
  const std::vector<GemmUse> uses = products_of(std::array{graph, graph});
  ASSERT_EQ(uses.size(), 2U);
  EXPECT_EQ(uses[0].tasks, 4);
  EXPECT_EQ(uses[1].tasks, 2);
  EXPECT_TRUE(uses[1].problem.trans_b);
}

TEST(SmallNumbers, FillAMatrixWithBothSigns) {
  std::vector<float> values(1001);
  fill_with_small_numbers({values.data(), 10, 90, 101, DType::f32});
  float sum = 0, most = 0;
  for (const float value : values) {
    sum += value;
    most = std::max(most, std::abs(value));
  }
  EXPECT_LE(most, 0.05F);
  EXPECT_GT(most, 0.04F);
  EXPECT_LT(std::abs(sum), 5);
  EXPECT_NE(values[9 * 101 + 89], 0);  // the last one
  EXPECT_EQ(values[9 * 101 + 90], 0);
}

TEST(GemmTrials, RunEveryMethodOfAProduct) {
  const TryGemm trials = cpu_gemm_trials(2, {.rounds = 1, .cache_bytes = 1 << 16});
  for (const DType inputs : {DType::f32, DType::bf16}) {
    GemmProblem problem;
    problem.m = 130, problem.n = 200, problem.k = 70;
    problem.trans_b = problem.accumulate = problem.has_bias = true;
    problem.inputs = problem.output = inputs;
    problem.strides = {70, 80, 300};
    const auto elements = (129 * 70 + 70) + (199 * 80 + 70) + (129 * 300 + 200);
    EXPECT_EQ(operand_bytes(problem), elements * static_cast<std::int64_t>(size_of(inputs)));
    const GemmTrial trial = trials(problem);
    EXPECT_EQ(trial.problem, problem);
    const auto methods = cpu::gemm_methods(problem.shape(), inputs, inputs);
    EXPECT_EQ(trial.candidates, methods.size());
    EXPECT_EQ(trial.usual, GemmMethod(methods.front()));
    EXPECT_NE(std::ranges::find(methods, std::get<cpu::GemmMethod>(trial.chosen)), methods.end());
    EXPECT_GT(trial.usual_seconds, 0);
  }
}

// Layouts are tried with their copies, which need scratch.
TEST(GemmTrials, TryTheLayoutsOfALargeProduct) {
  const TryGemm trials = cpu_gemm_trials(2, {.rounds = 1, .cache_bytes = 1 << 16});
  GemmProblem problem;
  problem.m = 160, problem.n = 320, problem.k = 160;
  problem.trans_a = true;
  problem.strides = {160, 320, 320};
  const auto methods = cpu::gemm_methods(problem.shape(), DType::f32, DType::f32);
  EXPECT_TRUE(std::ranges::any_of(methods, [](const auto& m) { return m.layout == cpu::GemmLayout::nt; }));
  EXPECT_EQ(trials(problem).candidates, methods.size());
}

using Layouts = std::vector<cpu::GemmLayout>;

Layouts layouts_of(std::int64_t m, std::int64_t n, std::int64_t k, DType inputs, bool trans_a, bool trans_b,
                   Epilogue epilogue = Epilogue::none) {
  GemmProblem problem;
  problem.epilogue = epilogue;
  problem.m = m, problem.n = n, problem.k = k;
  problem.trans_a = trans_a, problem.trans_b = trans_b;
  problem.inputs = problem.output = inputs;
  return device_gemm_layouts(problem);
}

TEST(DeviceGemmLayouts, AreOfLargeProducts) {
  using enum cpu::GemmLayout;
  // Forward pass and both gradients of a layer.
  EXPECT_EQ(layouts_of(8192, 6400, 1600, DType::bf16, false, true), (Layouts{nn, tn}));
  EXPECT_EQ(layouts_of(8192, 1600, 6400, DType::bf16, false, false), (Layouts{nt, tn}));
  EXPECT_EQ(layouts_of(6400, 1600, 8192, DType::bf16, true, false), (Layouts{nn, nt}));
  EXPECT_EQ(layouts_of(2048, 768, 768, DType::f32, false, true), (Layouts{nn, tn}));
}

TEST(DeviceGemmLayouts, CopiesHaveToBeWorthIt) {
  using enum cpu::GemmLayout;
  EXPECT_EQ(layouts_of(512, 512, 512, DType::f32, false, true), Layouts{}) << "small";
  EXPECT_EQ(layouts_of(8, 50304, 8192, DType::bf16, false, true), Layouts{}) << "each copied element is used 8 times";
  EXPECT_EQ(layouts_of(16384, 768, 2048, DType::bf16, true, false), (Layouts{})) << "A for 768 columns, or A and B";
  EXPECT_EQ(layouts_of(16384, 768, 2048, DType::bf16, false, false), (Layouts{nt})) << "B for 16384 rows, or A";
  EXPECT_EQ(layouts_of(16384, 50304, 4096, DType::f32, false, true), Layouts{}) << "B takes 786 MiB";
}

TEST(DeviceGemmLayouts, AreNotForProductsWithAnEpilogue) {
  EXPECT_FALSE(layouts_of(8192, 6400, 1600, DType::bf16, false, true).empty());
  EXPECT_EQ(layouts_of(8192, 6400, 1600, DType::bf16, false, true, Epilogue::gelu), Layouts{});
}

}  // namespace
}  // namespace weft::execute
