#include "inspect/drawing/colors.h"

#include <gtest/gtest.h>

#include <set>

namespace weft {
namespace {

TEST(Colors, TheTableIsIndexedByKindAndTellsKindsApart) {
  std::set<std::string_view> fills, names;
  for (std::size_t i = 0; i < kKindStyles.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(kKindStyles[i].kind), i);
    fills.insert(kKindStyles[i].fill);
    names.insert(kKindStyles[i].name);
  }
  EXPECT_EQ(fills.size(), kKindStyles.size());
  EXPECT_EQ(names.size(), kKindStyles.size());
}

TEST(Colors, OperationsHaveTheirKind) {
  EXPECT_EQ(kind_class(Gemm{1, 1, 1}), KindClass::gemm);
  EXPECT_EQ(kind_class(AttentionDecode{}), KindClass::attention);
  EXPECT_EQ(kind_class(AllGather{Channel::z_gather, 2, 4}), KindClass::all_gather);
  EXPECT_EQ(kind_class(ReduceScatter{Channel::z_scatter, 2, 4}), KindClass::reduce_scatter);
  EXPECT_EQ(kind_class(AllReduce{Channel::x, 2, 4}), KindClass::all_reduce);
  EXPECT_EQ(kind_class(Broadcast{}), KindClass::copy);
  EXPECT_EQ(kind_class(PackWeight{}), KindClass::copy);
  EXPECT_EQ(kind_class(ClipFactor{}), KindClass::optimizer);
  EXPECT_EQ(style_of(Operation(CrossEntropy{})).fill, "#009E73");
}

TEST(Colors, NeighbouringStreamsDiffer) {
  EXPECT_NE(stream_color(0), stream_color(1));
  EXPECT_EQ(stream_color(0), stream_color(8));
}

}  // namespace
}  // namespace weft
