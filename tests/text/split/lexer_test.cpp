#include "text/split/lexer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/utf8.h"
#include "tests/text/random_text.h"
#include "text/split/pattern.h"
#include "text/unicode/characters.h"

namespace weft::text {
namespace {

using Pieces = std::vector<std::string>;

Pieces lexed(const Lexer& lexer, std::string_view text) {
  Pieces pieces;
  for_each_piece(lexer, text, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

Pieces matched(const Pattern& pattern, std::string_view text) {
  Pieces pieces;
  pattern.for_each_piece(text, [&](std::string_view piece, bool) { pieces.emplace_back(piece); });
  return pieces;
}

/// The `$` of tiktoken's expressions is the end of the text, in expressions of `tokenizers` the end of a line.
RegexFlavour flavour_of(const Lexer& lexer) {
  return lexer.expression.find('$') == std::string_view::npos ? RegexFlavour::oniguruma : RegexFlavour::rust;
}

// Each lexer and its expression, searched by PCRE2. Characters that PCRE2's version of Unicode doesn't know, and of
// which the two take different classes, are left out.
TEST(Lexer, EqualsItsExpression) {
  const Pattern letters(R"(\p{L})", RegexFlavour::rust, "test"), numbers(R"(\p{N})", RegexFlavour::rust, "test"),
      marks(R"(\p{M})", RegexFlavour::rust, "test");
  const auto agrees = [&](std::string_view text) {
    for (const char *at = text.data(), *end = at + text.size(); at < end;) {
      const Decoded character = decode_valid(at);
      const std::string_view one(at, character.length);
      const std::uint8_t bits = class_table()[character.code];
      const auto is = [&](const Pattern& pattern) {
        bool found = false;
        pattern.for_each_piece(one, [&](std::string_view, bool match) { found = match; });
        return found;
      };
      const bool same =
          character.code < 0x250 || (is(letters) == ((bits & kLetter) != 0) && is(numbers) == ((bits & kNumber) != 0) &&
                                     is(marks) == ((bits & kMark) != 0));
      if (!same) return false;
      at += character.length;
    }
    return true;
  };
  testing::RandomText random(1);
  std::vector<std::string> texts;
  while (texts.size() < 4000) {
    if (std::string text = random.text(20); agrees(text)) texts.push_back(std::move(text));
  }
  for (const Lexer& lexer : lexers()) {
    const Pattern pattern(std::string(lexer.expression), flavour_of(lexer), "test");
    for (const std::string& text : texts) ASSERT_EQ(lexed(lexer, text), matched(pattern, text)) << lexer.name << text;
  }
}

// Every character by itself and between two letters.
TEST(Lexer, EqualsItsExpressionOnEveryCharacter) {
  const Lexer& lexer = *lexer_named("o200k");
  const Pattern pattern(std::string(lexer.expression), RegexFlavour::oniguruma, "test");
  std::size_t different = 0;
  for (std::uint32_t code = 0; code < kCodePoints; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text = "a";
    append_character(text, code);
    text += "B";
    const bool equal = lexed(lexer, text) == matched(pattern, text);
    different += equal ? 0 : 1;
    EXPECT_TRUE(equal || code >= 0x250) << code;
  }
  // The characters that only one of utf8proc and PCRE2 knows, by their versions of Unicode.
  EXPECT_LT(different, 20'000U);
}

TEST(Lexer, CutsChangeNoPiece) {
  testing::RandomText random(3);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = random.text(12) + "\n" + random.text(12) + "\nab\n7" + random.text(12);
    const std::size_t cut = cut_after(text, random.below(text.size()));
    if (cut == text.size()) continue;
    for (const Lexer& lexer : lexers()) {
      Pieces parts = lexed(lexer, std::string_view(text).substr(0, cut));
      for (std::string& piece : lexed(lexer, std::string_view(text).substr(cut))) parts.push_back(std::move(piece));
      ASSERT_EQ(parts, lexed(lexer, text)) << lexer.name << ' ' << text;
    }
  }
  EXPECT_EQ(cut_after("ab\ncd\nef", 0), 3U);
  EXPECT_EQ(cut_after("ab\ncd\nef", 3), 6U);
  EXPECT_EQ(cut_after("ab\n\ncd \nef", 0), 10U);
}

TEST(Lexer, IsFoundByExpressionAndName) {
  EXPECT_EQ(lexer_of(lexers()[0].expression), &lexers()[0]);
  EXPECT_EQ(lexer_of("a+"), nullptr);
  EXPECT_EQ(lexer_named("no"), nullptr);
}

}  // namespace
}  // namespace weft::text
