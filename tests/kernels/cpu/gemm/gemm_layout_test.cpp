// Layouts of products: their names, the copies that they need, and the copies' positions in scratch.
#include "kernels/cpu/gemm/gemm_layout.h"

#include <gtest/gtest.h>

namespace weft::cpu {
namespace {

constexpr GemmLayout kLayouts[] = {GemmLayout::own, GemmLayout::nn, GemmLayout::nt, GemmLayout::tn};

TEST(GemmLayout, SuffixesAreTakenBack) {
  for (const GemmLayout layout : kLayouts) {
    const std::string name = "a method" + std::string(layout_suffix(layout));
    std::string_view rest = name;
    EXPECT_EQ(take_layout_suffix(rest), layout);
    EXPECT_EQ(rest, "a method");
  }
  for (const std::string_view name : {"", "nn", "x tt", "x nn ", "x NN"}) {
    std::string_view rest = name;
    EXPECT_EQ(take_layout_suffix(rest), GemmLayout::own) << name;
    EXPECT_EQ(rest, name);
  }
}

TEST(GemmLayout, CopiesAreOfWhatLiesOtherwise) {
  const GemmShape nt{100, 50, 30, false, true, true};
  const GemmShape shown = shown_as(GemmLayout::tn, nt);
  EXPECT_EQ(shown, (GemmShape{100, 50, 30, true, false, true}));
  const GemmCopies both = copies_for(GemmLayout::tn, nt, DType::f32);
  ASSERT_TRUE(both.a && both.b);
  EXPECT_EQ(both.a->matrix.rows, 30);
  EXPECT_EQ(both.a->matrix.cols, 100);
  EXPECT_EQ(both.b->matrix.rows, 30);
  EXPECT_EQ(both.b->matrix.cols, 50);
  const GemmCopies one = copies_for(GemmLayout::nn, nt, DType::bf16);
  EXPECT_FALSE(one.a);
  ASSERT_TRUE(one.b);
  EXPECT_EQ(one.b->offset, 0);
  EXPECT_EQ(one.b->matrix.dtype, DType::bf16);
  EXPECT_EQ(copies_for(GemmLayout::own, nt, DType::f32).bytes, 0);
  EXPECT_EQ(copies_for(GemmLayout::nt, nt, DType::f32).bytes, 0);
}

TEST(GemmLayout, CopiesLieApartAndAligned) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t size : {1, 7, 64, 100, 256, 1024, 4096, 50257}) {
      const GemmShape tt{size, 33, 2 * size, true, true};
      const GemmCopies copies = copies_for(GemmLayout::nn, tt, dtype);
      ASSERT_TRUE(copies.a && copies.b);
      std::int64_t end = 0;
      for (const GemmCopy& copy : {*copies.a, *copies.b}) {
        const auto row_bytes = copy.matrix.row_stride * static_cast<std::int64_t>(size_of(dtype));
        EXPECT_GE(copy.matrix.row_stride, copy.matrix.cols);
        EXPECT_EQ(row_bytes % 128, 0);
        EXPECT_NE(row_bytes % 1024, 0);
        EXPECT_GE(copy.offset, end);
        EXPECT_EQ(copy.offset % 256, 0);
        end = copy.offset + copy.matrix.rows * row_bytes;
      }
      EXPECT_LE(end, copies.bytes);
    }
  }
}

TEST(GemmLayout, FitsWhereCopiesAreNeededAndSmall) {
  const GemmShape nt{256, 768, 768, false, true};
  EXPECT_TRUE(layout_fits(GemmLayout::own, nt, DType::f32));
  EXPECT_TRUE(layout_fits(GemmLayout::nn, nt, DType::f32));
  EXPECT_TRUE(layout_fits(GemmLayout::tn, nt, DType::f32));
  EXPECT_FALSE(layout_fits(GemmLayout::nt, nt, DType::f32));
  const GemmShape large{1024, 50257, 1600, false, true};
  EXPECT_TRUE(layout_fits(GemmLayout::nn, large, DType::bf16));
  EXPECT_FALSE(layout_fits(GemmLayout::nn, large, DType::f32));
  // Sizes that a file may hold; their product overflows 64 bits.
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  EXPECT_FALSE(layout_fits(GemmLayout::nn, {kHuge, kHuge, kHuge, false, true}, DType::f32));
  EXPECT_TRUE(layout_fits(GemmLayout::own, {kHuge, kHuge, kHuge, false, true}, DType::f32));
  // Layouts that fit also fit with padding.
  for (std::int64_t rows = 1; rows < 2000000; rows = rows * 3 + 1) {
    for (const std::int64_t cols : {1, 33, 256, 1000}) {
      const GemmShape shape{8, rows, cols, false, true};
      if (!layout_fits(GemmLayout::nn, shape, DType::bf16)) continue;
      EXPECT_LE(copies_for(GemmLayout::nn, shape, DType::bf16).bytes, (256 << 20) + 256);
    }
  }
}

TEST(GemmLayout, RulesAskForUsesOfEachCopiedElement) {
  const CopyRule rule{.least_uses = 100, .least_flops = 1e6};
  using Layouts = std::vector<GemmLayout>;
  EXPECT_EQ(other_layouts({200, 200, 200}, DType::f32, rule), (Layouts{GemmLayout::nt, GemmLayout::tn}));
  // B is used once for each row, A once for each column.
  EXPECT_EQ(other_layouts({50, 200, 200}, DType::f32, rule), (Layouts{GemmLayout::tn}));
  EXPECT_EQ(other_layouts({200, 50, 200}, DType::f32, rule), (Layouts{GemmLayout::nt}));
  EXPECT_EQ(other_layouts({200, 200, 2}, DType::f32, rule), Layouts{});
  EXPECT_EQ(other_layouts({200, 200, 200, true, true}, DType::f32, rule),
            (Layouts{GemmLayout::nn, GemmLayout::nt, GemmLayout::tn}));
}

}  // namespace
}  // namespace weft::cpu
