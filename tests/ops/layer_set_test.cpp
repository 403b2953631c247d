#include "ops/layer_set.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace weft::ops {
namespace {

LayerSet parsed(const std::string& text) {
  return parse_layers(text, "layers");
}

TEST(LayerSet, IsWrittenAsNumbersAndRanges) {
  EXPECT_EQ(to_string(LayerSet({0, 1, 2, 5, 7, 8})), "0-2,5,7-8");
  EXPECT_EQ(to_string(LayerSet()), "");
  for (const std::string text : {"", "0", "3,7-9", "1-2,4-5,9999"}) EXPECT_EQ(to_string(parsed(text)), text);
  EXPECT_EQ(to_string(parsed("1,2,3-3")), "1-3");
}

TEST(LayerSet, ContainsItsLayers) {
  const LayerSet set = parsed("3,7-9");
  for (const std::int64_t layer : {3, 7, 8, 9}) EXPECT_TRUE(set.contains(layer)) << layer;
  for (const std::int64_t layer : {0, 2, 4, 6, 10}) EXPECT_FALSE(set.contains(layer)) << layer;
  EXPECT_TRUE(LayerSet().empty());
  EXPECT_EQ(set.below(9), parsed("3,7-8"));
  EXPECT_TRUE(set.below(3).empty());
}

TEST(LayerSet, OtherTextsAreRefused) {
  for (const std::string text :
       {"x", "-1", "1-", "3,", ",3", "3,3", "5-4", "2-4,4", "10000", "1 2", "99999999999999999999"}) {
    EXPECT_THROW(parsed(text), UserError) << text;
  }
}

}  // namespace
}  // namespace weft::ops
