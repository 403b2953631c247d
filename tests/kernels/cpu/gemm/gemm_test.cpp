// Matrix products against double precision: layouts, strides, bias, accumulation, engines, slices.
#include "kernels/cpu/gemm/gemm.h"

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>

#include "tests/kernels/reference.h"

namespace weft::cpu {
namespace {

using testing::Tensor;
using testing::Values;
using Engine = GemmMethod::Engine;

constexpr std::array kEngines = {Engine::sgemm, Engine::matmul, Engine::packed};

// The engine's method with the usual slices.
GemmMethod usual_method(Engine engine, const GemmShape& shape, GemmLayout layout = GemmLayout::own) {
  const GemmSlices slices = gemm_slices(shape.m, shape.n, shape.k);
  return {engine, slices.rows, slices.cols, layout};
}

struct Case {
  GemmShape shape;
  DType inputs = DType::f32, output = DType::f32;
  bool bias = false;
  std::int64_t padding = 0;
  Engine engine = Engine::sgemm;
  GemmLayout layout = GemmLayout::own;

  GemmMethod method() const { return usual_method(engine, shape, layout); }
};

/// Does nothing if this CPU has no method for the case.
void check(const Case& test) {
  const GemmShape& s = test.shape;
  if (!can_run(test.method(), s, test.inputs, test.output)) return;
  SCOPED_TRACE(::testing::Message() << s.m << "x" << s.n << "x" << s.k << " trans " << s.trans_a << s.trans_b << " acc "
                                    << s.accumulate << " bias " << test.bias << " " << to_string(test.inputs) << "->"
                                    << to_string(test.output) << " by " << to_string(test.method()));
  Tensor a = Tensor::random(test.inputs, s.trans_a ? s.k : s.m, s.trans_a ? s.m : s.k, 1, 1.0, test.padding);
  Tensor b = Tensor::random(test.inputs, s.trans_b ? s.n : s.k, s.trans_b ? s.k : s.n, 2, 1.0, 2 * test.padding);
  Tensor bias = Tensor::random(test.inputs, 1, s.n, 3);
  Tensor c = s.accumulate ? Tensor::random(test.output, s.m, s.n, 4, 1.0, test.padding)
                          : Tensor(test.output, s.m, s.n, test.padding);
  const Values before = c.values(), bias_values = bias.values();
  const Values expected =
      testing::product_in_double(s, a.values(), b.values(), test.bias ? &bias_values : nullptr, before);
  GemmArguments arguments{a.view(), b.view(), c.view(), {}};
  if (test.bias) arguments.bias = bias.view();
  const PreparedGemm gemm(s, arguments, test.method());
  testing::run_on_one_and_three_threads(gemm.scratch(), {&c}, [&](Workers& workers) { gemm.run(workers); });
  const double rounding = 1e-6 * std::sqrt(static_cast<double>(s.k)) + 1e-5;
  testing::expect_close(c.values(), expected, testing::tolerance_of(test.output, rounding));
}

TEST(Gemm, AllLayoutsWithBiasAndAccumulation) {
  for (bool trans_a : {false, true}) {
    for (bool trans_b : {false, true}) {
      for (bool accumulate : {false, true}) {
        for (bool bias : {false, true}) {
          for (Engine engine : kEngines) {
            check({{37, 51, 29, trans_a, trans_b, accumulate}, DType::f32, DType::f32, bias, 5, engine});
            check({{37, 51, 29, trans_a, trans_b, accumulate}, DType::bf16, DType::bf16, bias, 5, engine});
            check({{37, 51, 29, trans_a, trans_b, accumulate}, DType::bf16, DType::f32, bias, 0, engine});
          }
        }
      }
    }
  }
}

TEST(Gemm, SeveralSlicesInBothDirections) {
  const std::int64_t m = 260, n = 500, k = 130;
  const GemmSlices slices = gemm_slices(m, n, k);
  ASSERT_GT(slices.row_blocks * slices.col_blocks, 2);
  for (bool trans_a : {false, true}) {
    check({{m, n, k, trans_a, !trans_a, true}, DType::f32, DType::f32, true, 3});
    check({{m, n, k, trans_a, false, false}, DType::bf16, DType::bf16, true, 3});
    check({{m, n, k, trans_a, true, true}, DType::bf16, DType::f32, false, 0, Engine::matmul});
  }
}

// Every engine with every layout of every product, in one slice and in several.
TEST(Gemm, OperandsCopiedTransposed) {
  for (GemmLayout layout : {GemmLayout::nn, GemmLayout::nt, GemmLayout::tn}) {
    for (int bits = 0; bits < 8; ++bits) {
      const bool trans_a = (bits & 1) != 0, trans_b = (bits & 2) != 0, accumulate = (bits & 4) != 0;
      for (Engine engine : {Engine::sgemm, Engine::matmul}) {
        const GemmShape small{37, 51, 29, trans_a, trans_b, accumulate};
        check({small, DType::f32, DType::f32, true, 5, engine, layout});
        check({small, DType::bf16, DType::bf16, !accumulate, 5, engine, layout});
        check({small, DType::bf16, DType::f32, false, 0, engine, layout});
      }
      check({{260, 500, 130, trans_a, trans_b, accumulate}, DType::f32, DType::f32, true, 3, Engine::sgemm, layout});
      check({{260, 500, 130, trans_a, trans_b, accumulate}, DType::f32, DType::f32, true, 3, Engine::matmul, layout});
    }
  }
  check({{1, 70, 40, false, true}, DType::f32, DType::f32, true, 0, Engine::sgemm, GemmLayout::nn});
  check({{70, 1, 40, false, true}, DType::bf16, DType::bf16, true, 0, Engine::sgemm, GemmLayout::tn});
  check({{1, 1, 1}, DType::f32, DType::f32, false, 0, Engine::matmul, GemmLayout::nt});
}

// fp32 products use scratch only for the copies, which are made again in every run.
TEST(Gemm, CopiesAreMadeInEveryRun) {
  const GemmShape shape{100, 90, 80, false, true};
  Tensor a = Tensor::random(DType::f32, 100, 80, 1), b = Tensor::random(DType::f32, 90, 80, 2);
  Tensor c(DType::f32, 100, 90);
  const GemmArguments arguments{a.view(), b.view(), c.view(), {}};
  for (const Engine engine : {Engine::sgemm, Engine::matmul}) {
    const PreparedGemm gemm(shape, arguments, usual_method(engine, shape, GemmLayout::tn));
    EXPECT_GE(gemm.scratch().shared_bytes, sizeof(float) * (100 * 80 + 90 * 80));
    EXPECT_EQ(PreparedGemm(shape, arguments, usual_method(engine, shape)).scratch().shared_bytes, 0U);
    Workers workers(2);
    workers.reserve(gemm.scratch());
    for (std::uint32_t seed : {3U, 4U}) {
      b.assign(testing::normal_values(90 * 80, seed));
      gemm.run(workers);
      testing::expect_close(c.values(), testing::product_in_double(shape, a.values(), b.values(), nullptr, {}),
                            {1e-5, 1e-4});
    }
  }
  EXPECT_THROW(PreparedGemm(shape, arguments, usual_method(Engine::packed, shape, GemmLayout::nn)), std::logic_error);
  EXPECT_THROW(PreparedGemm(shape, arguments, usual_method(Engine::sgemm, shape, GemmLayout::nt)), std::logic_error);
}

// Deep products, which are converted in steps; a row, a column or an element; few rows; a wide matrix in several
// slices.
TEST(Gemm, OfExtremeShapes) {
  const std::vector<GemmShape> shapes = {{20, 24, 1300, false, true},
                                         {20, 24, 1300, true, false, true},
                                         {1, 70, 40, false, true},
                                         {70, 1, 40, false, true},
                                         {5, 6, 1},
                                         {1, 1, 1},
                                         {2, 90, 77, false, true},
                                         {2, 90, 77, false, true, true},
                                         {4, 90, 77, false, true},
                                         {4, 90, 77, false, true, true},
                                         {5, 90, 77, false, true},
                                         {1, 5000, 96, false, true}};
  for (const GemmShape& shape : shapes) {
    for (const Engine engine : kEngines) {
      for (const bool bias : {false, true}) {
        check({shape, DType::f32, DType::f32, bias, 0, engine});
        check({shape, DType::bf16, DType::bf16, bias, 3, engine});
        check({shape, DType::bf16, DType::f32, bias, 3, engine});
      }
    }
  }
}

// Slices cover C exactly once. A small product has few, a large one about eight, and their number is bounded.
TEST(Gemm, SlicesFollowTheShape) {
  for (std::int64_t m : {1, 8, 63, 64, 65, 256, 1000, 4096}) {
    for (std::int64_t n : {1, 7, 100, 768, 3072, 50257}) {
      for (std::int64_t k : {1, 64, 768, 3072}) {
        const GemmSlices s = gemm_slices(m, n, k);
        const auto trace = ::testing::Message() << m << "x" << n << "x" << k;
        EXPECT_GE(s.rows * s.row_blocks, m) << trace;
        EXPECT_LT(s.rows * (s.row_blocks - 1), m) << trace;
        EXPECT_GE(s.cols * s.col_blocks, n) << trace;
        EXPECT_LT(s.cols * (s.col_blocks - 1), n) << trace;
        EXPECT_TRUE(s.row_blocks == 1 || s.rows >= 64) << trace;
      }
    }
  }
  EXPECT_EQ(gemm_slices(32, 32, 32).row_blocks * gemm_slices(32, 32, 32).col_blocks, 1);
  const GemmSlices usual = gemm_slices(1024, 768, 768);
  EXPECT_GE(usual.row_blocks * usual.col_blocks, 8);
  EXPECT_LE(usual.row_blocks * usual.col_blocks, 12);
  EXPECT_GT(gemm_slices(1, 50304, 768).col_blocks, 4);
  const GemmSlices head = gemm_slices(4096, 50304, 768);
  EXPECT_GE(head.row_blocks * head.col_blocks, 200);
}

TEST(Gemm, RefusesMixedInputs) {
  Tensor f32(DType::f32, 4, 4), b16(DType::bf16, 4, 4);
  EXPECT_THROW(PreparedGemm({4, 4, 4}, {f32.view(), b16.view(), f32.view(), {}}), std::logic_error);
  EXPECT_THROW(PreparedGemm({4, 4, 4}, {f32.view(), f32.view(), b16.view(), {}}), std::logic_error);
}

TEST(Gemm, TilesOfStridedViews) {
  Tensor a = Tensor::random(DType::f32, 9, 5, 1, 1.0, 2), b = Tensor::random(DType::f32, 7, 5, 2, 1.0, 4);
  Tensor c(DType::f32, 9, 7, 1);
  const Values expected = testing::product_in_double({9, 7, 5, false, true}, a.values(), b.values(), nullptr, {});
  multiply_tiles(false, true, 9, 7, 5, a.view().f32(), 7, b.view().f32(), 9, 0.0F, c.view().f32(), 8);
  testing::expect_close(c.values(), expected, {1e-5, 1e-5});
  EXPECT_TRUE(c.padding_untouched());
}

}  // namespace
}  // namespace weft::cpu
