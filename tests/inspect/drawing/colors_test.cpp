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

TEST(Colors, NeighbouringStreamsDiffer) {
  EXPECT_NE(stream_color(0), stream_color(1));
  EXPECT_EQ(stream_color(0), stream_color(8));
}

}  // namespace
}  // namespace weft::inspect
