#include "text/bpe/byte_alphabet.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace weft::text {
namespace {

TEST(ByteAlphabet, IsGpt2s) {
  EXPECT_EQ(byte_alphabet()['!'], '!');
  EXPECT_EQ(byte_alphabet()[0], 256);
  EXPECT_EQ(byte_alphabet()[' '], 0x120);
  EXPECT_EQ(byte_alphabet()[173], 256 + 67);
  EXPECT_EQ(std::set<int>(byte_alphabet().begin(), byte_alphabet().end()).size(), 256U);
  EXPECT_EQ(in_byte_alphabet(" \xC3\xA9"), "\xC4\xA0\xC3\x83\xC2\xA9");  // "ĠÃ©"
}

TEST(ByteAlphabet, IsReadBack) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  EXPECT_EQ(bytes_of_alphabet(in_byte_alphabet(all)), all);
  EXPECT_EQ(bytes_of_alphabet("a b"), std::nullopt);
  EXPECT_EQ(bytes_of_alphabet("\xE4\xB8\xAD"), std::nullopt);
  EXPECT_EQ(bytes_of_alphabet("\xFF"), std::nullopt);
}

}  // namespace
}  // namespace weft::text
