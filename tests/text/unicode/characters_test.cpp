#include "text/unicode/characters.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <bit>
#include <cstdlib>
#include <string>

#include "base/utf8.h"
#include "tests/text/random_text.h"

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
  for (const std::uint32_t code : {0x61, 0x5F, 0x37, 0x0301, 0x2160, 0x200D, 0x24B6})
    EXPECT_TRUE(is_word_character(code)) << code;
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

/// By utf8proc on the whole text.
std::string whole_form(const std::string& text, int options) {
  utf8proc_uint8_t* made = nullptr;
  const auto size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &made, static_cast<utf8proc_option_t>(options | UTF8PROC_STABLE));
  std::string out(reinterpret_cast<const char*>(made), static_cast<std::size_t>(size));
  std::free(made);
  return out;
}

TEST(NormalForms, OfSomeTexts) {
  EXPECT_EQ(normalized("Cafe\xCC\x81 x", NormalForm::nfc), "Caf\xC3\xA9 x");
  EXPECT_EQ(normalized("Caf\xC3\xA9", NormalForm::nfd), "Cafe\xCC\x81");
  EXPECT_EQ(normalized("\xEF\xAC\x81ne", NormalForm::nfkc), "fine");  // "ﬁ"
  EXPECT_EQ(normalized("½", NormalForm::nfkd), "1⁄2");
  EXPECT_EQ(normalized("plain", NormalForm::nfc), "plain");
  EXPECT_EQ(normalized("", NormalForm::nfc), "");
  EXPECT_EQ(normalized(std::string_view("a\0b", 3), NormalForm::nfkd), std::string("a\0b", 3));
}

// Composing piece by piece changes what composing the whole changes.
TEST(NormalForms, PiecesGiveTheWhole) {
  testing::RandomText random(7);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = random.marked_text(24);
    ASSERT_EQ(normalized(text, NormalForm::nfc), whole_form(text, UTF8PROC_COMPOSE)) << text;
    ASSERT_EQ(normalized(text, NormalForm::nfd), whole_form(text, UTF8PROC_DECOMPOSE)) << text;
    ASSERT_EQ(normalized(text, NormalForm::nfkc), whole_form(text, UTF8PROC_COMPOSE | UTF8PROC_COMPAT)) << text;
    ASSERT_EQ(normalized(text, NormalForm::nfkd), whole_form(text, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT)) << text;
  }
}

TEST(NormalForms, LowerCaseIsOfEachCharacter) {
  EXPECT_EQ(lower_case("ABC \xC3\x89 \xCE\xA3"), "abc \xC3\xA9 \xCF\x83");
  EXPECT_EQ(lower_case("\xC4\xB0"), "i\xCC\x87");  // "İ"
}

TEST(NormalForms, AccentsAreMarksWithoutSpace) {
  EXPECT_EQ(without_accents("e\xCC\x81"), "e");
  EXPECT_EQ(without_accents("\xE0\xA4\x95\xE0\xA4\xBF"), "\xE0\xA4\x95");  // Mc: a vowel sign of Hindi
  EXPECT_EQ(without_accents("a\xE2\x83\x9D"), "a");                        // Me: an enclosing circle
  EXPECT_EQ(without_accents("\xC3\xA9"), "\xC3\xA9");
}

}  // namespace
}  // namespace weft::text
