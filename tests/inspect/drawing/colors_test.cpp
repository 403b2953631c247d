#include "inspect/drawing/colors.h"

#include <gtest/gtest.h>

#include <set>

namespace weft::inspect {
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
  EXPECT_EQ(graph::kind_class(graph::Gemm{1, 1, 1}), graph::KindClass::gemm);
  EXPECT_EQ(graph::kind_class(graph::AttentionDecode{}), graph::KindClass::attention);
  EXPECT_EQ(graph::kind_class(graph::AllGather{graph::Channel::z_gather, 2, 4}), graph::KindClass::all_gather);
  EXPECT_EQ(graph::kind_class(graph::ReduceScatter{graph::Channel::z_scatter, 2, 4}), graph::KindClass::reduce_scatter);
  EXPECT_EQ(graph::kind_class(graph::AllReduce{graph::Channel::x, 2, 4}), graph::KindClass::all_reduce);
  EXPECT_EQ(graph::kind_class(graph::Broadcast{}), graph::KindClass::copy);
  EXPECT_EQ(graph::kind_class(graph::PackWeight{}), graph::KindClass::copy);
  EXPECT_EQ(graph::kind_class(graph::ClipFactor{}), graph::KindClass::optimizer);
  EXPECT_EQ(style_of(graph::Operation(graph::CrossEntropy{})).fill, "#009E73");
}

TEST(Colors, NeighbouringStreamsDiffer) {
  EXPECT_NE(stream_color(0), stream_color(1));
  EXPECT_EQ(stream_color(0), stream_color(8));
}

}  // namespace
}  // namespace weft::inspect
