#include "base/hash.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(HexFingerprint, IsReadAsItIsWritten) {
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{0xab}, UINT64_MAX}) {
    EXPECT_EQ(parse_hex_fingerprint(hex_fingerprint(value)), value);
  }
  EXPECT_EQ(hex_fingerprint(0xab), "0x00000000000000ab");
}

TEST(HexFingerprint, IsWrittenInOneWay) {
  for (const char* text : {"", "0x", "0xab", "0x00000000000000AB", "0X00000000000000ab", "00000000000000ab",
                           "0x00000000000000ag", "0x000000000000000ab", "0x00000000000000ab "}) {
    EXPECT_FALSE(parse_hex_fingerprint(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace weft
