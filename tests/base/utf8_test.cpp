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
  for (const char* text : {"\xe0\x80", "\xed\xa0", "\xf4\x90"}) EXPECT_FALSE(breaks_off(text)) << text;
}

TEST(Utf8, CharactersAreWrittenAsTheyAreRead) {
  for (const std::uint32_t code : {0x0U, 0x7FU, 0x80U, 0x7FFU, 0x800U, 0xFFFFU, 0x10000U, 0x10FFFFU}) {
    std::string text;
    append_character(text, code);
    EXPECT_EQ(first_character(text).code, code);
    EXPECT_EQ(first_character(text).length, text.size());
  }
}

std::string made_valid(std::string_view text) {
  std::string storage;
  return std::string(valid_utf8(text, storage));
}

TEST(ValidUtf8, KeepsTextAsItIs) {
  std::string storage;
  const std::string_view text = "a \xC3\xA9 \xE4\xB8\xAD \xF0\x9F\x98\x80 and more than eight plain letters";
  EXPECT_EQ(valid_utf8(text, storage).data(), text.data());
  EXPECT_EQ(made_valid(""), "");
}

// As many U+FFFD as Python's bytes.decode("utf-8", "replace") writes.
TEST(ValidUtf8, ReplacesTheLongestBeginningOfACharacter) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(made_valid("a\xFFz"), "a" + r + "z");
  EXPECT_EQ(made_valid("\xE4\xB8"), r);
  EXPECT_EQ(made_valid("\xE4\xB8x"), r + "x");
  EXPECT_EQ(made_valid("\xF0\x9F\x98x"), r + "x");
  EXPECT_EQ(made_valid("\xC3(\x80\x80"), r + "(" + r + r);
  EXPECT_EQ(made_valid("\xED\xA0\x80"), r + r + r);          // half of a surrogate pair
  EXPECT_EQ(made_valid("\xE0\x80\x80"), r + r + r);          // an overlong form
  EXPECT_EQ(made_valid("\xF4\x90\x80\x80"), r + r + r + r);  // beyond U+10FFFF
  EXPECT_EQ(made_valid("\xC0\xAF"), r + r);
  EXPECT_EQ(made_valid("\xF0\x9F\xE4\xB8\xAD"), r + "\xE4\xB8\xAD");
}

TEST(TextWidth, CountsColumns) {
  EXPECT_EQ(text_width(""), 0U);
  EXPECT_EQ(text_width("loss 2.5"), 8U);
  EXPECT_EQ(text_width("é€…"), 3U);
  EXPECT_EQ(text_width("e\xcc\x81"), 1U);  // a letter and its accent
  EXPECT_EQ(text_width("織機"), 4U);
  EXPECT_EQ(text_width("한글ｗ"), 6U);
  EXPECT_EQ(text_width("🧵 x"), 4U);
  EXPECT_EQ(text_width("\xff\xc3"), 2U);
}

TEST(TextWidth, CutsBetweenCharacters) {
  EXPECT_EQ(cut_to_width("weft", 4), "weft");
  EXPECT_EQ(cut_to_width("weft", 3), "we…");
  EXPECT_EQ(cut_to_width("weft", 1), "…");
  EXPECT_EQ(cut_to_width("weft", 0), "");
  EXPECT_EQ(cut_to_width("織機織", 6), "織機織");
  EXPECT_EQ(cut_to_width("織機織", 5), "織機…");
  EXPECT_EQ(cut_to_width("織機織", 4), "織…");  // half of a wide character isn't shown
  EXPECT_EQ(cut_to_width("e\xcc\x81t\xc3\xa9", 2), "e\xcc\x81…");
}

using Lines = std::vector<std::string>;

TEST(Wrap, BreaksAtSpacesAndKeepsTheWidth) {
  EXPECT_EQ(wrap("one two three", 7), (Lines{"one two", "three"}));
  EXPECT_EQ(wrap("one two three", 8), (Lines{"one two", "three"}));
  EXPECT_EQ(wrap("one two three", 13), Lines{"one two three"});
  EXPECT_EQ(wrap("one  two", 80), Lines{"one two"});
}

TEST(Wrap, ALongWordHasALineOfItsOwn) {
  EXPECT_EQ(wrap("a incomprehensible b", 5), (Lines{"a", "incomprehensible", "b"}));
}

TEST(Wrap, LineBreaksOfTheTextStay) {
  EXPECT_EQ(wrap("a b\nc\n\nd", 80), (Lines{"a b", "c", "", "d"}));
  EXPECT_EQ(wrap("", 80), Lines{});
}

TEST(Wrap, CountsColumnsNotBytes) {
  EXPECT_EQ(wrap("éé éé", 5), Lines{"éé éé"});
  EXPECT_EQ(wrap("織織 織", 6), (Lines{"織織", "織"}));  // two columns each
}

}  // namespace
}  // namespace weft
