// Operations through PreparedTask: products of packed weights and with epilogues, the run's unit, and the order of
// arguments.
//
// tests/gpu/cuda_tasks_test.cpp compares every operation, as PreparedTask runs it, with the GPU's kernels. Where CUDA's
// headers aren't, references of whole models (tests/train/model_numerics_test.cpp) have norms, attention, activations
// and losses. tests/kernels has the kernels' arithmetic.
#include "runtime/execute/cpu/cpu_kernels.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/gemm/packed_gemm.h"
#include "kernels/cpu/loss/cross_entropy.h"
#include "tests/kernels/reference.h"

namespace weft::execute {
namespace {

using cpu::Matrix;
using cpu::Workers;
using cpu::testing::expect_close;
using cpu::testing::Tensor;
using cpu::testing::Values;

constexpr cpu::testing::Tolerance kClose{1e-5, 1e-5};

Tensor random(std::int64_t rows, std::int64_t cols, std::uint32_t seed) {
  return Tensor::random(DType::f32, rows, cols, seed);
}
Tensor empty(std::int64_t rows, std::int64_t cols) {
  return {DType::f32, rows, cols};
}
Tensor position(std::int64_t value) {
  return Tensor::integers(DType::i64, {value});
}
Tensor tokens(const std::vector<std::int64_t>& values) {
  return Tensor::integers(DType::i32, values);
}

// As a run with this table of products does.
void run(const graph::Operation& operation, const std::vector<Tensor*>& arguments, const GemmTuning* tuning = nullptr) {
  std::vector<Matrix> views;
  for (Tensor* argument : arguments) views.push_back(argument->view());
  const PreparedTask task(operation, views, tuning);
  Workers workers(2);
  workers.reserve(task.scratch());
  task.run(workers);
}

// Runs `kernel` on one thread with plenty of scratch.
template <class Kernel>
void directly(const Kernel& kernel) {
  Workers workers(1);
  workers.reserve(1 << 20, 1 << 20);
  kernel(workers);
}

// The bits of each tensor are those of the tensor in the same place of the other list.
void expect_same(const std::vector<Tensor*>& found, const std::vector<Tensor*>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(found[i]->bytes(), expected[i]->bytes()) << i;
}

TEST(CpuKernels, Gemm) {
  Tensor a = random(5, 3, 1), b = random(4, 5, 2), bias = random(1, 4, 3), c = random(3, 4, 4);
  const Values as = a.values(), bs = b.values();
  Values expected = c.values();
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      expected[i * 4 + j] += bias.values()[j];
      for (std::size_t k = 0; k < 5; ++k) expected[i * 4 + j] += as[k * 3 + i] * bs[j * 5 + k];
    }
  }
  run(graph::Gemm{3, 4, 5, true, true, true, true}, {&a, &b, &c, &bias});
  expect_close(c.values(), expected, kClose);
}

// B becomes zero once it is packed: so it shows which of the two a product reads.
TEST(CpuKernels, ProductsOfPackedWeights) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const bool trans_b : {false, true}) {
      const std::int64_t m = 70, n = 21, k = 35;
      const auto tensor = [&](std::int64_t rows, std::int64_t cols, std::uint32_t seed) {
        return Tensor::random(dtype, rows, cols, seed);
      };
      Tensor a = tensor(m, k, 1), b = trans_b ? tensor(n, k, 2) : tensor(k, n, 2), bias = tensor(1, n, 3);
      Tensor plain(dtype, m, n), packed_c = plain, tuned_c = plain;
      const std::int64_t elements = cpu::packed_b_elements({m, n, k});
      Tensor packed(cpu::packed_b_dtype(cpu::packed_unit(dtype)), 1, elements);
      graph::Gemm gemm{m, n, k, false, trans_b, false, true};
      const auto product = [&](Tensor& c, const GemmTuning* tuning) {
        std::vector<Tensor*> arguments = {&a, &b, &c, &bias};
        if (gemm.packed_b) arguments.push_back(&packed);
        run(gemm, arguments, tuning);
      };
      const std::vector<Matrix> plain_views = {a.view(), b.view(), plain.view(), bias.view()};
      const GemmProblem problem = problem_of(gemm, plain_views);
      const GemmTuning by_packing({{problem, cpu::GemmMethod{cpu::GemmMethod::Engine::packed, 64, 96}}});
      const GemmTuning by_library({{problem, cpu::GemmMethod{cpu::GemmMethod::Engine::sgemm, m, n}}});
      product(plain, &by_packing);
      run(graph::PackWeight{n, k, trans_b}, {&b, &packed});
      gemm.packed_b = true;
      product(packed_c, &by_packing);
      EXPECT_EQ(packed_c.bytes(), plain.bytes());
      b.assign(Values(static_cast<std::size_t>(n * k), 0.0));
      product(packed_c, &by_packing);
      EXPECT_EQ(packed_c.bytes(), plain.bytes());
      // Another engine reads B as it is, which is zero now.
      product(tuned_c, &by_library);
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          EXPECT_EQ(tuned_c.values()[static_cast<std::size_t>(i * n + j)], bias.values()[static_cast<std::size_t>(j)]);
        }
      }
      Tensor small(packed.dtype(), 1, elements - 1);
      EXPECT_THROW(run(graph::PackWeight{n, k, trans_b}, {&b, &small}), std::logic_error);
    }
  }
}

// The bits of the product and of the kernel after it; the sums stay, but for the gradient.
TEST(CpuKernels, ProductsWithEpilogues) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::int64_t m = 70, n = 21, k = 35;
    Tensor a = Tensor::random(dtype, m, k, 1), b = Tensor::random(dtype, k, n, 2);
    Tensor bias = Tensor::random(dtype, 1, n, 3), x = Tensor::random(dtype, m, n, 4);
    for (const bool has_bias : {false, true}) {
      Tensor sums(dtype, m, n), gelu = sums, gradient = sums, c = sums, fused = sums, fused_gradient = sums;
      Tensor added = sums, fused_sum = sums;
      const auto product = [&](Epilogue epilogue, Tensor& to, Tensor* other) {
        std::vector<Tensor*> arguments = {&a, &b, &to};
        if (has_bias) arguments.push_back(&bias);
        if (other != nullptr) arguments.push_back(other);
        run(graph::Gemm{.m = m, .n = n, .k = k, .has_bias = has_bias, .epilogue = epilogue}, arguments);
      };
      product(Epilogue::none, sums, nullptr);
      run(graph::GeluForward{m * n}, {&sums, &gelu});
      run(graph::GeluBackward{m * n}, {&x, &sums, &gradient});
      run(graph::Add{m * n}, {&x, &sums, &added});
      product(Epilogue::gelu, c, &fused);
      product(Epilogue::gelu_gradient, fused_gradient, &x);
      product(Epilogue::add, fused_sum, &x);
      EXPECT_EQ(c.bytes(), sums.bytes());
      EXPECT_EQ(fused.bytes(), gelu.bytes());
      EXPECT_EQ(fused_gradient.bytes(), gradient.bytes());
      EXPECT_EQ(fused_sum.bytes(), added.bytes());
    }
  }
  Tensor a(DType::f32, 2, 2, Values{1, 2, 3, 4}), c = a, y = a, db = empty(1, 2);
  EXPECT_THROW(run(graph::Gemm{.m = 2, .n = 2, .k = 2, .epilogue = Epilogue::bias_gradient}, {&a, &a, &c, &db}),
               std::logic_error);
  EXPECT_THROW(
      run(graph::Gemm{.m = 2, .n = 2, .k = 2, .accumulate = true, .epilogue = Epilogue::gelu}, {&a, &a, &c, &y}),
      std::logic_error);
  EXPECT_THROW(run(graph::Gemm{.m = 2, .n = 2, .k = 2, .epilogue = Epilogue::gelu}, {&a, &a, &c}), std::logic_error);
}

TEST(CpuKernels, WeightGradientsWithTheBiass) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::int64_t m = 70, n = 21, k = 35;
    Tensor dy = Tensor::random(dtype, k, m, 1), x = Tensor::random(dtype, k, n, 2);
    Tensor dw(DType::f32, m, n), db = empty(1, m), both_dw = dw, both_db = db;
    for (const bool accumulate : {false, true}) {
      graph::Gemm gemm{.m = m, .n = n, .k = k, .trans_a = true, .accumulate = accumulate};
      run(gemm, {&dy, &x, &dw});
      run(graph::BiasGradient{k, m, accumulate}, {&dy, &db});
      gemm.epilogue = Epilogue::bias_gradient;
      run(gemm, {&dy, &x, &both_dw, &both_db});
      EXPECT_EQ(both_dw.bytes(), dw.bytes());
      EXPECT_EQ(both_db.bytes(), db.bytes());
    }
  }
}

TEST(CpuKernels, VocabularyInParts) {
  const std::int64_t rows = 3, cols = 4, vocab = 6, parts = 2;  // the second part has two tokens
  Tensor logits = random(rows, cols, 1), ids = tokens({1, -1, 5}), second = position(1), own = empty(rows, 3);
  Tensor losses = empty(1, rows), scale(DType::f32, 1, 1, Values{0.5}), untouched = logits;
  Tensor logits2 = logits, own2 = own, losses2 = losses;
  run(graph::VocabStatistics{rows, cols, vocab}, {&logits, &ids, &second, &own});
  Values both = {0.5, 2, 0.25, 1, 2, -9, 0.75, 3, -9};
  for (double value : own.values()) both.push_back(value);
  Tensor statistics(DType::f32, parts * rows, 3, both);
  run(graph::VocabCrossEntropy{rows, cols, vocab, parts, false}, {&logits, &ids, &second, &statistics, &losses});
  EXPECT_EQ(logits.bytes(), untouched.bytes());
  const Values plain = losses.values();
  run(graph::VocabCrossEntropy{rows, cols, vocab, parts, true}, {&logits, &ids, &second, &statistics, &losses, &scale});
  directly([&](Workers& workers) {
    const Matrix factor = scale.view();
    cpu::vocab_statistics(workers, {1, vocab}, logits2.view(), ids.view(), own2.view());
    cpu::vocab_cross_entropy(workers, {1, vocab}, parts, logits2.view(), ids.view(), statistics.view(), losses2.view(),
                             &factor);
  });
  expect_same({&own, &logits, &losses}, {&own2, &logits2, &losses2});
  EXPECT_EQ(losses.values(), plain);
}

// By numbers that tell arguments apart.
TEST(CpuKernels, SmallOperationsTakeTheirArgumentsInOrder) {
  const auto floats = [](std::int64_t rows, const Values& values) {
    return Tensor(DType::f32, rows, std::ssize(values) / rows, values);
  };
  const Tensor ids = tokens({2, 0, 3, 1}), shard = floats(2, {5, 6, 7, 8}), zeros = floats(4, Values(8));
  const Tensor wpe = floats(3, {10, 20, 30, 40, 50, 60}), dout = floats(4, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor square = floats(2, {1, 2, 3, 4}), wide = floats(2, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const Tensor losses = floats(1, {1, 2}), some = tokens({1, -1}), sums = floats(1, {100, 10});
  struct Case {
    graph::Operation operation;
    std::vector<Tensor> arguments;
    std::size_t result;
    Values expected;
  };
  const std::vector<Case> cases = {
      {graph::BiasGradient{2, 2, true}, {square, floats(1, {10, 20})}, 1, {14, 26}},
      {graph::AddBias{2, 2}, {square, floats(1, {10, 20}), position(0)}, 0, {11, 22, 13, 24}},
      {graph::AddBias{2, 2}, {square, floats(1, {10, 20}), position(1)}, 0, {1, 2, 3, 4}},
      {graph::TakeColumns{2, 2, 3, 2}, {wide, position(2), empty(2, 2)}, 2, {3, 4, 9, 10}},
      {graph::PutColumns{{2, 2, 3, 2}}, {square, position(3), empty(2, 6)}, 2, {0, 0, 1, 2, 0, 0, 0, 0, 3, 4, 0, 0}},
      {graph::PutColumns{{2, 2, 3, 2}, true}, {square, position(3), wide}, 2, {1, 2, 4, 6, 5, 6, 7, 8, 12, 14, 11, 12}},
      {graph::EmbeddingForward{4, 2, 2, 2, true, true, true},
       {ids, shard, wpe, zeros, position(1), position(1)},
       3,
       {35, 46, 0, 0, 37, 48, 0, 0}},
      {graph::EmbeddingBackward{4, 2, 2, true, true}, {ids, dout, shard, position(1)}, 2, {6, 8, 12, 14}},
      {graph::PositionBackward{4, 2, 2, 3, true}, {dout, wpe}, 1, {16, 28, 40, 52, 50, 60}},
      {graph::Add{4}, {square, square, empty(2, 2)}, 2, {2, 4, 6, 8}},
      {graph::Scale{4, -0.5F}, {square, empty(2, 2)}, 1, {-0.5, -1, -1.5, -2}},
      {graph::AddConstant{4, 1.5F}, {square, empty(2, 2)}, 1, {2.5, 3.5, 4.5, 5.5}},
      {graph::SelectRow{2, 2}, {square, position(3), empty(1, 2)}, 2, {3, 4}},
      {graph::LossSum{2, true, true}, {losses, some, sums, position(0)}, 2, {103, 11}},
      {graph::LossSum{2, true, true}, {losses, some, sums, position(3)}, 2, {100, 10}},
      {graph::SumSquares{2, true}, {losses, empty(1, 1), position(0)}, 1, {5}},
      {graph::SumSquares{2, true}, {losses, empty(1, 1), position(3)}, 1, {0}}};
  for (Case each : cases) {
    std::vector<Tensor*> arguments;
    for (Tensor& argument : each.arguments) arguments.push_back(&argument);
    run(each.operation, arguments);
    EXPECT_EQ(each.arguments[each.result].values(), each.expected) << graph::kind_name(each.operation);
  }
}

// A run that converts bf16 reads weights packed as floats, but not weights packed as pairs.
TEST(CpuKernelsBf16, ProductsReadWhatWasPackedForTheirUnit) {
  const std::int64_t m = 70, n = 21, k = 35;
  const GemmTuning converting({}, PackedUnit::f32);
  Tensor a = Tensor::random(DType::bf16, m, k, 1), b = Tensor::random(DType::bf16, n, k, 2);
  Tensor zero(DType::bf16, n, k), c(DType::bf16, m, n);
  run(graph::Gemm{m, n, k, false, true}, {&a, &b, &c}, &converting);
  const auto expected = c.bytes();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    if (dtype == DType::bf16 && cpu::widest_bf16_unit() == PackedUnit::f32) continue;
    Tensor packed(dtype, 1, cpu::packed_b_elements({m, n, k}));
    run(graph::PackWeight{n, k, true}, {&b, &packed}, &converting);
    graph::Gemm gemm{m, n, k, false, true};
    gemm.packed_b = true;
    Tensor& read_instead = dtype == DType::f32 ? zero : b;
    run(gemm, {&a, &read_instead, &c, &packed}, &converting);
    EXPECT_EQ(c.bytes(), expected) << to_string(dtype);
  }
}

// In bf16, by the unit of the run.
TEST(CpuKernelsBf16, AttentionTakesTheRunsUnit) {
  const cpu::AttentionShape shape{1, 70, 2, 2, 16};
  const auto tensor = [&](std::uint32_t seed) { return Tensor::random(DType::bf16, 70, 32, seed); };
  Tensor q = tensor(1), k = tensor(2), v = tensor(3), dout = tensor(4);
  for (const auto& [name, unit] : kPackedUnits) {
    if (!cpu::has_unit(unit)) continue;
    Tensor out(DType::bf16, 70, 32), lse(DType::f32, 1, 140), dq = out, dk = out, dv = out;
    Tensor out2 = out, lse2 = lse, dq2 = out, dk2 = out, dv2 = out;
    const GemmTuning tuning({}, unit);
    run(graph::AttentionForward{1, 70, 2, 2, 16}, {&q, &k, &v, &out, &lse}, &tuning);
    run(graph::AttentionBackward{1, 70, 2, 2, 16}, {&q, &k, &v, &out, &lse, &dout, &dq, &dk, &dv}, &tuning);
    directly([&, own = unit](Workers& workers) {
      const cpu::AttentionTensors tensors{q.view(), k.view(), v.view(), out2.view(), lse2.view()};
      cpu::attention_forward(workers, shape, tensors, own);
      cpu::attention_backward(workers, shape, tensors, {dout.view(), dq2.view(), dk2.view(), dv2.view()}, own);
    });
    SCOPED_TRACE(name);
    expect_same({&out, &dq, &dk, &dv}, {&out2, &dq2, &dk2, &dv2});
  }
}

}  // namespace
}  // namespace weft::execute
