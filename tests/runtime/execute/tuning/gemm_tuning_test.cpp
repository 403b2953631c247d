// Tables of tuned products: the recognition of a product, and the method that a prepared task takes from a table.
#include "runtime/execute/tuning/gemm_tuning.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "runtime/execute/cpu/cpu_kernels.h"

namespace weft::execute {
namespace {

using cpu::Matrix;

constexpr cpu::GemmMethod kMethod{cpu::GemmMethod::Engine::sgemm, 8, 48};

GemmProblem problem(std::int64_t m, std::int64_t n, std::int64_t k) {
  GemmProblem result;
  result.m = m, result.n = n, result.k = k;
  result.strides = {k, n, n};
  return result;
}

TEST(GemmTuning, FindsTheProductAndNoOther) {
  const GemmTuning tuning(
      {{problem(64, 32, 16), cpu::GemmMethod{cpu::GemmMethod::Engine::sgemm, 64, 32}}, {problem(8, 32, 16), kMethod}});
  ASSERT_NE(tuning.find(problem(8, 32, 16)), nullptr);
  EXPECT_EQ(*tuning.find(problem(8, 32, 16)), kMethod);
  std::vector<GemmProblem> others(11, problem(8, 32, 16));
  others[0].m = 9, others[1].n = 9, others[2].k = 9;
  others[3].trans_a = true, others[4].trans_b = true, others[5].accumulate = true, others[6].has_bias = true;
  others[7].inputs = DType::bf16, others[8].output = DType::bf16, others[9].strides[1] = 64;
  others[10].epilogue = Epilogue::gelu;
  for (const GemmProblem& other : others) EXPECT_EQ(tuning.find(other), nullptr) << to_string(other);
  EXPECT_EQ(GemmTuning().find(problem(8, 32, 16)), nullptr);
}

TEST(GemmTuning, TellsTheMethodsOfDevicesApart) {
  const std::string digits(128, '7');
  const GemmTuning tuning({{problem(8, 32, 16), DeviceGemmMethod{digits}}, {problem(9, 32, 16), kMethod}});
  EXPECT_EQ(tuning.find(problem(8, 32, 16)), nullptr);
  ASSERT_NE(tuning.find<DeviceGemmMethod>(problem(8, 32, 16)), nullptr);
  EXPECT_EQ(tuning.find<DeviceGemmMethod>(problem(8, 32, 16))->algorithm, digits);
  EXPECT_EQ(tuning.find<DeviceGemmMethod>(problem(9, 32, 16)), nullptr);
}

TEST(GemmTuning, MethodsReadAsTheyAreWritten) {
  const std::string digits(128, 'a');
  for (const cpu::GemmLayout layout : {cpu::GemmLayout::own, cpu::GemmLayout::nn, cpu::GemmLayout::tn}) {
    const cpu::GemmMethod on_cpu{cpu::GemmMethod::Engine::matmul, 8, 48, layout};
    for (const GemmMethod& method : {GemmMethod(on_cpu), GemmMethod(DeviceGemmMethod{digits, layout})}) {
      EXPECT_EQ(parse_gemm_method(to_string(method)), method);
    }
  }
  // As files had them before there were layouts.
  EXPECT_EQ(to_string(GemmMethod(kMethod)), "sgemm 8x48");
  EXPECT_EQ(to_string(GemmMethod(DeviceGemmMethod{digits})), "cublaslt " + digits);
  EXPECT_EQ(to_string(GemmMethod(DeviceGemmMethod{digits, cpu::GemmLayout::nt})), "cublaslt " + digits + " nt");
  for (const std::string& text : {std::string("cublaslt 00"), "cublaslt " + std::string(128, 'A'), std::string("other"),
                                  "cublaslt " + digits + " tt", "cublaslt " + digits + "nn", "cublaslt nn " + digits,
                                  "cublaslt " + digits + " nn nn"}) {
    EXPECT_EQ(parse_gemm_method(text), std::nullopt) << text;
  }
}

TEST(GemmTuning, PeopleReadAHashOfAnAlgorithm) {
  const std::string digits(128, 'a'), text = brief(DeviceGemmMethod{digits, cpu::GemmLayout::nt});
  EXPECT_EQ(text.size(), std::string("cublaslt #01234567 nt").size()) << text;
  EXPECT_TRUE(text.starts_with("cublaslt #") && text.ends_with(" nt")) << text;
  EXPECT_EQ(brief(kMethod), "sgemm 8x48");
  EXPECT_NE(brief(DeviceGemmMethod{digits}), brief(DeviceGemmMethod{std::string(128, '7')}));
}

TEST(GemmTuning, RefusesTwoMethodsForAProduct) {
  EXPECT_THROW(GemmTuning({{problem(8, 8, 8), kMethod}, {problem(8, 8, 8), kMethod}}), std::logic_error);
}

TEST(GemmTuning, FingerprintIsOfTheChoices) {
  const GemmTuning tuning({{problem(8, 8, 8), kMethod}, {problem(9, 8, 8), kMethod}});
  const GemmTuning same({{problem(9, 8, 8), kMethod}, {problem(8, 8, 8), kMethod}});
  EXPECT_EQ(tuning.fingerprint(), same.fingerprint());
  EXPECT_NE(tuning.fingerprint(), GemmTuning().fingerprint());
  const GemmTuning other_method(
      {{problem(8, 8, 8), kMethod}, {problem(9, 8, 8), cpu::GemmMethod{cpu::GemmMethod::Engine::sgemm, 8, 8}}});
  EXPECT_NE(tuning.fingerprint(), other_method.fingerprint());
  const auto in_layout = [](cpu::GemmLayout layout) {
    return GemmTuning({{problem(8, 8, 8), DeviceGemmMethod{std::string(128, '1'), layout}}}).fingerprint();
  };
  EXPECT_NE(in_layout(cpu::GemmLayout::own), in_layout(cpu::GemmLayout::nt));
  EXPECT_NE(in_layout(cpu::GemmLayout::tn), in_layout(cpu::GemmLayout::nt));
  GemmProblem added = problem(9, 8, 8);
  added.accumulate = true;
  EXPECT_NE(tuning.fingerprint(), GemmTuning({{problem(8, 8, 8), kMethod}, {added, kMethod}}).fingerprint());
  GemmProblem gelu = problem(9, 8, 8), gradient = gelu;
  gelu.epilogue = Epilogue::gelu, gradient.epilogue = Epilogue::gelu_gradient;
  EXPECT_NE(GemmTuning({{gelu, kMethod}}).fingerprint(), GemmTuning({{problem(9, 8, 8), kMethod}}).fingerprint());
  EXPECT_NE(GemmTuning({{gelu, kMethod}}).fingerprint(), GemmTuning({{gradient, kMethod}}).fingerprint());
}

TEST(GemmProblem, NamesItself) {
  GemmProblem named = problem(256, 768, 64);
  EXPECT_EQ(to_string(named), "256x768x64 NN f32");
  named.trans_b = named.has_bias = named.accumulate = true;
  named.inputs = DType::bf16;
  named.strides = {64, 64, 2304};
  EXPECT_EQ(to_string(named), "256x768x64 NT bf16 to f32, bias, added, C 2304 apart");
  GemmProblem fused = problem(256, 768, 64);
  fused.epilogue = Epilogue::gelu_gradient;
  EXPECT_EQ(to_string(fused), "256x768x64 NN f32, gelu_gradient");
}

// The tuner sees graphs, the executor matrices: both have to mean the same product.
TEST(GemmProblem, IsTheSameOfAGraphAndOfItsPreparedTask) {
  const graph::Gemm operation{4, 6, 8, true, false, true, false};
  graph::GraphBuilder builder;
  const auto add = [&](const char* name, std::int64_t elements) {
    return builder.add_tensor({name, DType::f32, {elements}, graph::Role::parameter});
  };
  // A [8, 4] inside rows of 12; B [8, 6] as one row of 48; C [4, 6] in rows of 20.
  const std::vector<graph::View> views = {
      {add("a", 96), 2, 8, 4, 12}, {add("b", 48), 0, 1, 48, 48}, {add("c", 80), 0, 4, 6, 20}};
  const graph::TaskId task = builder.add_task(
      {"gemm", operation, {graph::read(views[0]), graph::read(views[1]), graph::read_write(views[2])}});
  const graph::Graph graph = std::move(builder).build();

  std::vector<float> memory(96);
  std::vector<Matrix> matrices;
  for (const graph::View& view : views) {
    matrices.push_back({memory.data(), view.rows, view.cols, view.row_stride, DType::f32});
  }
  GemmProblem expected;
  expected.m = 4, expected.n = 6, expected.k = 8;
  expected.trans_a = expected.accumulate = true;
  expected.strides = {12, 6, 20};
  EXPECT_EQ(problem_of(graph, graph.task(task)), expected);
  EXPECT_EQ(problem_of(operation, matrices), expected);
}

// A method that no product of this size takes, so that its use throws.
TEST(PreparedTask, TakesTheMethodOfTheTable) {
  std::vector<float> a(100 * 8), b(8 * 100), c(100 * 100);
  const std::vector<Matrix> arguments = {
      {a.data(), 100, 8, 8, DType::f32}, {b.data(), 8, 100, 100, DType::f32}, {c.data(), 100, 100, 100, DType::f32}};
  const graph::Gemm operation{100, 100, 8};
  const cpu::GemmMethod impossible{cpu::GemmMethod::Engine::sgemm, 1, 1};
  ASSERT_FALSE(cpu::can_run(impossible, {100, 100, 8}, DType::f32, DType::f32));
  const GemmTuning other({{problem(100, 100, 9), impossible}}), this_one({{problem(100, 100, 8), impossible}});
  EXPECT_NO_THROW(PreparedTask(operation, arguments));
  EXPECT_NO_THROW(PreparedTask(operation, arguments, &other));
  EXPECT_THROW(PreparedTask(operation, arguments, &this_one), std::logic_error);
}

}  // namespace
}  // namespace weft::execute
