// Names of methods, the methods by which a product can run, and their slices.
#include "kernels/cpu/gemm/gemm_method.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace weft::cpu {
namespace {

using Engine = GemmMethod::Engine;

TEST(GemmMethod, NamesAreReadBack) {
  EXPECT_EQ(to_string(GemmMethod{Engine::sgemm, 128, 768}), "sgemm 128x768");
  EXPECT_EQ(to_string(GemmMethod{Engine::matmul, 1, 50257}), "matmul 1x50257");
  EXPECT_EQ(to_string(GemmMethod{Engine::packed, 128, 192}), "packed 128x192");
  EXPECT_EQ(to_string(GemmMethod{Engine::sgemm, 128, 768, GemmLayout::tn}), "sgemm 128x768 tn");
  for (Engine engine : {Engine::sgemm, Engine::matmul, Engine::packed}) {
    for (std::int64_t rows : {1LL, 96LL, 9223372036854775807LL}) {
      for (GemmLayout layout : {GemmLayout::own, GemmLayout::nn, GemmLayout::nt, GemmLayout::tn}) {
        const GemmMethod method{engine, rows, 48, layout};
        EXPECT_EQ(parse_gemm_method(to_string(method)), method);
      }
    }
  }
}

TEST(GemmMethod, OtherSpellingsAreRefused) {
  for (std::string_view text : {"",
                                "sgemm",
                                "sgemm 1x",
                                "sgemm x1",
                                "sgemm 0x1",
                                "sgemm 1x0",
                                "sgemm -1x1",
                                "sgemm 01x1",
                                "sgemm  1x1",
                                " sgemm 1x1",
                                "sgemm 1x1 ",
                                "sgemm 1x1x1",
                                "SGEMM 1x1",
                                "sgemms 1x1",
                                "sgemm 1.5x1",
                                "sgemm 9223372036854775808x1",
                                "unknown 1x1",
                                "sgemm 1x1 tt",
                                "sgemm 1x1tn",
                                "sgemm 1x1 nn nt",
                                "sgemm tn 1x1"}) {
    EXPECT_FALSE(parse_gemm_method(text)) << text;
  }
  EXPECT_FALSE(parse_gemm_method(std::string_view("sgemm 1x1\0", 10)));
}

TEST(GemmMethod, TheDefaultStandsFirstAndAllCanRun) {
  for (const auto& [inputs, bf16] :
       {std::pair{DType::f32, PackedUnit::f32}, {DType::bf16, PackedUnit::f32}, {DType::bf16, widest_bf16_unit()}}) {
    for (const GemmShape& shape : {GemmShape{1, 1, 1}, GemmShape{1, 50257, 768, false, true}, GemmShape{37, 51, 29},
                                   GemmShape{1024, 768, 3072, false, true}, GemmShape{50257, 768, 1024, true, false},
                                   GemmShape{256, 50257, 768, false, true}}) {
      const std::vector<GemmMethod> methods = gemm_methods(shape, inputs, inputs, bf16);
      const auto trace = ::testing::Message() << shape.m << "x" << shape.n << "x" << shape.k;
      ASSERT_FALSE(methods.empty()) << trace;
      EXPECT_LE(methods.size(), 30U) << trace;
      EXPECT_EQ(methods.front(), default_gemm_method(shape, inputs, inputs, bf16)) << trace;
      for (const GemmMethod& method : methods) {
        EXPECT_EQ(std::ranges::count(methods, method), 1) << trace << " " << to_string(method);
        EXPECT_TRUE(can_run(method, shape, inputs, inputs)) << trace << " " << to_string(method);
      }
    }
  }
}

TEST(GemmMethod, WhereTheLibraryLagsThePackedEngineIsTheDefault) {
  if (!bf16_in_pairs()) GTEST_SKIP() << "this CPU has no AVX512_BF16, or AMX";
  const auto engine = [](const GemmShape& shape) { return default_gemm_method(shape, DType::f32, DType::f32).engine; };
  EXPECT_EQ(engine({256, 768, 3072}), Engine::sgemm);
  EXPECT_EQ(engine({256, 2048, 3072}), Engine::packed) << "rows of B 8 KB apart";
  EXPECT_EQ(engine({255, 2048, 3072}), Engine::sgemm) << "too few rows to amortise the packing";
  EXPECT_EQ(engine({256, 768, 50257}), Engine::packed) << "many rows of B";
  EXPECT_EQ(engine({256, 2048, 50257, true}), Engine::sgemm);
  EXPECT_EQ(engine({16, 768, 768, false, true}), Engine::packed) << "B transposed";
}

// The library would first convert a slice's operands and then pack them.
TEST(GemmMethod, WhatIsConvertedIsPackedOnce) {
  for (const GemmShape& shape : {GemmShape{64, 768, 768, false, true}, GemmShape{1024, 768, 3072},
                                 GemmShape{3072, 768, 1024, true}, GemmShape{50257, 768, 64, true}}) {
    EXPECT_EQ(default_gemm_method(shape, DType::bf16, DType::bf16, PackedUnit::f32).engine, Engine::packed);
  }
  EXPECT_EQ(default_gemm_method({4, 768, 768, false, true}, DType::bf16, DType::bf16, PackedUnit::f32).engine,
            Engine::sgemm);
}

// fp32 products don't depend on the unit for bf16.
TEST(GemmMethod, Fp32StaysWhatItIs) {
  for (const GemmShape& shape :
       {GemmShape{256, 768, 3072}, GemmShape{256, 2048, 3072}, GemmShape{16, 8, 8, false, true}}) {
    for (const auto& [name, unit] : kPackedUnits) {
      EXPECT_EQ(default_gemm_method(shape, DType::f32, DType::f32, unit),
                default_gemm_method(shape, DType::f32, DType::f32))
          << name;
    }
  }
}

std::vector<std::string> layouts_of(const GemmShape& shape, DType inputs, Engine engine) {
  std::vector<std::string> layouts;
  for (const GemmMethod& method : gemm_methods(shape, inputs, inputs)) {
    const std::string name(layout_suffix(method.layout));
    if (method.engine == engine && !name.empty()) layouts.push_back(name.substr(1));
  }
  return layouts;
}

TEST(GemmMethod, OtherLayoutsOfLargeProductsAreTried) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(layouts_of({1024, 768, 3072, false, true}, DType::f32, Engine::sgemm), (Names{"nn", "tn"}));
  EXPECT_EQ(layouts_of({1024, 768, 3072, false, true}, DType::f32, Engine::matmul), (Names{"nn", "tn"}));
  EXPECT_EQ(layouts_of({1024, 768, 3072}, DType::f32, Engine::sgemm), (Names{"nt", "tn"}));
  EXPECT_EQ(layouts_of({768, 3072, 1024, true}, DType::f32, Engine::sgemm), (Names{"nn", "nt"}));
  EXPECT_EQ(layouts_of({768, 3072, 1024, true, true}, DType::bf16, Engine::sgemm), (Names{"nn", "nt", "tn"}));
  EXPECT_EQ(layouts_of({1024, 768, 3072, false, true}, DType::f32, Engine::packed), Names{});
  // B would be copied for only eight rows.
  EXPECT_EQ(layouts_of({8, 50257, 768, false, true}, DType::f32, Engine::sgemm), Names{});
  EXPECT_EQ(layouts_of({64, 64, 64, false, true}, DType::f32, Engine::sgemm), Names{});
}

TEST(GemmMethod, LayoutsThatCannotRun) {
  const GemmShape nt{256, 768, 768, false, true};
  EXPECT_TRUE(can_run({Engine::sgemm, 64, 96, GemmLayout::nn}, nt, DType::f32, DType::f32));
  EXPECT_TRUE(can_run({Engine::sgemm, 64, 96, GemmLayout::tn}, nt, DType::bf16, DType::f32));
  EXPECT_FALSE(can_run({Engine::sgemm, 64, 96, GemmLayout::nt}, nt, DType::f32, DType::f32))
      << "two names for one layout";
  EXPECT_FALSE(can_run({Engine::packed, 64, 96, GemmLayout::nn}, nt, DType::f32, DType::f32));
  EXPECT_FALSE(can_run({Engine::sgemm, 1 << 20, 1 << 20, GemmLayout::nn}, {4, 1 << 20, 1 << 20, false, true},
                       DType::f32, DType::f32));
}

TEST(GemmMethod, AbsurdSlicesCannotRun) {
  const GemmShape shape{50257, 50257, 8};
  EXPECT_TRUE(can_run({Engine::sgemm, 1LL << 62, 1LL << 62}, shape, DType::f32, DType::f32));
  EXPECT_TRUE(can_run({Engine::sgemm, 1024, 1024}, shape, DType::f32, DType::f32));
  EXPECT_FALSE(can_run({Engine::sgemm, 1, 1}, shape, DType::f32, DType::f32));
  EXPECT_FALSE(can_run({Engine::matmul, 50257, 1}, shape, DType::f32, DType::f32));
  EXPECT_FALSE(can_run({Engine::sgemm, 0, 1}, shape, DType::f32, DType::f32));
  EXPECT_TRUE(can_run({Engine::packed, 8, 48}, shape, DType::f32, DType::f32));
  EXPECT_FALSE(can_run({Engine::packed, 8, 0}, shape, DType::f32, DType::f32));
  EXPECT_FALSE(can_run({Engine::sgemm, 64, -64}, shape, DType::f32, DType::f32));
}

}  // namespace
}  // namespace weft::cpu
