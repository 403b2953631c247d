// The packed engine compared with double precision, by every unit of this build: every layout, ragged sizes, several
// panels and blocks, arbitrary slices and numbers of threads with equal bits, and B packed in advance. AMX is emulated
// on CPUs without it.
#include "kernels/cpu/gemm/packed_gemm.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cpu/gemm/gemm_amx.h"
#include "tests/kernels/amx_emulator.h"
#include "tests/kernels/reference.h"

namespace weft::cpu {
namespace {

using testing::Tensor;
using testing::Values;
using Engine = GemmMethod::Engine;

struct Types {
  DType inputs, output;
  PackedUnit unit = PackedUnit::f32;
};

// Every unit of this build: bf16 is converted to fp32, or multiplied as bf16.
std::vector<Types> all_types() {
  std::vector<Types> types = {{DType::f32, DType::f32}};
  for (const PackedUnit unit : {PackedUnit::f32, PackedUnit::pairs, PackedUnit::amx}) {
    if ((unit == PackedUnit::pairs && !kHasPairs) || (unit == PackedUnit::amx && !kHasAmx)) continue;
    for (const DType output : {DType::f32, DType::bf16}) types.push_back({DType::bf16, output, unit});
  }
  return types;
}

// Rows and columns of a slice.
struct Slices {
  std::int64_t rows, cols;
};

class PackedProducts : public ::testing::Test {
 protected:
  PackedProducts() {
    if (kHasAmx && !allow_amx_tiles()) emulator_.emplace();
  }

 private:
  std::optional<weft::testing::AmxEmulator> emulator_;
};

// A product with its tensors.
struct PackedProduct {
  GemmShape shape;
  Types types;
  bool bias;
  Tensor a, b, c, added;

  PackedProduct(const GemmShape& s, Types dtypes, bool with_bias, DType bias_dtype)
      : shape(s),
        types(dtypes),
        bias(with_bias),
        a(Tensor::random(types.inputs, s.trans_a ? s.k : s.m, s.trans_a ? s.m : s.k, 1, 1.0, 3)),
        b(Tensor::random(types.inputs, s.trans_b ? s.n : s.k, s.trans_b ? s.k : s.n, 2, 1.0, 5)),
        c(s.accumulate ? Tensor::random(types.output, s.m, s.n, 4, 1.0, 7) : Tensor(types.output, s.m, s.n, 7)),
        added(Tensor::random(bias_dtype, 1, s.n, 3)) {}

  GemmArguments arguments() {
    GemmArguments arguments{a.view(), b.view(), c.view(), {}};
    if (bias) arguments.bias = added.view();
    return arguments;
  }
};

std::string trace_of(const GemmShape& s, Types types, bool bias) {
  return std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) + (s.trans_a ? " T" : " N") +
         (s.trans_b ? "T" : "N") + (s.accumulate ? " accumulate" : "") + (bias ? " bias " : " ") +
         std::string(to_string(types.inputs)) + "->" + std::string(to_string(types.output)) + " by unit " +
         std::to_string(static_cast<int>(types.unit));
}

void check(const GemmShape& shape, const Types& types, bool bias, DType bias_dtype, const Slices& slices) {
  SCOPED_TRACE(trace_of(shape, types, bias));
  PackedProduct product(shape, types, bias, bias_dtype);
  const Values added = product.added.values();
  const Values expected = testing::product_in_double(shape, product.a.values(), product.b.values(),
                                                     bias ? &added : nullptr, product.c.values());
  const PackedGemm gemm(shape, product.arguments(), slices.rows, slices.cols, types.unit);
  testing::run_on_one_and_three_threads(gemm.scratch(), {&product.c}, [&](Workers& workers) { gemm.run(workers); });
  // A sum of k normal products has size √k, and rounding errors grow in the same way.
  const double rounding = 4e-6 * std::sqrt(static_cast<double>(shape.k)) + 1e-5;
  testing::expect_close(product.c.values(), expected, testing::tolerance_of(types.output, rounding));
}

TEST_F(PackedProducts, LayoutsTypesAndRaggedSizes) {
  for (const auto& [m, n, k] : std::vector<std::array<std::int64_t, 3>>{{1, 1, 1},
                                                                        {8, 48, 16},
                                                                        {7, 47, 15},
                                                                        {9, 49, 17},
                                                                        {16, 32, 33},
                                                                        {17, 81, 401},
                                                                        {65, 97, 48},
                                                                        {1, 50, 7},
                                                                        {16, 48, 31},
                                                                        {33, 16, 95},
                                                                        {50, 1, 9},
                                                                        {130, 145, 769}}) {
    for (int layout = 0; layout < 4; ++layout) {
      for (const Types& types : all_types()) {
        const bool odd = (m + layout) % 2 != 0;
        check({m, n, k, layout / 2 != 0, layout % 2 != 0, odd}, types, !odd, types.inputs, {24, 96});
        check({m, n, k, layout / 2 != 0, layout % 2 != 0, !odd}, types, !odd, DType::f32, {1, 1});
      }
    }
  }
}

// More than one panel in each direction; bf16 sums are then in scratch that all workers share.
TEST_F(PackedProducts, SeveralPanels) {
  for (int layout = 0; layout < 4; ++layout) {
    for (const Types& types : all_types()) {
      const bool ta = layout / 2 != 0, tb = layout % 2 != 0;
      check({1100, 20, 30, ta, tb, true}, types, true, types.inputs, {128, 192});
      check({20, 1300, 30, ta, tb, false}, types, true, types.inputs, {128, 192});
      check({20, 70, 2500, ta, tb, true}, types, true, types.inputs, {128, 192});
    }
  }
  for (const Types& types : all_types()) {
    check({1030, 40, 1200, true, false, true}, types, true, DType::bf16, {256, 384});
    check({40, 1160, 1200, true, false, true}, types, true, DType::bf16, {256, 384});
  }
  check({1030, 1160, 1200, true, false, true}, {DType::bf16, DType::bf16}, true, DType::bf16, {256, 384});
}

TEST_F(PackedProducts, BitsDependOnNeitherSlicesNorThreads) {
  const GemmShape shape{150, 200, 900, false, true, true};
  for (const Types& types : all_types()) {
    std::vector<std::byte> first;
    for (const Slices& slices : {Slices{8, 48}, Slices{128, 192}, Slices{100000, 100000}}) {
      for (int threads : {1, 2, 3, 12}) {
        PackedProduct product(shape, types, true, types.inputs);
        const PackedGemm gemm(shape, product.arguments(), slices.rows, slices.cols, types.unit);
        Workers workers(threads);
        workers.reserve(gemm.scratch());
        gemm.run(workers);
        if (first.empty()) first = product.c.bytes();
        EXPECT_EQ(product.c.bytes(), first)
            << trace_of(shape, types, true) << " by " << slices.rows << "x" << slices.cols << " on " << threads;
      }
    }
  }
}

// An element's bits don't depend on the rows or columns around it: a slice of a batch gives the same bits alone.
TEST_F(PackedProducts, AnElementDependsOnItsRowAndColumnOnly) {
  const GemmShape whole{40, 60, 500}, part{40, 60 - 48, 500};
  for (const Types& types : all_types()) {
    PackedProduct product(whole, types, false, DType::f32);
    Tensor c(types.output, part.m, part.n);
    const PackedGemm first(whole, product.arguments(), 128, 192, types.unit);
    const PackedGemm second(part, {product.a.view(), product.b.columns(48, part.n), c.view(), {}}, 128, 192,
                            types.unit);
    Workers workers(2);
    workers.reserve(first.scratch());
    workers.reserve(second.scratch());
    first.run(workers);
    second.run(workers);
    const Values all = product.c.values(), some = c.values();
    for (std::int64_t i = 0; i < part.m; ++i) {
      for (std::int64_t j = 0; j < part.n; ++j) {
        EXPECT_EQ(some[static_cast<std::size_t>(i * part.n + j)], all[static_cast<std::size_t>(i * whole.n + j + 48)])
            << trace_of(whole, types, false);
      }
    }
  }
}

TEST_F(PackedProducts, BPackedBeforehandGivesTheSameBits) {
  for (int layout = 0; layout < 4; ++layout) {
    for (const Types& types : all_types()) {
      for (const auto& [m, n, k] :
           std::vector<std::array<std::int64_t, 3>>{{33, 130, 70}, {20, 1300, 800}, {9, 49, 2500}, {1030, 50, 11}}) {
        const GemmShape shape{m, n, k, layout / 2 != 0, layout % 2 != 0, layout == 1};
        SCOPED_TRACE(trace_of(shape, types, true));
        PackedProduct product(shape, types, true, types.inputs), same(shape, types, true, types.inputs);
        const PackedGemm usual(shape, product.arguments(), 8, 96, types.unit);
        // The memory before and after must not be touched by packing.
        const DType packed_dtype = packed_b_dtype(types.unit);
        const auto bytes = static_cast<std::size_t>(packed_b_elements(shape)) * size_of(packed_dtype);
        std::vector<float> packed(bytes / sizeof(float) + 32, -7.0F);
        auto* begin = reinterpret_cast<std::byte*>(packed.data() + 16);
        GemmArguments arguments = same.arguments();
        arguments.b.data = nullptr;
        arguments.packed_b = begin;
        const PackedGemm given(shape, arguments, 8, 96, types.unit);
        EXPECT_LT(given.scratch().shared_bytes, usual.scratch().shared_bytes);
        Workers workers(2);
        workers.reserve(usual.scratch());
        usual.run(workers);
        pack_gemm_b(workers, shape, same.b.view(), begin, types.unit);
        given.run(workers);
        EXPECT_EQ(product.c.bytes(), same.c.bytes());
        for (std::size_t i = 0; i < 16; ++i) {
          EXPECT_EQ(packed[i], -7.0F);
          EXPECT_EQ(packed[packed.size() - 1 - i], -7.0F);
        }
      }
    }
  }
  PackedProduct product({8, 8, 8}, {DType::f32, DType::f32}, false, DType::f32);
  GemmArguments arguments = product.arguments();
  arguments.packed_b = static_cast<std::byte*>(product.b.view().data);
  EXPECT_THROW(PreparedGemm(product.shape, arguments, {Engine::sgemm, 8, 8}), std::logic_error);
}

// Scratch is bounded for any size of product.
TEST_F(PackedProducts, ScratchStaysSmall) {
  Tensor one(DType::f32, 1, 1), half(DType::bf16, 1, 1);
  for (const GemmShape& shape : {GemmShape{1024, 50257, 768, false, true}, GemmShape{1024, 768, 50257},
                                 GemmShape{50257, 768, 1024, true, false}, GemmShape{100000, 100000, 100000}}) {
    for (const Types& types : all_types()) {
      if (types.inputs != types.output) continue;
      Tensor& tensor = types.inputs == DType::f32 ? one : half;
      for (const std::int64_t rows : {256, 100000}) {
        const PackedGemm gemm(shape, {tensor.view(), tensor.view(), tensor.view(), {}}, rows, 384, types.unit);
        EXPECT_LE(gemm.scratch().shared_bytes, 16U << 20);
        EXPECT_LE(gemm.scratch().worker_bytes, (rows == 256 ? 1U : 3U) << 20);
      }
    }
  }
}

// The packed method of a product uses the given unit, whatever the CPU's widest unit is.
TEST_F(PackedProducts, UseTheUnitThatIsAskedFor) {
  const GemmShape shape{70, 50, 90, false, true};
  for (const Types& types : all_types()) {
    if (!has_unit(types.unit)) continue;
    SCOPED_TRACE(to_string(types.unit));
    EXPECT_EQ(packed_b_dtype(types.unit), types.unit == PackedUnit::f32 ? DType::f32 : DType::bf16);
    PackedProduct product(shape, types, true, types.inputs), same(shape, types, true, types.inputs);
    const PackedGemm expected(shape, product.arguments(), 64, 96, types.unit);
    const PreparedGemm gemm(shape, same.arguments(), {Engine::packed, 64, 96}, types.unit);
    Workers workers(1);
    workers.reserve(expected.scratch());
    workers.reserve(gemm.scratch());
    expected.run(workers);
    gemm.run(workers);
    EXPECT_EQ(same.c.bytes(), product.c.bytes());
  }
}

}  // namespace
}  // namespace weft::cpu
