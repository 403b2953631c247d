#include "text/split/pattern.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "tests/base/messages.h"

namespace weft::text {
namespace {

/// "[ab]" for a match, "ab" for what lies between.
std::string shown(const std::string& expression, std::string_view text,
                  RegexFlavour flavour = RegexFlavour::oniguruma) {
  std::string out;
  Pattern(expression, flavour, "test").for_each_piece(text, [&](std::string_view piece, bool match) {
    out += match ? "[" + std::string(piece) + "]" : std::string(piece);
  });
  return out;
}

TEST(Pattern, PiecesAreMatchesAndWhatLiesBetween) {
  EXPECT_EQ(shown("[0-9]+", "ab12c3"), "ab[12]c[3]");
  EXPECT_EQ(shown("x", ""), "");
  EXPECT_EQ(shown("x", "abc"), "abc");
  EXPECT_EQ(shown(R"(\p{Han}+)", "a中b"), "a[中]b");
}

TEST(Pattern, MatchesOfNothingAreKeptBetweenCharacters) {
  EXPECT_EQ(shown("x*", "axb"), "[]a[x]b[]");
}

TEST(Pattern, EndOfLineIsThatOfItsLibrary) {
  EXPECT_EQ(shown("a$", "a\na\n"), "[a]\n[a]\n");
  EXPECT_EQ(shown("a$", "a\na", RegexFlavour::rust), "a\n[a]");
  EXPECT_EQ(shown("a$", "a\n", RegexFlavour::rust), "a\n");
}

TEST(Pattern, SpaceIsWhiteSpace) {
  EXPECT_EQ(shown(R"(\s)", "\xE1\xA0\x8E\xC2\x85"), "\xE1\xA0\x8E[\xC2\x85]");  // U+180E isn't, U+0085 is
  EXPECT_EQ(shown(R"([^\s]+)", "a\xE1\xA0\x8E b"), "[a\xE1\xA0\x8E] [b]");
  EXPECT_EQ(shown(R"(\s+(?!\S))", "a  b"), "a[ ] b");
  EXPECT_EQ(in_pcre_syntax(R"(\\s[\\s]\p{L})"), R"(\\s[\\s]\p{L})");
}

TEST(Pattern, RefusesWhatItCannotRead) {
  const auto refusal = [](const char* expression) {
    return testing::message_of<UserError>([&] { Pattern(expression, RegexFlavour::oniguruma, "a.json line 3"); });
  };
  EXPECT_TRUE(has_parts(refusal("(a"), {"a.json line 3", "'(a' has an error", "parenthes"}));
  EXPECT_TRUE(has_parts(refusal("[a-z&&[^b]]"), {"sets of characters in sets"}));
}

}  // namespace
}  // namespace weft::text
