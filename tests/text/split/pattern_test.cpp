#include "text/split/pattern.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "text/pipeline/pipeline.h"

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
  EXPECT_EQ(shown(R"(\\s[\\s])", R"(\ss \s)"), R"([\ss] \s)");  // a backslash, "s", and one of both
}

TEST(Pattern, RefusesWhatItCannotRead) {
  const auto refusal = [](const char* expression) {
    return testing::message_of<UserError>([&] { Pattern(expression, RegexFlavour::oniguruma, "a.json line 3"); });
  };
  EXPECT_TRUE(has_parts(refusal("(a"), {"a.json line 3", "'(a' has an error", "parenthes"}));
  EXPECT_TRUE(has_parts(refusal("[a-z&&[^b]]"), {"&& in a set"}));
}

// On Hindi, Thai, Arabic, Chinese, Japanese, Korean, decomposed accents, joiners and blanks: the values are those of
// tests/reference/make_regex_splits, which runs the package `tokenizers`.
TEST(Pattern, CutsAsOnigurumaDoes) {
  constexpr std::array<std::string_view, 5> kBehaviours = {"isolated", "removed", "merged_with_previous",
                                                           "merged_with_next", "contiguous"};
  const auto golden = nlohmann::json::parse(
      testing::TemporaryFolder::read(WEFT_SOURCE_DIR "/tests/reference/golden/regex_splits.json"));
  std::size_t removed = 0;
  for (const nlohmann::json& each : golden.at("cases")) {
    const auto expression = each.at("expression").get<std::string>(), name = each.at("behaviour").get<std::string>();
    const auto matches = static_cast<Matches>(std::ranges::find(kBehaviours, name) - kBehaviours.begin());
    PreTokenizer cut;
    const std::string refused = testing::message_of<UserError>([&] {
      cut.steps.emplace_back(
          SplitByPattern{Pattern(expression, RegexFlavour::oniguruma, "test"), matches, each.at("invert").get<bool>()});
    });
    EXPECT_EQ(refused, "");
    for (std::size_t i = 0; i < golden.at("texts").size(); ++i) {
      std::vector<std::string> pieces;
      cut(golden.at("texts").at(i).get<std::string>(), TextPlace::begins,
          [&](std::string_view piece) { pieces.emplace_back(piece); });
      EXPECT_EQ(pieces, each.at("pieces").at(i).get<std::vector<std::string>>())
          << expression << " " << name << " of text " << i;
    }
    removed += matches == Matches::removed ? 1 : 0;
  }
  EXPECT_GE(golden.at("cases").size(), 250U);
  EXPECT_GE(removed, 150U);
}

struct RefusedPattern {
  RegexFlavour flavour;
  std::string expression, named;
};

// What the library refuses, or what PCRE2 would take for something else.
TEST(Pattern, RefusesWhatMeansSomethingElse) {
  constexpr RegexFlavour kOniguruma = RegexFlavour::oniguruma, kRust = RegexFlavour::rust;
  const std::vector<RefusedPattern> cases = {
      {kOniguruma, R"(\Qa.\E)", "\\Q"},
      {kOniguruma, R"([a-z&&[^b]])", "&& in a set"},
      {kOniguruma, R"(\p{Emoji})", "\\p{Emoji}"},
      {kOniguruma, R"(\p{L&})", "\\p{L&}"},
      {kOniguruma, R"(\pL)", "\\pL"},
      {kOniguruma, R"((?s)a.b)", "(?s)"},
      {kOniguruma, R"((?x) a b)", "(?x"},
      {kOniguruma, R"((?P<n>a))", "(?P<"},
      {kOniguruma, R"((a)\1)", "\\1"},
      {kOniguruma, R"(\k<n>)", "\\k"},
      {kOniguruma, R"((?~ab))", "(?~"},
      {kOniguruma, R"((*UTF)a)", "(*"},
      {kOniguruma, R"((?|a|b))", "(?|"},
      {kOniguruma, R"((?i)straÃ)", "without regard to case"},
      {kOniguruma, R"((?i)ss)", "'ss' without regard to case"},
      {kOniguruma, R"((?i:\p{Lu}))", "\\p{Lu} without regard to case"},
      {kOniguruma, R"(a(?i)b|c)", "options within a group"},
      {kOniguruma, R"(a**)", "a repetition *"},
      {kOniguruma, R"(^*)", "a repetition *"},
      {kOniguruma, R"({,2})", "a repetition {"},
      {kOniguruma, R"(a{3,2})", "{3,2}"},
      {kOniguruma, R"([z-a])", "a range whose end"},
      {kOniguruma, R"([a-\w])", "a range up to a set"},
      {kOniguruma, R"([[:letter:]])", "[:letter:]"},
      {kOniguruma, R"([abc)", "a set without its ]"},
      {kOniguruma, R"(a))", "a ) without its ("},
      {kOniguruma, R"(\xE4\xB8\xAD)", "\\xE4"},
      {kOniguruma, R"(\x{D800})", "\\x{D"},
      {kOniguruma, R"(\u{4E2D})", "\\u{4"},
      {kOniguruma, R"(\cA)", "\\c"},
      {kOniguruma, R"(\K)", "\\K"},
      {kOniguruma, R"(\X)", "\\X"},
      {kOniguruma, R"(\N)", "\\N"},
      {kOniguruma, "a\\", "a \\ at the end"},
      {kRust, R"(a{,2})", "{,2}"},
      {kRust, R"(\h+)", "\\h"},
      {kRust, R"([a\b])", "\\b in a set"},
      {kRust, R"([a-z--b])", "-- in a set"},
      {kRust, R"([a~~b])", "~~ in a set"},
      {kRust, R"(\e)", "\\e"},
      {kRust, R"(\Z)", "\\Z"},
      {kRust, R"(\R)", "\\R"},
  };
  for (const RefusedPattern& each : cases) {
    const std::string refused =
        testing::message_of<UserError>([&] { Pattern(each.expression, each.flavour, "a.json line 3"); });
    EXPECT_TRUE(has_parts(refused, {"a.json line 3", each.named})) << each.expression;
  }
}

}  // namespace
}  // namespace weft::text
