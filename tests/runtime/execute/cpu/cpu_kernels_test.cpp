// Products, attention and the loss of a vocabulary in parts through PreparedTask: packed weights, epilogues, units.
//
// tests/gpu/cuda_tasks_test.cpp compares the other operations, as PreparedTask runs them, with the GPU's kernels, and
// tests/kernels the kernels' arithmetic with references.
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

// The arguments after the operation, which must have the bits that `kernel` gives them.
template <class Kernel>
std::vector<Tensor> after(const graph::Operation& operation, const std::vector<Tensor>& arguments,
                          const Kernel& kernel) {
  std::vector<Tensor> found = arguments, expected = arguments;
  std::vector<Tensor*> pointers;
  std::vector<Matrix> views;
  for (Tensor& argument : found) pointers.push_back(&argument);
  for (Tensor& argument : expected) views.push_back(argument.view());
  run(operation, pointers);
  directly([&](Workers& workers) { kernel(workers, views); });
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].bytes(), expected[i].bytes()) << i;
  return found;
}
using Views = std::vector<Matrix>;

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
TEST(CpuKernels, ProductsWithGelu) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::int64_t m = 70, n = 21, k = 35;
    Tensor a = Tensor::random(dtype, m, k, 1), b = Tensor::random(dtype, k, n, 2);
    Tensor bias = Tensor::random(dtype, 1, n, 3), x = Tensor::random(dtype, m, n, 4);
    for (const bool has_bias : {false, true}) {
      Tensor sums(dtype, m, n), gelu = sums, gradient = sums, c = sums, fused = sums, fused_gradient = sums;
      const auto product = [&](Epilogue epilogue, Tensor& to, Tensor* other) {
        std::vector<Tensor*> arguments = {&a, &b, &to};
        if (has_bias) arguments.push_back(&bias);
        if (other != nullptr) arguments.push_back(other);
        run(graph::Gemm{.m = m, .n = n, .k = k, .has_bias = has_bias, .epilogue = epilogue}, arguments);
      };
      product(Epilogue::none, sums, nullptr);
      run(graph::GeluForward{m * n}, {&sums, &gelu});
      run(graph::GeluBackward{m * n}, {&x, &sums, &gradient});
      product(Epilogue::gelu, c, &fused);
      product(Epilogue::gelu_gradient, fused_gradient, &x);
      EXPECT_EQ(c.bytes(), sums.bytes());
      EXPECT_EQ(fused.bytes(), gelu.bytes());
      EXPECT_EQ(fused_gradient.bytes(), gradient.bytes());
    }
  }
  Tensor a(DType::f32, 2, 2, Values{1, 2, 3, 4}), c = a, y = a;
  EXPECT_THROW(
      run(graph::Gemm{.m = 2, .n = 2, .k = 2, .accumulate = true, .epilogue = Epilogue::gelu}, {&a, &a, &c, &y}),
      std::logic_error);
  EXPECT_THROW(run(graph::Gemm{.m = 2, .n = 2, .k = 2, .epilogue = Epilogue::gelu}, {&a, &a, &c}), std::logic_error);
}

TEST(CpuKernels, VocabularyInParts) {
  const std::int64_t rows = 3, cols = 4, vocab = 6, parts = 2;  // the second part has two tokens
  Tensor logits = random(rows, cols, 1), ids = tokens({1, -1, 5}), second = position(1), own = empty(rows, 3);
  Tensor losses = empty(1, rows), scale(DType::f32, 1, 1, Values{0.5}), untouched = logits;
  own = after(graph::VocabStatistics{rows, cols, vocab}, {logits, ids, second, own},
              [&](Workers& workers, const Views& v) {
                cpu::vocab_statistics(workers, {1, vocab}, v[0], v[1], v[3]);
              })[3];
  Values both = {0.5, 2, 0.25, 1, 2, -9, 0.75, 3, -9};
  for (double value : own.values()) both.push_back(value);
  Tensor statistics(DType::f32, parts * rows, 3, both);
  run(graph::VocabCrossEntropy{rows, cols, vocab, parts, false}, {&logits, &ids, &second, &statistics, &losses});
  EXPECT_EQ(logits.bytes(), untouched.bytes());
  auto with_gradient =
      after(graph::VocabCrossEntropy{rows, cols, vocab, parts, true},
            {logits, ids, second, statistics, empty(1, rows), scale}, [&](Workers& workers, const Views& v) {
              cpu::vocab_cross_entropy(workers, {1, vocab}, parts, v[0], v[1], v[3], v[4], &v[5]);
            });
  EXPECT_EQ(with_gradient[4].values(), losses.values());
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
    directly([&](Workers& workers) {
      const cpu::AttentionTensors tensors{q.view(), k.view(), v.view(), out2.view(), lse2.view()};
      cpu::attention_forward(workers, shape, tensors, unit);
      cpu::attention_backward(workers, shape, tensors, {dout.view(), dq2.view(), dk2.view(), dv2.view()}, unit);
    });
    SCOPED_TRACE(name);
    expect_same({&out, &dq, &dk, &dv}, {&out2, &dq2, &dk2, &dv2});
  }
}

}  // namespace
}  // namespace weft::execute
