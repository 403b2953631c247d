#include "base/text/units.h"

#include <gtest/gtest.h>

#include <cmath>

namespace weft {
namespace {

TEST(Units, QuantitiesGetTheLargestUnitBelowThem) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(3.0 * 1024 * 1024 * 1024), "3.0 GiB");
  EXPECT_EQ(format_flops(2.5e9), "2.5 Gflop");
  EXPECT_EQ(format_flops(999), "999 flop");
  EXPECT_EQ(format_flops(5e18), "5000.0 Pflop");
}

TEST(Human, Counts) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(950), "950");
  EXPECT_EQ(human_count(0.5), "0.50");
  EXPECT_EQ(human_count(1000), "1.00K");
  EXPECT_EQ(human_count(61234), "61.2K");
  EXPECT_EQ(human_count(612345), "612K");
  EXPECT_EQ(human_count(999'600), "1.00M");
  EXPECT_EQ(human_count(124'439'808), "124M");
  EXPECT_EQ(human_count(2.5e9), "2.50G");
  EXPECT_EQ(human_count(1.5e16), "15000T");
}

TEST(Human, Bytes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_bytes(13'421'772'800), "12.5 GiB");
}

TEST(Human, Durations) {
  EXPECT_EQ(human_duration(0.4), "0:00");
  EXPECT_EQ(human_duration(59.6), "1:00");
  EXPECT_EQ(human_duration(3725), "1:02:05");
  EXPECT_EQ(human_duration(100'000), "1d 03:46:40");
  EXPECT_EQ(human_duration(-1), "?");
  EXPECT_EQ(human_duration(NAN), "?");
  EXPECT_EQ(human_duration(INFINITY), "?");
}

}  // namespace
}  // namespace weft
