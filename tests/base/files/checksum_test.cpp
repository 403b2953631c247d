// CRC-32C against published values, also when computed in pieces.
#include "base/files/checksum.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace weft {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Crc32c, OfPublishedVectors) {
  EXPECT_EQ(Crc32c().text(), "00000000");
  EXPECT_EQ(Crc32c().add(bytes_of("123456789")).text(), "e3069283");
  // RFC 3720, B.4: 32 bytes of zeros, of ones, and 0 to 31.
  std::vector<std::byte> data(32, std::byte{0});
  EXPECT_EQ(Crc32c().add(data).value(), 0x8a9136aaU);
  data.assign(32, std::byte{0xff});
  EXPECT_EQ(Crc32c().add(data).value(), 0x62a8ab43U);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i);
  EXPECT_EQ(Crc32c().add(data).value(), 0x46dd794eU);
}

TEST(Crc32c, DoesNotDependOnHowTheBytesAreCut) {
  const std::string_view text = "a text of an odd length, longer than some words of eight bytes each";
  const std::uint32_t whole = Crc32c().add(bytes_of(text)).value();
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(Crc32c().add(bytes_of(text.substr(0, cut))).add(bytes_of(text.substr(cut))).value(), whole) << cut;
  }
}

}  // namespace
}  // namespace weft
