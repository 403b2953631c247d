#include "text/unicode/char_class.h"

#include <gtest/gtest.h>

#include <bit>
#include <string>

namespace weft::text {
namespace {

TEST(CharClass, OfSomeCharacters) {
  const std::uint8_t* classes = class_table();
  EXPECT_EQ(classes['A'], kUpper);
  EXPECT_EQ(classes[0x01C5], kUpper);  // "ǅ", a title letter
  EXPECT_EQ(classes['z'], kLower);
  EXPECT_EQ(classes[0x4E2D], kCaseless);
  EXPECT_EQ(classes[0x02B0], kCaseless);  // "ʰ", a modifier letter
  EXPECT_EQ(classes[0x0301], kMark);
  EXPECT_EQ(classes['7'], kNumber);
  EXPECT_EQ(classes[0x00BD], kNumber);  // "½"
  for (const std::uint32_t code : {0x5F, 0x2B, 0x10FFFF}) EXPECT_EQ(classes[code], kOther) << code;
}

TEST(CharClass, SpaceIsWhiteSpace) {
  std::string spaces;
  for (std::uint32_t code = 0; code < kCodePoints; ++code) {
    if ((class_table()[code] & kSpace) != 0) spaces += std::to_string(code) + " ";
  }
  EXPECT_EQ(spaces,
            "9 10 11 12 13 32 133 160 5760 8192 8193 8194 8195 8196 8197 8198 8199 8200 8201 8202 8232 8233 8239 8287 "
            "12288 ");
}

TEST(CharClass, IsOne) {
  for (std::uint32_t code = 0; code < kCodePoints; ++code) ASSERT_EQ(std::popcount(class_table()[code]), 1) << code;
}

TEST(CharClass, WordsHaveLettersMarksDigitsAndConnectors) {
  for (const std::uint32_t code : {0x61, 0x5F, 0x37, 0x0301, 0x2160}) EXPECT_TRUE(is_word_character(code)) << code;
  for (const std::uint32_t code : {0x20, 0x2D, 0x00BD, 0x1F600}) EXPECT_FALSE(is_word_character(code)) << code;
}

TEST(CharClass, CharactersAreReadForwardAndBack) {
  const std::string text = "a\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80";
  EXPECT_EQ(decode_valid(text.data()).code, 'a');
  EXPECT_EQ(decode_valid(text.data() + 1).code, 0xE9U);
  EXPECT_EQ(decode_valid(text.data() + 3).code, 0x4E2DU);
  EXPECT_EQ(decode_valid(text.data() + 6).length, 4U);
  EXPECT_EQ(decode_valid_before(text.data() + text.size()).code, 0x1F600U);
  EXPECT_EQ(decode_valid_before(text.data() + 3).code, 0xE9U);
}

}  // namespace
}  // namespace weft::text
