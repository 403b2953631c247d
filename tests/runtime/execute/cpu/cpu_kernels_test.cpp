// Every operation through PreparedTask: the right kernel gets the right arguments in the right order.
//
// The kernels' arithmetic is tested in tests/kernels; here small shapes suffice to tell arguments apart.
#include "runtime/execute/cpu/cpu_kernels.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/rope.h"
#include "kernels/cpu/elementwise/elementwise.h"
#include "kernels/cpu/elementwise/optimizer.h"
#include "kernels/cpu/gemm/packed_gemm.h"
#include "kernels/cpu/loss/cross_entropy.h"
#include "kernels/cpu/norm/norm.h"
#include "kernels/dropout_formula.h"
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

void run(const graph::Operation& operation, const std::vector<Tensor*>& arguments) {
  std::vector<Matrix> views;
  for (Tensor* argument : arguments) views.push_back(argument->view());
  const PreparedTask task(operation, views);
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
        std::vector<Matrix> views = {a.view(), b.view(), c.view(), bias.view()};
        if (gemm.packed_b) views.push_back(packed.view());
        const PreparedTask task(gemm, views, tuning);
        Workers workers(2);
        workers.reserve(task.scratch());
        task.run(workers);
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

TEST(CpuKernels, BiasGradient) {
  Tensor dy(DType::f32, 2, 2, Values{1, 2, 3, 4}), db(DType::f32, 1, 2, Values{10, 20});
  run(graph::BiasGradient{2, 2, true}, {&dy, &db});
  EXPECT_EQ(db.values(), (Values{14, 26}));
  run(graph::BiasGradient{2, 2, false}, {&dy, &db});
  EXPECT_EQ(db.values(), (Values{4, 6}));
}

TEST(CpuKernels, LayerNorm) {
  Tensor x = random(3, 6, 1), weight = random(1, 6, 2), bias = random(1, 6, 3), dy = random(3, 6, 4);
  Tensor residual = random(3, 6, 5), y = empty(3, 6), mean = empty(1, 3), rstd = empty(1, 3), dx = empty(3, 6);
  Tensor dweight = random(1, 6, 6), dbias = random(1, 6, 7), y2 = y, mean2 = mean, rstd2 = rstd, dx2 = dx;
  Tensor dweight2 = dweight, dbias2 = dbias;
  run(graph::LayerNormForward{3, 6, 0.5F}, {&x, &weight, &bias, &y, &mean, &rstd});
  run(graph::LayerNormBackward{3, 6, true, true}, {&x, &weight, &mean, &rstd, &dy, &dx, &dweight, &dbias, &residual});
  directly([&](Workers& workers) {
    const Matrix extra = residual.view(), m = mean2.view(), shift = bias.view(), dshift = dbias2.view();
    const cpu::NormTensors norm{x.view(), weight.view(), &m, rstd2.view()};
    cpu::norm_forward(workers, 0.5F, norm, &shift, y2.view());
    cpu::norm_backward(workers, norm, dy.view(), {dx2.view(), dweight2.view(), &dshift, &extra, true});
  });
  expect_same({&y, &dx, &dweight, &dbias}, {&y2, &dx2, &dweight2, &dbias2});
}

TEST(CpuKernels, RmsNorm) {
  Tensor x = random(3, 6, 1), weight = random(1, 6, 2), dy = random(3, 6, 4), residual = random(3, 6, 5);
  Tensor y = empty(3, 6), rstd = empty(1, 3), dx = empty(3, 6), dweight = empty(1, 6);
  Tensor y2 = y, rstd2 = rstd, dx2 = dx, dweight2 = dweight;
  run(graph::RmsNormForward{3, 6, 0.5F}, {&x, &weight, &y, &rstd});
  run(graph::RmsNormBackward{3, 6, true, false}, {&x, &weight, &rstd, &dy, &dx, &dweight, &residual});
  directly([&](Workers& workers) {
    const Matrix extra = residual.view();
    const cpu::NormTensors norm{x.view(), weight.view(), nullptr, rstd2.view()};
    cpu::norm_forward(workers, 0.5F, norm, nullptr, y2.view());
    cpu::norm_backward(workers, norm, dy.view(), {dx2.view(), dweight2.view(), nullptr, &extra, false});
  });
  expect_same({&y, &dx, &dweight}, {&y2, &dx2, &dweight2});
}

// The second rank's statistics are made up. An RMSNorm has neither means nor biases.
TEST(CpuKernels, NormsOfParts) {
  for (const bool layer : {true, false}) {
    SCOPED_TRACE(layer ? "layer norm" : "RMS norm");
    const std::int64_t rows = 3, cols = 6, parts = 2, numbers = layer ? 2 : 1;
    Tensor x = random(rows, cols, 1), weight = random(1, cols, 2), bias = random(1, cols, 3);
    Tensor dy = random(rows, cols, 4), residual = random(rows, cols, 5), own = empty(rows, numbers);
    Tensor y = empty(rows, cols), mean = empty(1, rows), rstd = empty(1, rows), sums = empty(rows, numbers);
    Tensor dx = empty(rows, cols), dweight = random(1, cols, 6), dbias = random(1, cols, 7);
    Tensor own2 = own, y2 = y, mean2 = mean, rstd2 = rstd, sums2 = sums, dx2 = dx, dweight2 = dweight, dbias2 = dbias;
    const auto arguments = [&](std::vector<Tensor*> list) {
      if (!layer) std::erase_if(list, [&](const Tensor* t) { return t == &bias || t == &mean || t == &dbias; });
      return list;
    };
    run(graph::NormStatistics{rows, cols, layer}, {&x, &own});
    Values both = own.values();
    for (std::int64_t row = 0; row < rows; ++row) {
      if (layer) both.push_back(0.25 - 0.5 * static_cast<double>(row));
      both.push_back(static_cast<double>(3 + row));
    }
    Tensor statistics(DType::f32, parts * rows, numbers, both);
    run(graph::NormForwardOfParts{rows, cols, parts, 0.5F, layer},
        arguments({&x, &weight, &bias, &statistics, &y, &mean, &rstd}));
    run(graph::NormBackwardSums{rows, cols, layer}, arguments({&x, &weight, &mean, &rstd, &dy, &sums}));
    run(graph::NormBackwardOfParts{rows, cols, parts, layer, true, layer},
        arguments({&x, &weight, &mean, &rstd, &dy, &sums, &dx, &dweight, &dbias, &residual}));
    directly([&](Workers& workers) {
      const Matrix shift = bias.view(), m = mean2.view(), db = dbias2.view(), extra = residual.view();
      const cpu::NormTensors norm{x.view(), weight.view(), layer ? &m : nullptr, rstd2.view()};
      cpu::norm_statistics(workers, layer, x.view(), own2.view());
      cpu::norm_forward_of_parts(workers, parts, 0.5F, norm, layer ? &shift : nullptr, statistics.view(), y2.view());
      cpu::norm_backward_sums(workers, norm, dy.view(), sums2.view());
      cpu::norm_backward_of_parts(workers, parts, norm, dy.view(), sums2.view(),
                                  {dx2.view(), dweight2.view(), layer ? &db : nullptr, &extra, layer});
    });
    expect_same({&own, &y, &mean, &rstd, &sums, &dx, &dweight, &dbias},
                {&own2, &y2, &mean2, &rstd2, &sums2, &dx2, &dweight2, &dbias2});
    run(graph::NormBackwardOfParts{rows, cols, parts, layer},
        arguments({&x, &weight, &mean, &rstd, &dy, &sums, &dx, &dweight, &dbias}));
    expect_close(cpu::testing::plus(dx.values(), residual.values()), dx2.values(), kClose);
  }
}

TEST(CpuKernels, BiasOfTheFirstRank) {
  Tensor y(DType::f32, 2, 2, Values{1, 2, 3, 4}), bias(DType::f32, 1, 2, Values{10, 20});
  Tensor first = position(0), second = position(1);
  run(graph::AddBias{2, 2}, {&y, &bias, &second});
  EXPECT_EQ(y.values(), (Values{1, 2, 3, 4}));
  run(graph::AddBias{2, 2}, {&y, &bias, &first});
  EXPECT_EQ(y.values(), (Values{11, 22, 13, 24}));
}

TEST(CpuKernels, WindowsOfColumns) {
  Tensor wide(DType::f32, 2, 6, Values{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}), window = empty(2, 2), put = empty(2, 6);
  for (std::int64_t coordinate : {2, 3}) {  // two ranks a window
    Tensor at = position(coordinate);
    run(graph::TakeColumns{2, 2, 3, 2}, {&wide, &at, &window});
    EXPECT_EQ(window.values(), (Values{3, 4, 9, 10}));
    run(graph::PutColumns{2, 2, 3, 2}, {&window, &at, &put});
    EXPECT_EQ(put.values(), (Values{0, 0, 3, 4, 0, 0, 0, 0, 9, 10, 0, 0}));
  }
}

TEST(CpuKernels, Cast) {
  Tensor x(DType::f32, 2, 2, Values{1, -2.5, 1 + 0x1p-9, 3}), narrow(DType::bf16, 1, 4), wide = empty(1, 4);
  run(graph::Cast{4}, {&x, &narrow});
  run(graph::Cast{4}, {&narrow, &wide});
  EXPECT_EQ(wide.values(), (Values{1, -2.5, 1, 3}));
}

TEST(CpuKernels, Embedding) {
  Tensor ids = tokens({2, 0, 2, 1}), wte(DType::f32, 3, 2, Values{1, 2, 3, 4, 5, 6});
  Tensor wpe(DType::f32, 4, 2, Values{10, 20, 30, 40, 50, 60, 70, 80}), out = empty(4, 2), at = position(1);
  run(graph::EmbeddingForward{4, 2, 3, 2, true, true}, {&ids, &wte, &wpe, &out, &at});
  EXPECT_EQ(out.values(), (Values{35, 46, 51, 62, 35, 46, 53, 64}));
  run(graph::EmbeddingForward{4, 2, 3, 2, true, false}, {&ids, &wte, &wpe, &out});
  EXPECT_EQ(out.values(), (Values{15, 26, 31, 42, 15, 26, 33, 44}));
  run(graph::EmbeddingForward{4, 2, 3, 2, false, false}, {&ids, &wte, &out});
  EXPECT_EQ(out.values(), (Values{5, 6, 1, 2, 5, 6, 3, 4}));
  Tensor dwte(DType::f32, 3, 2, Values{1, 1, 1, 1, 1, 1}), dwpe(DType::f32, 4, 2, Values(8, 1.0));
  run(graph::EmbeddingBackward{4, 2, 3, true}, {&ids, &out, &dwte});
  EXPECT_EQ(dwte.values(), (Values{2, 3, 4, 5, 11, 13}));
  run(graph::EmbeddingBackward{4, 2, 3, false}, {&ids, &out, &dwte});
  EXPECT_EQ(dwte.values(), (Values{1, 2, 3, 4, 10, 12}));
  run(graph::PositionBackward{4, 2, 2, 4, false}, {&out, &dwpe});
  EXPECT_EQ(dwpe.values(), (Values{10, 12, 4, 6, 0, 0, 0, 0}));
  run(graph::PositionBackward{4, 2, 2, 4, true}, {&out, &dwpe});
  EXPECT_EQ(dwpe.values(), (Values{20, 24, 8, 12, 0, 0, 0, 0}));
}

TEST(CpuKernels, EmbeddingShards) {
  Tensor ids = tokens({2, 0, 3, 1}), wte(DType::f32, 2, 2, Values{5, 6, 7, 8});  // tokens 2 and 3
  Tensor wpe(DType::f32, 3, 2, Values{10, 20, 30, 40, 50, 60}), out = empty(4, 2), at = position(1),
                                                                shard = position(1);
  run(graph::EmbeddingForward{4, 2, 2, 2, true, true, true}, {&ids, &wte, &wpe, &out, &at, &shard});
  EXPECT_EQ(out.values(), (Values{35, 46, 0, 0, 37, 48, 0, 0}));
  run(graph::EmbeddingForward{4, 2, 2, 2, true, false, true}, {&ids, &wte, &wpe, &out, &shard});
  EXPECT_EQ(out.values(), (Values{15, 26, 0, 0, 17, 28, 0, 0}));
  run(graph::EmbeddingForward{4, 2, 2, 2, false, false, true}, {&ids, &wte, &out, &shard});
  EXPECT_EQ(out.values(), (Values{5, 6, 0, 0, 7, 8, 0, 0}));
  Tensor dout(DType::f32, 4, 2, Values{1, 2, 3, 4, 5, 6, 7, 8}), dwte(DType::f32, 2, 2, Values{1, 1, 1, 1});
  run(graph::EmbeddingBackward{4, 2, 2, true, true}, {&ids, &dout, &dwte, &shard});
  EXPECT_EQ(dwte.values(), (Values{2, 3, 6, 7}));
  run(graph::EmbeddingBackward{4, 2, 2, false, true}, {&ids, &dout, &dwte, &shard});
  EXPECT_EQ(dwte.values(), (Values{1, 2, 5, 6}));
}

TEST(CpuKernels, Rope) {
  Tensor x = random(6, 8, 1), expected = x, at = position(5);
  const Values before = x.values();
  run(graph::Rope{6, 2, 4, 3, 100.0F, 8.0F, 1.0F, 4.0F, 64.0F, false, true}, {&x, &at});
  directly([&](Workers& workers) {
    cpu::rope(workers, cpu::rope_frequencies(4, 100.0F, {8.0F, 1.0F, 4.0F, 64.0F}), 2, 3, 5, false, expected.view());
  });
  EXPECT_EQ(x.bytes(), expected.bytes());
  run(graph::Rope{6, 2, 4, 3, 100.0F, 8.0F, 1.0F, 4.0F, 64.0F, true, true}, {&x, &at});
  expect_close(x.values(), before, kClose);
  run(graph::Rope{6, 2, 4, 3, 100.0F}, {&x});
  EXPECT_EQ(x.values()[0], before[0] + (x.values()[0] - before[0]));
  expect_close({x.values()[8]}, {before[8] * std::cos(1.0) - before[10] * std::sin(1.0)}, kClose);
}

TEST(CpuKernels, Attention) {
  const std::int64_t batch = 2, seq = 5, heads = 4, kv_heads = 2, dim = 3;
  Tensor q = random(10, 12, 1), k = random(10, 6, 2), v = random(10, 6, 3), dout = random(10, 12, 4);
  Tensor out = empty(10, 12), lse = empty(1, 40), dq = empty(10, 12), dk = empty(10, 6), dv = empty(10, 6);
  Tensor out2 = out, lse2 = lse, dq2 = dq, dk2 = dk, dv2 = dv;
  run(graph::AttentionForward{batch, seq, heads, kv_heads, dim}, {&q, &k, &v, &out, &lse});
  run(graph::AttentionBackward{batch, seq, heads, kv_heads, dim}, {&q, &k, &v, &out, &lse, &dout, &dq, &dk, &dv});
  directly([&](Workers& workers) {
    const cpu::AttentionShape shape{batch, seq, heads, kv_heads, dim};
    const cpu::AttentionTensors tensors{q.view(), k.view(), v.view(), out2.view(), lse2.view()};
    cpu::attention_forward(workers, shape, tensors);
    cpu::attention_backward(workers, shape, tensors, {dout.view(), dq2.view(), dk2.view(), dv2.view()});
  });
  expect_same({&out, &lse, &dq, &dk, &dv}, {&out2, &lse2, &dq2, &dk2, &dv2});
}

// A prefill of four tokens and one decoded token make the attention of five.
TEST(CpuKernels, CacheStoreAndDecode) {
  const std::int64_t seq = 5, context = 7;
  Tensor q = random(seq, 8, 1), k = random(seq, 4, 2), v = random(seq, 4, 3), out = empty(seq, 8);
  Tensor lse = empty(1, 2 * seq), k_cache = empty(context, 4), v_cache = empty(context, 4), decoded = empty(1, 8);
  run(graph::AttentionForward{1, seq, 2, 1, 4}, {&q, &k, &v, &out, &lse});
  const auto rows = [](Tensor& from, std::int64_t cols, std::int64_t first, std::int64_t last) {
    const Values all = from.values();
    return Tensor(DType::f32, last - first, cols, Values(all.begin() + first * cols, all.begin() + last * cols));
  };
  Tensor k_head = rows(k, 4, 0, 4), v_head = rows(v, 4, 0, 4);
  run(graph::CacheStore{1, 4, 4, context}, {&k_head, &k_cache});
  run(graph::CacheStore{1, 4, 4, context}, {&v_head, &v_cache});
  Tensor q_new = rows(q, 8, 4, 5), k_new = rows(k, 4, 4, 5), v_new = rows(v, 4, 4, 5), at = position(4);
  run(graph::AttentionDecode{1, 2, 1, 4, context}, {&q_new, &k_new, &v_new, &k_cache, &v_cache, &at, &decoded});
  expect_close(decoded.values(), rows(out, 8, 4, 5).values(), kClose);
}

TEST(CpuKernels, Activations) {
  Tensor x = random(3, 8, 1), dy = random(3, 8, 2), y = empty(3, 8), dx = empty(3, 8), y2 = y, dx2 = dx;
  run(graph::GeluForward{24}, {&x, &y});
  run(graph::GeluBackward{24}, {&x, &dy, &dx});
  directly([&](Workers& workers) {
    cpu::gelu_forward(workers, x.view(), y2.view());
    cpu::gelu_backward(workers, x.view(), dy.view(), dx2.view());
  });
  expect_same({&y, &dx}, {&y2, &dx2});
  Tensor half = empty(3, 4), half2 = half, dhalf = random(3, 4, 3);
  run(graph::SwiGluForward{3, 4}, {&x, &half});
  run(graph::SwiGluBackward{3, 4}, {&x, &dhalf, &dx});
  directly([&](Workers& workers) {
    cpu::swiglu_forward(workers, x.view(), half2.view());
    cpu::swiglu_backward(workers, x.view(), dhalf.view(), dx2.view());
  });
  expect_same({&half, &dx}, {&half2, &dx2});
}

TEST(CpuKernels, AddScaleAndSelectRow) {
  Tensor a(DType::f32, 2, 2, Values{1, 2, 3, 4}), b(DType::f32, 2, 2, Values{10, 20, 30, 40}), out = empty(2, 2);
  run(graph::Add{4}, {&a, &b, &out});
  EXPECT_EQ(out.values(), (Values{11, 22, 33, 44}));
  Tensor row = empty(1, 2), at = position(3);
  run(graph::SelectRow{2, 2}, {&out, &at, &row});
  EXPECT_EQ(row.values(), (Values{33, 44}));
  run(graph::Scale{2, -0.5F}, {&row, &row});
  EXPECT_EQ(row.values(), (Values{-16.5, -22}));
}

// Of site 11 at step 7 with seed 99.
bool dropped_at_one_half(std::size_t element) {
  return kernels::dropout_bits(philox_quad(99, 7, 11, element / 8), static_cast<std::uint32_t>(element)) < 32768;
}

TEST(CpuKernels, Dropout) {
  Tensor x(DType::f32, 3, 5, Values(15, 1.0)), y = empty(3, 5), residual = random(3, 5, 2);
  Tensor keys = Tensor::integers(DType::i64, {99, 7, 40});
  run(graph::Dropout{3, 5, 2, 0.5F, 11, true}, {&x, &keys, &y, &residual});
  Values expected = residual.values();
  for (std::size_t i = 0; i < 15; ++i) {
    const std::size_t element = 42 * 5 + i;
    const bool dropped = dropped_at_one_half(element);
    expected[i] += dropped ? 0.0 : 2.0;
  }
  expect_close(y.values(), expected, kClose);
}

TEST(CpuKernels, DropoutOfParts) {
  Tensor x(DType::f32, 3, 5, Values(15, 1.0)), y = empty(3, 5), residual = random(3, 5, 2), plain = empty(3, 5);
  Tensor keys = Tensor::integers(DType::i64, {99, 7, 40}), coordinate = position(2);
  run(graph::Dropout{3, 5, 2, 0.5F, 11, true, 4}, {&x, &keys, &y, &residual, &coordinate});
  run(graph::Dropout{3, 5, 2, 0.5F, 11, false, 4}, {&x, &keys, &plain, &coordinate});
  Values expected;
  for (std::size_t i = 0; i < 15; ++i) {
    const std::size_t element = (42 + i / 5) * 20 + 10 + i % 5;
    expected.push_back(dropped_at_one_half(element) ? 0.0 : 2.0);
  }
  expect_close(plain.values(), expected, kClose);
  expect_close(y.values(), cpu::testing::plus(expected, residual.values()), kClose);
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

TEST(CpuKernels, SumsThatOneRankOwns) {
  Tensor losses(DType::f32, 1, 2, Values{1, 2}), ids = tokens({1, -1}), x(DType::f32, 1, 2, Values{3, 4});
  Tensor sums(DType::f32, 1, 2, Values{100, 10}), partial = empty(1, 1), owner = position(0), replica = position(3);
  run(graph::LossSum{2, true, true}, {&losses, &ids, &sums, &replica});
  EXPECT_EQ(sums.values(), (Values{100, 10}));
  run(graph::LossSum{2, true, true}, {&losses, &ids, &sums, &owner});
  EXPECT_EQ(sums.values(), (Values{103, 11}));
  run(graph::LossSum{2, false, true}, {&losses, &ids, &sums, &replica});
  EXPECT_EQ(sums.values(), (Values{0, 0}));
  run(graph::SumSquares{2, true}, {&x, &partial, &owner});
  EXPECT_EQ(partial.values(), (Values{25}));
  run(graph::SumSquares{2, true}, {&x, &partial, &replica});
  EXPECT_EQ(partial.values(), (Values{0}));
}

TEST(CpuKernels, CrossEntropyAndLossSum) {
  Tensor logits = random(3, 6, 1), logits2 = logits, ids = tokens({1, -1, 3}), scale(DType::f32, 1, 1, Values{0.5});
  Tensor losses = empty(1, 3), losses2 = losses, sums(DType::f32, 1, 2, Values{100, 10});
  run(graph::CrossEntropy{3, 4, 6, false}, {&logits, &ids, &losses});
  EXPECT_EQ(logits.bytes(), logits2.bytes());
  run(graph::CrossEntropy{3, 4, 6, true}, {&logits, &ids, &losses, &scale});
  directly([&](Workers& workers) {
    const Matrix factor = scale.view();
    cpu::cross_entropy(workers, 4, logits2.view(), ids.view(), losses2.view(), &factor);
  });
  expect_same({&logits, &losses}, {&logits2, &losses2});
  run(graph::LossSum{3, true}, {&losses, &ids, &sums});
  expect_close(sums.values(), {100 + losses.values()[0] + losses.values()[2], 12}, kClose);
  run(graph::LossSum{3, false}, {&losses, &ids, &sums});
  expect_close(sums.values(), {losses.values()[0] + losses.values()[2], 2}, kClose);
}

TEST(CpuKernels, ClippingAndAdamW) {
  Tensor grad(DType::f32, 1, 4, Values{3, 4, 0, 0}), partials = empty(1, 1), clip = empty(1, 2);
  run(graph::SumSquares{4}, {&grad, &partials});
  EXPECT_EQ(partials.values(), (Values{25}));
  run(graph::ClipFactor{1, 2.5F}, {&partials, &clip});
  expect_close(clip.values(), {5, 0.5}, kClose);
  Tensor m = random(1, 4, 1), v(DType::f32, 1, 4, Values(4, 0.25)), scalars(DType::f32, 1, 4, Values{0.1, 2, 3, 9});
  Tensor param(DType::bf16, 1, 4, Values{1, 2, 3, 4}), master(DType::f32, 1, 4, Values{1.001, 2.001, 3.001, 4.001});
  Tensor m2 = m, v2 = v, param2 = param, master2 = master;
  run(graph::AdamW{4, 0.9F, 0.95F, 1e-8F, 0.1F, true}, {&param, &grad, &m, &v, &scalars, &clip, &master});
  directly([&](Workers& workers) {
    const Matrix exact = master2.view();
    cpu::adamw(workers, {0.9F, 0.95F, 1e-8F, 0.1F}, {scalars.view(), clip.view()}, param2.view(), grad.view(),
               m2.view(), v2.view(), &exact);
  });
  expect_same({&master, &param, &m, &v}, {&master2, &param2, &m2, &v2});
}

// Contiguous views come as one row or in the tensor's shape; kernels see the operation's.
TEST(CpuKernels, ContiguousArgumentsMayComeInAnyShape) {
  Tensor dy(DType::f32, 1, 4, Values{1, 2, 3, 4}), db(DType::f32, 2, 1);
  run(graph::BiasGradient{2, 2, false}, {&dy, &db});
  EXPECT_EQ(db.values(), (Values{4, 6}));
}

TEST(CpuKernels, ArgumentsThatDoNotFitAreRefused) {
  Tensor a = random(2, 3, 1), small = random(1, 4, 2);
  EXPECT_THROW(run(graph::Add{6}, {&a, &a}), std::logic_error);
  EXPECT_THROW(run(graph::Add{6}, {&a, &small, &a}), std::logic_error);
  EXPECT_THROW(run(graph::BiasGradient{2, 3, false}, {&a, &small}), std::logic_error);
  Tensor strided(DType::f32, 2, 3, 1), db = empty(1, 2);
  EXPECT_THROW(run(graph::BiasGradient{3, 2, false}, {&strided, &db}), std::logic_error);
}

TEST(CpuKernels, CollectivesAreNotForThem) {
  Tensor a = random(1, 4, 1);
  EXPECT_THROW(run(graph::AllReduce{graph::Channel::data, 2, 4}, {&a, &a}), std::logic_error);
  EXPECT_THROW(run(graph::ReduceScatter{graph::Channel::x, 2, 2}, {&a, &a, &a}), std::logic_error);
  EXPECT_THROW(run(graph::AllGather{graph::Channel::y, 2, 2}, {&a, &a}), std::logic_error);
  EXPECT_THROW(run(graph::Broadcast{graph::Channel::world, 2, 4, 0}, {&a}), std::logic_error);
}

}  // namespace
}  // namespace weft::execute
