// PreparedTask in bf16: products and attention take the unit that the run multiplies bf16 by.
#include <gtest/gtest.h>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/gemm/packed_gemm.h"
#include "runtime/execute/cpu/cpu_kernels.h"
#include "tests/kernels/reference.h"

namespace weft::execute {
namespace {

using cpu::Matrix;
using cpu::Workers;
using cpu::testing::Tensor;

/// Runs `operation` as a run with this table of products does.
void run(const graph::Operation& operation, const std::vector<Matrix>& views, const GemmTuning& tuning) {
  const PreparedTask task(operation, views, &tuning);
  Workers workers(1);
  workers.reserve(task.scratch());
  task.run(workers);
}

// A run that converts bf16 reads weights packed as floats, but not weights packed as pairs.
TEST(CpuKernelsBf16, ProductsReadWhatWasPackedForTheirUnit) {
  const std::int64_t m = 70, n = 21, k = 35;
  const GemmTuning converting({}, PackedUnit::f32);
  Tensor a = Tensor::random(DType::bf16, m, k, 1), b = Tensor::random(DType::bf16, n, k, 2);
  Tensor zero(DType::bf16, n, k), c(DType::bf16, m, n);
  run(graph::Gemm{m, n, k, false, true}, {a.view(), b.view(), c.view()}, converting);
  const auto expected = c.bytes();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    if (dtype == DType::bf16 && cpu::widest_bf16_unit() == PackedUnit::f32) continue;
    Tensor packed(dtype, 1, cpu::packed_b_elements({m, n, k}));
    run(graph::PackWeight{n, k, true}, {b.view(), packed.view()}, converting);
    graph::Gemm gemm{m, n, k, false, true};
    gemm.packed_b = true;
    Tensor& read_instead = dtype == DType::f32 ? zero : b;
    run(gemm, {a.view(), read_instead.view(), c.view(), packed.view()}, converting);
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
    run(graph::AttentionForward{1, 70, 2, 2, 16}, {q.view(), k.view(), v.view(), out.view(), lse.view()}, tuning);
    run(graph::AttentionBackward{1, 70, 2, 2, 16},
        {q.view(), k.view(), v.view(), out.view(), lse.view(), dout.view(), dq.view(), dk.view(), dv.view()}, tuning);
    Workers workers(1);
    workers.reserve(cpu::attention_forward_scratch(shape, DType::bf16, unit));
    workers.reserve(cpu::attention_backward_scratch(shape, DType::bf16, unit));
    const cpu::AttentionTensors tensors{q.view(), k.view(), v.view(), out2.view(), lse2.view()};
    cpu::attention_forward(workers, shape, tensors, unit);
    cpu::attention_backward(workers, shape, tensors, {dout.view(), dq2.view(), dk2.view(), dv2.view()}, unit);
    EXPECT_EQ(out.bytes(), out2.bytes()) << name;
    EXPECT_EQ(dq.bytes(), dq2.bytes()) << name;
    EXPECT_EQ(dk.bytes(), dk2.bytes()) << name;
    EXPECT_EQ(dv.bytes(), dv2.bytes()) << name;
  }
}

}  // namespace
}  // namespace weft::execute
