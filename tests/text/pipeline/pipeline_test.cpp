// Normalizers, splitters and decoders by themselves; tokenizer_json_test has them together.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/pipeline/decoder.h"
#include "text/pipeline/normalizer.h"
#include "text/pipeline/pre_tokenizer.h"
#include "text/unicode/char_class.h"

namespace weft::text {
namespace {

const std::string kBlankSign = "\xE2\x96\x81";

std::string words_of(SplitStep step, std::string_view text, bool begins = true) {
  PreTokenizer pre_tokenizer;
  pre_tokenizer.steps.push_back(std::move(step));
  std::string out;
  pre_tokenizer(text, begins, [&](std::string_view word) { out += "[" + std::string(word) + "]"; });
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
  EXPECT_EQ(words_of(Metaspace{b, PrefixScheme::first, false}, "a b", false), "[a" + b + "b]");
  EXPECT_EQ(words_of(Metaspace{}, " a"), "[" + b + "a]");
}

TEST(Decoder, Steps) {
  const auto decoded = [](std::vector<DecoderStep> steps, std::vector<std::string> tokens) {
    return Decoder{std::move(steps), ""}(std::move(tokens));
  };
  EXPECT_EQ(decoded({DecodeByteLevel{}}, {"\xC4\xA0"
                                          "a",
                                          "\xE4\xB8\xAD"}),
            " a\xE4\xB8\xAD");
  EXPECT_EQ(decoded({DecodeReplace{kBlankSign, " "}, DecodeByteFallback{}, DecodeFuse{}, DecodeStrip{" ", 1, 0}},
                    {kBlankSign + "a", "<0xC3>", "<0xA9>", kBlankSign, "<0xZZ>"}),
            "a\xC3\xA9 <0xZZ>");
  EXPECT_EQ(decoded({DecodeStrip{"x", 1, 1}}, {"xxaxx", "x"}), "xax");
  EXPECT_EQ(decoded({DecodeMetaspace{}}, {kBlankSign + "a", kBlankSign + "b"}), "a b");
  EXPECT_EQ(decoded({DecodeMetaspace{kBlankSign, PrefixScheme::never}}, {kBlankSign + "a"}), " a");
  EXPECT_EQ((Decoder{{}, " "}({"a", "b"})), "a b");
}

}  // namespace
}  // namespace weft::text
