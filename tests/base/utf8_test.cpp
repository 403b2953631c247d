#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace weft {
namespace {

TEST(Utf8, CharactersAreRead) {
  const auto expect = [](std::string_view text, std::uint32_t code, std::size_t length) {
    EXPECT_EQ(first_character(text).code, code) << text;
    EXPECT_EQ(first_character(text).length, length) << text;
    EXPECT_TRUE(is_utf8(text)) << text;
  };
  expect("a", 'a', 1);
  expect("\xc3\xa9t\xc3\xa9", 0xE9, 2);
  expect("\xe2\x82\xac", 0x20AC, 3);
  expect("\xf0\x9f\x99\x82", 0x1F642, 4);
  expect(std::string_view("\0", 1), 0, 1);
  EXPECT_TRUE(is_utf8(""));
}

TEST(Utf8, OtherBytesAreNone) {
  for (const char* text : {"", "\x80", "\xff", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80",
                           "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xc3", "\xc3z", "\xe2\x82", "\xf0\x9f\x99"}) {
    EXPECT_EQ(first_character(text).length, 0U) << text;
    EXPECT_EQ(is_utf8(text), *text == '\0') << text;
  }
}

TEST(Utf8, WhatMayBecomeACharacterBreaksOff) {
  for (const char* text : {"\xc3", "\xe2", "\xe2\x82", "\xf0\x9f\x99"}) EXPECT_TRUE(breaks_off(text)) << text;
  for (const char* text : {"", "a", "\x80", "\xff", "\xe2z", "\xc3\xa9"}) EXPECT_FALSE(breaks_off(text)) << text;
}

TEST(Utf8, CharactersAreWrittenAsTheyAreRead) {
  for (const std::uint32_t code : {0x0U, 0x7FU, 0x80U, 0x7FFU, 0x800U, 0xFFFFU, 0x10000U, 0x10FFFFU}) {
    std::string text;
    append_character(text, code);
    EXPECT_EQ(first_character(text).code, code);
    EXPECT_EQ(first_character(text).length, text.size());
  }
}

}  // namespace
}  // namespace weft
