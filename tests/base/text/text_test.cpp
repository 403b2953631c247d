#include "base/text/text.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Text, QuantitiesGetTheLargestUnitBelowThem) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(3.0 * 1024 * 1024 * 1024), "3.0 GiB");
  EXPECT_EQ(format_flops(2.5e9), "2.5 Gflop");
  EXPECT_EQ(format_flops(999), "999 flop");
  EXPECT_EQ(format_flops(5e18), "5000.0 Pflop");
}

TEST(Text, XmlHasNoReservedOrForbiddenCharacters) {
  EXPECT_EQ(xml_escaped("a<b> & \"c\"\x01 é"), "a&lt;b&gt; &amp; &quot;c&quot;  é");
  EXPECT_EQ(xml_escaped(""), "");
}

}  // namespace
}  // namespace weft
