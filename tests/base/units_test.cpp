#include "base/units.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "base/error.h"

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

TEST(Bytes, AreReadWithTheirUnits) {
  EXPECT_EQ(parse_bytes("37GiB", "memory"), 37LL << 30);
  EXPECT_EQ(parse_bytes("1.5 TiB", "memory"), 3LL << 39);
  EXPECT_EQ(parse_bytes("40GB", "memory"), 40'000'000'000);
  EXPECT_EQ(parse_bytes("12mib", "memory"), 12 << 20);
  EXPECT_EQ(parse_bytes("4096", "memory"), 4096);
  EXPECT_EQ(parse_bytes("7B", "memory"), 7);
  for (const char* wrong : {"", "GiB", "-1GiB", "0", "1e30", "nan", "inf", "37 gigs", "37G", "1GiBs", "2 EiB"}) {
    EXPECT_THROW(parse_bytes(wrong, "memory"), UserError) << wrong;
  }
}

TEST(Bytes, AreWrittenSoThatTheyReadBack) {
  EXPECT_EQ(exact_bytes(37LL << 30), "37GiB");
  EXPECT_EQ(exact_bytes(1536), "1536B");
  EXPECT_EQ(exact_bytes(3LL << 39), "1536GiB");
  for (const std::int64_t bytes : {1LL, 1000LL, 1LL << 60, 40'000'000'000LL}) {
    EXPECT_EQ(parse_bytes(exact_bytes(bytes), "memory"), bytes);
  }
}

TEST(Human, PrefixesOfUnits) {
  EXPECT_EQ(with_prefix(0, "s"), "0 s");
  EXPECT_EQ(with_prefix(5.9e-6, "s"), "5.9 us");
  EXPECT_EQ(with_prefix(-1500, "B/s"), "-1.5 kB/s");
  EXPECT_EQ(with_prefix(1.23456e18, "flop/s"), "1.235 Eflop/s");
  EXPECT_EQ(with_prefix(5e21, "flop/s"), "5000 Eflop/s");
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

TEST(ParseNumber, TakesItsRangeWithTheBounds) {
  EXPECT_EQ(parse_number<std::int64_t>("1", "n", 1, 4), 1);
  EXPECT_EQ(parse_number<std::int64_t>("4", "n", 1, 4), 4);
  EXPECT_EQ(parse_number<double>("2.5e-1", "n", 0, 1), 0.25);
  EXPECT_FALSE(std::signbit(parse_number<float>("-0", "n", 0, 1)));
}

TEST(ParseNumber, RefusesTheRest) {
  for (const char* value : {"", "0", "5", "1x", " 1", "1.0", "9223372036854775808"}) {
    EXPECT_THROW(parse_number<std::int64_t>(value, "n", 1, 4), UserError) << value;
  }
  for (const char* value : {"nan", "inf", "1e400", "0,5", "-1"}) {
    EXPECT_THROW(parse_number<double>(value, "n", 0, 1), UserError) << value;
  }
}

}  // namespace
}  // namespace weft
