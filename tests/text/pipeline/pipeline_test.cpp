// Normalizers, splitters and decoders by themselves; tokenizer_json_test has them together.
#include "text/pipeline/pipeline.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/unicode/characters.h"

namespace weft::text {
namespace {

const std::string kBlankSign = "\xE2\x96\x81";

std::string words_of(SplitStep step, std::string_view text, TextPlace place = TextPlace::begins) {
  PreTokenizer pre_tokenizer;
  pre_tokenizer.steps.push_back(std::move(step));
  std::string out;
  pre_tokenizer(text, place, [&](std::string_view word) { out += "[" + std::string(word) + "]"; });
  return out;
}

TEST(Normalizer, StepsFollowEachOther) {
  const Normalizer normalizer{{Lowercase{}, ReplaceText{"b", "--"},
                               ReplaceMatches{Pattern("[0-9]+", RegexFlavour::oniguruma, "test"), "N"},
                               StripSpace{true, true}, Prepend{"> "}}};
  EXPECT_EQ(normalizer(" AB12b "), "> a--N--");
  EXPECT_EQ(normalizer("  "), "");
}

TEST(PreTokenizer, TreatsMatches) {
  const auto by = [](Matches matches, bool invert = false) { return SplitByText{"-", matches, invert}; };
  EXPECT_EQ(words_of(by(Matches::isolated), "the-final--count"), "[the][-][final][-][-][count]");
  EXPECT_EQ(words_of(by(Matches::removed), "the-final--count"), "[the][final][count]");
  EXPECT_EQ(words_of(by(Matches::removed, true), "the-final--count"), "[-][-][-]");
  EXPECT_EQ(words_of(by(Matches::merged_with_previous), "the-final--count"), "[the-][final-][-][count]");
  EXPECT_EQ(words_of(by(Matches::merged_with_next), "the-final--count"), "[the][-final][-][-count]");
  EXPECT_EQ(words_of(by(Matches::contiguous), "the-final--count"), "[the][-][final][--][count]");
}

TEST(PreTokenizer, CutsByClassPatternAndSpace) {
  EXPECT_EQ(words_of(SplitByClass{kNumber, Matches::isolated}, "a12b"), "[a][1][2][b]");
  EXPECT_EQ(words_of(SplitByClass{kNumber, Matches::contiguous}, "a12b"), "[a][12][b]");
  EXPECT_EQ(words_of(SplitByPattern{Pattern("[0-9]", RegexFlavour::oniguruma, "test"), Matches::removed}, "a1b"),
            "[a][b]");
  EXPECT_EQ(words_of(SpaceBefore{}, "a"), "[ a]");
  EXPECT_EQ(words_of(SpaceBefore{}, " a"), "[ a]");
}

TEST(PreTokenizer, MetaspaceBeginsWords) {
  const std::string& b = kBlankSign;
  EXPECT_EQ(words_of(Metaspace{}, "a b  c"), "[" + b + "a][" + b + "b][" + b + "][" + b + "c]");
  EXPECT_EQ(words_of(Metaspace{b, PrefixScheme::never}, "a b"), "[a][" + b + "b]");
  EXPECT_EQ(words_of(Metaspace{b, PrefixScheme::first, false}, "a b"), "[" + b + "a" + b + "b]");
  EXPECT_EQ(words_of(Metaspace{b, PrefixScheme::first, false}, "a b", TextPlace::after_token), "[a" + b + "b]");
  EXPECT_EQ(words_of(Metaspace{}, " a"), "[" + b + "a]");
  EXPECT_EQ(words_of(Metaspace{}, "a b", TextPlace::after_token), "[" + b + "a][" + b + "b]");
}

TEST(PreTokenizer, PutsNoBlankBeforeATextThatContinues) {
  const std::string& b = kBlankSign;
  EXPECT_EQ(words_of(SpaceBefore{}, "a", TextPlace::continues), "[a]");
  EXPECT_EQ(words_of(Metaspace{}, "a b", TextPlace::continues), "[a][" + b + "b]");
  EXPECT_EQ(words_of(Metaspace{}, " a", TextPlace::continues), "[" + b + "a]");
  EXPECT_EQ(Normalizer{{Prepend{b}}}("a", TextPlace::continues), "a");
}

TEST(Decoder, Steps) {
  const auto decoded = [](std::vector<DecoderStep> steps, std::vector<std::string> tokens) {
    return Decoder{std::move(steps), ""}(std::move(tokens));
  };
  EXPECT_EQ(decoded({DecodeByteLevel{}}, {"Ġa", "中"}), " a中");
  EXPECT_EQ(decoded({DecodeReplace{kBlankSign, " "}, DecodeByteFallback{}, DecodeFuse{}, DecodeStrip{" ", 1, 0}},
                    {kBlankSign + "a", "<0xC3>", "<0xA9>", kBlankSign, "<0xZZ>"}),
            "a\xC3\xA9 <0xZZ>");
  EXPECT_EQ(decoded({DecodeStrip{"x", 1, 1}}, {"xxaxx", "x"}), "xax");
  EXPECT_EQ(decoded({DecodeMetaspace{}}, {kBlankSign + "a", kBlankSign + "b"}), "a b");
  EXPECT_EQ(decoded({DecodeMetaspace{kBlankSign, PrefixScheme::never}}, {kBlankSign + "a"}), " a");
  EXPECT_EQ((Decoder{{}, " "}({"a", "b"})), "a b");
}

std::string same(std::string_view text) {
  return std::string(text);
}

/// "a{3}b": text, tokens by id.
std::string cut(const AddedTokens& tokens, std::string_view text, bool special = true, bool normalized = false) {
  std::string out;
  tokens.split(
      text, normalized, special, [&](std::string_view plain) { out += "(" + std::string(plain) + ")"; },
      [&](const AddedToken& token) { out += "{" + std::to_string(token.id) + "}"; });
  return out;
}

TEST(AddedTokens, TheLongestAtEachPlace) {
  const AddedTokens tokens({{.text = "<a>", .id = 1, .special = true}, {.text = "<a>b", .id = 2}}, same);
  EXPECT_EQ(cut(tokens, "x<a>y<a>b"), "(x){1}(y){2}");
  EXPECT_EQ(cut(tokens, "<a"), "(<a)");
  EXPECT_EQ(cut(tokens, "<<a>"), "(<){1}");
  EXPECT_EQ(cut(tokens, ""), "");
  EXPECT_EQ(cut(tokens, "x<a>y<a>b", false), "(x<a>y){2}");  // special tokens' texts are plain
}

TEST(AddedTokens, StripsAndWholeWords) {
  const AddedTokens tokens({{.text = "<l>", .id = 1, .strip_left = true},
                            {.text = "<r>", .id = 2, .strip_right = true},
                            {.text = "foo", .id = 3, .single_word = true}},
                           same);
  EXPECT_EQ(cut(tokens, "a  <l> b"), "(a){1}( b)");
  EXPECT_EQ(cut(tokens, "a <r> \n b"), "(a ){2}(b)");
  EXPECT_EQ(cut(tokens, "<r>  <l>x"), "{2}{1}(x)");
  EXPECT_EQ(cut(tokens, "foo foot afoo foo."), "{3}( foot afoo ){3}(.)");
}

TEST(AddedTokens, NormalizedTokensAreFoundInNormalizedText) {
  const AddedTokens tokens({{.text = "<A>", .id = 1, .normalized = true}}, [](std::string_view) { return "<a>"; });
  EXPECT_EQ(cut(tokens, "<A><a>"), "(<A><a>)");
  EXPECT_EQ(cut(tokens, "<A><a>", true, true), "(<A>){1}");
}

TEST(AddedTokens, AreFoundByIdAndText) {
  const AddedTokens tokens({{.text = "<a>", .id = 7}}, same);
  EXPECT_EQ(tokens.find(7)->text, "<a>");
  EXPECT_EQ(tokens.find("<a>")->id, 7);
  EXPECT_EQ(tokens.find(8), nullptr);
  EXPECT_FALSE(tokens.may_cross_lines());
  EXPECT_TRUE(AddedTokens({{.text = "\n\n", .id = 1}}, same).may_cross_lines());
  EXPECT_TRUE(AddedTokens({{.text = "word", .id = 1, .strip_left = true}}, same).may_cross_lines());
}

}  // namespace
}  // namespace weft::text
