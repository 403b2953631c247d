#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/text/formats/small_tokenizers.h"
#include "text/tokenizer.h"

namespace weft::text {
namespace {

using Ids = std::vector<std::int32_t>;
using testing::SmallJson;

TokenizerPointer loaded(const std::string& json, const std::string& config = "") {
  const testing::TemporaryFolder folder;
  folder.write("tokenizer.json", json);
  if (!config.empty()) folder.write("tokenizer_config.json", config);
  return load_tokenizer(folder.path());
}

/// Why a tokenizer with another part is refused.
std::string with(std::string SmallJson::*part, const char* value) {
  SmallJson json;
  json.*part = value;
  return testing::message_of<UserError>([&] { loaded(json.text()); });
}

TEST(TokenizerJson, BytesAndMerges) {
  const auto tokenizer = loaded(SmallJson().text());
  EXPECT_EQ(tokenizer->encode("abc ab c<end>ab"), (Ids{6, 5, 3, 2, 9, 4}));
  EXPECT_EQ(tokenizer->decode(Ids{6, 5, 3, 2, 9}), "abc ab c<end>");
  EXPECT_EQ(tokenizer->decode(Ids{6, 9}, true), "abc");
  EXPECT_EQ(tokenizer->vocabulary(), 10);
  EXPECT_EQ(tokenizer->token_text(5), "Ġab");
  EXPECT_EQ(tokenizer->token_text(8), std::nullopt);
  EXPECT_EQ(tokenizer->token_id("Ġab"), 5);
  EXPECT_EQ(tokenizer->token_id("<end>"), 9);
  EXPECT_EQ(tokenizer->token_id("abcd"), std::nullopt);
}

TEST(TokenizerJson, SpecialTextsCanBePlain) {
  SmallJson json;
  json.added = R"([{"id": 9, "content": "aba", "special": true}, {"id": 8, "content": "cc", "special": false}])";
  const auto tokenizer = loaded(json.text());
  EXPECT_EQ(tokenizer->encode("abacc"), (Ids{9, 8}));
  EXPECT_EQ(tokenizer->encode("abacc", {.special_texts = SpecialTexts::plain}), (Ids{4, 0, 8}));
}

TEST(TokenizerJson, PutsTokensAroundTexts) {
  SmallJson json;
  json.post_processor = R"({"type": "Sequence", "processors": [{"type": "ByteLevel"}, {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<end>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
      {"SpecialToken": {"id": "a", "type_id": 0}}], "pair": [],
    "special_tokens": {"<end>": {"id": "<end>", "ids": [9], "tokens": ["<end>"]},
      "a": {"id": "a", "ids": [0], "tokens": ["a"]}}}]})";
  const auto tokenizer = loaded(json.text());
  EXPECT_EQ(tokenizer->encode("b"), (Ids{9, 1, 0}));
  EXPECT_EQ(tokenizer->encode("b", {.add_special = false}), Ids{1});
}

TEST(TokenizerJson, SplitsAndPrefixes) {
  SmallJson json;
  json.pre_tokenizer = R"({"type": "ByteLevel", "add_prefix_space": true})";
  EXPECT_EQ(loaded(json.text())->encode("ab"), Ids{5});
  json.pre_tokenizer = R"({"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": "ab"}, "behavior": "Isolated", "invert": false},
    {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})";
  EXPECT_EQ(loaded(json.text())->encode("abc ab"), (Ids{4, 2, 3, 4}));
}

TEST(TokenizerJson, IgnoreMergesTakesWholeWords) {
  SmallJson json;
  json.vocabulary = R"({"a": 0, "b": 1, "ba": 2})";
  json.merges = "[]";
  EXPECT_EQ(loaded(json.text())->encode("ba"), (Ids{1, 0}));
  json.options = R"("ignore_merges": true, )";
  EXPECT_EQ(loaded(json.text())->encode("ba"), Ids{2});
}

TEST(TokenizerJson, NormalizesBeforeItSplits) {
  SmallJson json;
  json.normalizer = R"({"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}]})";
  EXPECT_EQ(loaded(json.text())->encode("ＡBC"), Ids{6});
}

TEST(TokenizerJson, Llama2sForm) {
  const auto tokenizer = loaded(testing::small_llama().text());
  EXPECT_EQ(tokenizer->encode("ab ab"), (Ids{1, 9, 9}));
  EXPECT_EQ(tokenizer->encode("\xC3\xA9x"), (Ids{1, 5, 3, 4, 0}));
  EXPECT_EQ(tokenizer->encode("ab</s>a"), (Ids{1, 9, 2, 5, 6}));  // the prefix comes before each part
  EXPECT_EQ(tokenizer->decode(Ids{9, 9, 3, 4}), "ab ab\xC3\xA9");
  EXPECT_EQ(tokenizer->decode(Ids{9, 3}), "ab\xC3");  // a character's first byte
  EXPECT_EQ(tokenizer->facts().begin, 1);
  EXPECT_EQ(tokenizer->facts().end, 2);
}

TEST(TokenizerJson, EndsComeFromTheConfigBeside) {
  const auto tokenizer = loaded(SmallJson().text(), R"({"eos_token": {"content": "<end>"}, "bos_token": "a"})");
  EXPECT_EQ(tokenizer->facts().end, 9);
  EXPECT_EQ(tokenizer->facts().begin, 0);
  ASSERT_EQ(tokenizer->facts().files.size(), 2U);
  EXPECT_EQ(tokenizer->facts().files[0].name, "tokenizer.json");
  EXPECT_EQ(tokenizer->facts().files[1].name, "tokenizer_config.json");
}

TEST(TokenizerJson, TheDigestIsThatOfTheFile) {
  EXPECT_EQ(loaded(SmallJson().text())->facts().digest, loaded(SmallJson().text(), "{}")->facts().digest);
  EXPECT_NE(loaded(SmallJson().text())->facts().digest, loaded(testing::small_llama().text())->facts().digest);
}

TEST(TokenizerJson, BytesThatAreNotUtf8AreReplaced) {
  SmallJson json;
  json.vocabulary = R"({"a": 0, "ï": 1, "¿": 2, "½": 3})";
  json.merges = "[]";
  EXPECT_EQ(loaded(json.text())->encode("a\xFF"), (Ids{0, 1, 2, 3}));
}

TEST(TokenizerJson, RefusesUnknownComponentsByName) {
  EXPECT_TRUE(has_parts(with(&SmallJson::normalizer, R"({"type": "BertNormalizer"})"),
                        {"normalizer.type", "\"BertNormalizer\"", "one of NFC", "fix: "}));
  EXPECT_TRUE(has_parts(with(&SmallJson::pre_tokenizer, R"({"type": "UnicodeScripts"})"),
                        {"pre_tokenizer.type", "\"UnicodeScripts\""}));
  EXPECT_TRUE(has_parts(with(&SmallJson::post_processor, R"({"type": "New"})"), {"post_processor.type"}));
  EXPECT_TRUE(has_parts(with(&SmallJson::decoder, R"({"type": "CTC"})"), {"decoder.type", "\"CTC\""}));
  EXPECT_TRUE(has_parts(with(&SmallJson::options, R"("dropout": 0.1, )"), {"model.dropout"}));
  EXPECT_TRUE(has_parts(with(&SmallJson::options, R"("end_of_word_suffix": "</w>", )"), {"model.end_of_word_suffix"}));
  EXPECT_TRUE(has_parts(with(&SmallJson::options, R"("new_option": 1, )"), {"new_option"}));
  EXPECT_TRUE(has_parts(with(&SmallJson::pre_tokenizer,
                             R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}, {"type": "Digits"}]})"),
                        {"no other component behind ByteLevel"}));
  for (const char* type : {"WordPiece", "Unigram", "WordLevel"}) {
    const std::string json = std::string(R"({"model": {"type": ")") + type + R"(", "vocab": {}}})";
    EXPECT_TRUE(refuses([&] { loaded(json); }, {"model.type", type, "BPE"}));
  }
}

TEST(TokenizerJson, RefusesDamage) {
  EXPECT_TRUE(has_parts(with(&SmallJson::merges, R"(["a b c"])"), {"model.merges[0]", "two tokens"}));
  EXPECT_TRUE(has_parts(with(&SmallJson::merges, R"(["b a"])"), {"merge 1 joins 'b' and 'a'"}));
  EXPECT_TRUE(has_parts(with(&SmallJson::vocabulary, R"({"a": 0, "b": 0})"), {"have id 0"}));
  EXPECT_TRUE(has_parts(with(&SmallJson::vocabulary, R"({"a": -1})"), {"-1"}));
  EXPECT_TRUE(has_parts(with(&SmallJson::added, R"([{"id": 0, "content": "<end>"}])"), {"have id 0"}));
  EXPECT_TRUE(refuses([] { loaded("{"); }, {"tokenizer.json"}));
  EXPECT_TRUE(
      has_parts(with(&SmallJson::post_processor, R"({"type": "BertProcessing", "sep": ["b", 1], "cls": ["x", 77]})"),
                {"id 77 beside texts"}));
}

TEST(TokenizerJson, RefusesIdsWithoutAToken) {
  const auto tokenizer = loaded(SmallJson().text());
  for (const std::int32_t id : {8, 10, -1}) {
    EXPECT_TRUE(refuses([&] { tokenizer->decode(Ids{0, id}); }, {"token 1 has id " + std::to_string(id)}));
  }
}

TEST(TokenizerJson, CutsWhereNothingCrosses) {
  EXPECT_EQ(loaded(SmallJson().text())->cut_after("ab\nab\nab", 0), 3U);
  EXPECT_EQ(loaded(testing::small_llama().text())->cut_after("ab\nab\nab", 0), 8U);
  SmallJson json;
  json.added = R"([{"id": 9, "content": "b\na"}])";
  EXPECT_EQ(loaded(json.text())->cut_after("ab\nab\nab", 0), 8U);
}

}  // namespace
}  // namespace weft::text
