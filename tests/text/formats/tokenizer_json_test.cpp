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

/// A tokenizer beside the settings of a model.
TokenizerPointer with_settings(const std::string& tokenizer, const std::string& generation, const std::string& model) {
  const testing::TemporaryFolder folder;
  folder.write("tokenizer.json", SmallJson().text());
  folder.write("tokenizer_config.json", tokenizer);
  folder.write("generation_config.json", generation);
  folder.write("config.json", model);
  return load_tokenizer(folder.path());
}

TEST(TokenizerJson, AllListedEndsEndAText) {
  const auto tokenizer = with_settings(R"({"bos_token": null, "eos_token": "<end>"})",
                                       R"({"eos_token_id": [9, 2], "bos_token_id": 1})", R"({"eos_token_id": 6})");
  EXPECT_EQ(tokenizer->facts().ends, (Ids{9, 2, 6}));
  EXPECT_EQ(tokenizer->facts().end, 9);
  EXPECT_EQ(tokenizer->facts().begin, std::nullopt);  // null means none, whatever the model's settings say
  EXPECT_EQ(tokenizer->facts().separator(), 9);
  EXPECT_EQ(with_settings("{}", R"({"eos_token_id": 50256})", "{}")->facts().ends, Ids{});  // another model's
}

TEST(TokenizerJson, RefusesEndsThatAreNoTokens) {
  struct Case {
    std::string file, content, named;
  };
  const std::vector<Case> cases = {
      {"generation_config.json", R"({"eos_token_id": "2"})", "eos_token_id"},
      {"generation_config.json", R"({"eos_token_id": -1})", "eos_token_id"},
      {"generation_config.json", R"({"eos_token_id": [9, 2.5]})", "eos_token_id[1]"},
      {"generation_config.json", R"({"eos_token_id": [[2]]})", "eos_token_id[0]"},
      {"config.json", R"({"eos_token_id": {"id": 2}})", "eos_token_id"},
      {"config.json", R"({"bos_token_id": true})", "bos_token_id"},
      {"config.json", R"({"eos_token_id": 2, "eos_token_id": 9})", "eos_token_id"},
      {"tokenizer_config.json", R"({"eos_token": "<none>"})", "eos_token"},
      {"tokenizer_config.json", R"({"bos_token": 5})", "bos_token"},
      {"tokenizer_config.json", R"({"eos_token": ["<end>", "a"]})", "eos_token"},
      {"tokenizer_config.json", R"({"eos_token": {"text": "<end>"}})", "eos_token"},
      {"generation_config.json", R"({"eos_token_id": [9, null]})", "eos_token_id[1]"},
      {"generation_config.json", R"({"eos_token_id": [9)", "isn't valid JSON"},
      {"generation_config.json", "[9]", "an object"},
      {"config.json", R"({"eos_token_id": 2147483648})", "eos_token_id"},
      {"tokenizer_config.json", R"({"eos_token": ""})", "eos_token"},
      {"tokenizer_config.json", R"({"bos_token": {"content": null}})", "bos_token"},
  };
  for (const Case& each : cases) {
    const auto of = [&](const char* name) { return each.file == name ? each.content : std::string("{}"); };
    const std::string refused = testing::message_of<UserError>(
        [&] { with_settings(of("tokenizer_config.json"), of("generation_config.json"), of("config.json")); });
    EXPECT_TRUE(has_parts(refused, {each.file, each.named})) << each.content;
  }
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

TEST(TokenizerJson, RefusesAnotherVersionATokenTwiceAndTwoIdsOfOneContent) {
  std::string json = SmallJson().text();
  json.replace(json.find("1.0"), 3, "2.0");
  EXPECT_TRUE(refuses([&] { loaded(json); }, {"version", "\"2.0\""}));
  EXPECT_TRUE(has_parts(with(&SmallJson::vocabulary, R"({"a": 0, "b": 1, "a": 2})"), {"\"a\" twice"}));
  EXPECT_NE(with(&SmallJson::added, R"([{"id": 8, "content": "<end>"}, {"id": 9, "content": "<end>"}])"), "");
  EXPECT_NE(with(&SmallJson::added, R"([{"id": 9, "content": "ab"}])"), "");
}

struct WrongPart {
  std::string SmallJson::*part;
  std::string value, named;
};

// Files that are read at first sight, and that the package `tokenizers` refuses or reads otherwise.
TEST(TokenizerJson, RefusesWhatWouldGiveOtherIds) {
  const auto around = [](const std::string& single) {
    return R"({"type": "TemplateProcessing", "single": )" + single +
           R"(, "pair": [], "special_tokens": {"<end>": {"id": "<end>", "ids": [9], "tokens": ["<end>"]},
             "<no>": {"id": "<no>", "ids": [77], "tokens": ["<no>"]}}})";
  };
  const std::string text = R"({"Sequence": {"id": "A", "type_id": 0}})";
  const auto split = [](const std::string& members) {
    return R"({"type": "Sequence", "pretokenizers": [{"type": "Split", )" + members +
           R"(}, {"type": "ByteLevel", "use_regex": false}]})";
  };
  const std::string isolated = R"("behavior": "Isolated", "invert": false)";
  const std::vector<WrongPart> cases = {
      {&SmallJson::added, R"([{"id": 9, "content": "ab"}])", "added_tokens[0].id is 9"},
      {&SmallJson::added, R"([{"id": 8, "content": "<x>"}, {"id": 9, "content": "<x>"}])", "added_tokens[1].id is 9"},
      {&SmallJson::added, R"([{"id": 9, "content": "<x>"}, {"id": 9, "content": "<y>"}])", "'<x>' and '<y>' have id 9"},
      {&SmallJson::added, R"([{"id": "9", "content": "<end>"}])", "added_tokens[0].id"},
      {&SmallJson::added, R"([{"id": 2147483648, "content": "<end>"}])", "added_tokens[0].id"},
      {&SmallJson::added, R"([{"id": 9, "content": "<end>", "special": 1}])", "added_tokens[0].special"},
      {&SmallJson::added, R"([{"id": 9, "content": "<end>", "prefix": true}])", "prefix"},
      {&SmallJson::added, R"([{"id": 9}])", "content"},
      {&SmallJson::added, R"({"<end>": 9})", "added_tokens"},
      {&SmallJson::vocabulary, R"([["a", 0], ["b", 1]])", "model.vocab"},
      {&SmallJson::vocabulary, R"({"a": 0, "b": "1"})", "model.vocab.b"},
      {&SmallJson::vocabulary, R"({"a": 0, "b": 1.0})", "model.vocab.b"},
      {&SmallJson::merges, R"([["a", "b", "c"]])", "model.merges[0]"},
      {&SmallJson::merges, R"(["a  b"])", "model.merges[0]"},
      {&SmallJson::merges, R"([["a", 1]])", "model.merges[0][1]"},
      {&SmallJson::merges, R"(["a b", "b c"])", "merge 2 joins 'b' and 'c'"},
      {&SmallJson::merges, R"("a b")", "model.merges"},
      {&SmallJson::options, R"("ignore_merges": "yes", )", "model.ignore_merges"},
      {&SmallJson::options, R"("continuing_subword_prefix": "##", )", "model.continuing_subword_prefix"},
      {&SmallJson::options, R"("unk_token": "<unk>", )", "'<unk>'"},
      {&SmallJson::options, R"("type": "BPE", )", "\"type\" twice"},
      {&SmallJson::normalizer, R"({"type": "Nmt"})", "normalizer.type"},
      {&SmallJson::normalizer, R"({"type": "Precompiled", "precompiled_charsmap": "AAAA"})", "normalizer.type"},
      {&SmallJson::normalizer, R"({"type": "NFC", "form": "NFD"})", "form"},
      {&SmallJson::normalizer, R"({"type": "Replace", "pattern": {"Regex": "a(?i)b|c"}, "content": ""})", "options"},
      {&SmallJson::normalizer, R"([{"type": "NFC"}])", "normalizer"},
      {&SmallJson::pre_tokenizer, split(R"("pattern": {"Regex": "a", "String": "b"}, )" + isolated), "pattern"},
      {&SmallJson::pre_tokenizer, split(R"("pattern": "a", )" + isolated), "pattern"},
      {&SmallJson::pre_tokenizer, split(R"("pattern": {"String": ""}, )" + isolated), "String"},
      {&SmallJson::pre_tokenizer, split(R"("pattern": {"Regex": "[a-z&&[^b]]"}, )" + isolated), "&&"},
      {&SmallJson::pre_tokenizer, split(R"("pattern": {"String": "a"}, "invert": false)"), "behavior"},
      {&SmallJson::pre_tokenizer, split(R"("pattern": {"String": "a"}, "behavior": "isolated")"), "behavior"},
      {&SmallJson::pre_tokenizer, R"({"type": "Metaspace", "replacement": "__"})", "replacement"},
      {&SmallJson::pre_tokenizer,
       R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "add_prefix_space": false})",
       "prepend_scheme"},
      {&SmallJson::pre_tokenizer, R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"})",
       "prepend_scheme"},
      {&SmallJson::pre_tokenizer, R"({"type": "CharDelimiterSplit", "delimiter": "ab"})", "delimiter"},
      {&SmallJson::pre_tokenizer,
       R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}, {"type": "ByteLevel"}]})", "ByteLevel"},
      {&SmallJson::pre_tokenizer, R"({"type": "Punctuation", "behavior": "Isolated"})", "pre_tokenizer.type"},
      {&SmallJson::post_processor, around("[" + text + ", " + text + "]"), "Sequence"},
      {&SmallJson::post_processor, around(R"([{"Sequence": {"id": "B", "type_id": 0}}])"), "Sequence.id is \"B\""},
      {&SmallJson::post_processor, around(R"([{"SpecialToken": {"id": "<end>", "type_id": 0}}])"), "single"},
      {&SmallJson::post_processor, around("[" + text + R"(, {"SpecialToken": {"id": "<no>", "type_id": 0}}])"),
       "id 77"},
      {&SmallJson::post_processor, around("[" + text + R"(, {"SpecialToken": {"id": "<new>", "type_id": 0}}])"),
       "<new>"},
      {&SmallJson::post_processor, R"({"type": "RobertaProcessing", "sep": ["a"], "cls": ["b", 1]})", "sep"},
      {&SmallJson::decoder, R"({"type": "WordPiece", "prefix": "##", "cleanup": true})", "decoder.type"},
      {&SmallJson::decoder, R"({"type": "Strip", "content": "ab", "start": 1, "stop": 0})", "content"},
      {&SmallJson::decoder, R"({"type": "Replace", "pattern": {"Regex": "a"}, "content": "b"})", "pattern"},
      {&SmallJson::decoder, R"({"type": "Strip", "content": " ", "start": -1, "stop": 0})", "start"},
      {&SmallJson::decoder, R"({"type": "Fuse", "with": "-"})", "with"},
  };
  for (const WrongPart& each : cases) {
    const std::string refused = with(each.part, each.value.c_str());
    EXPECT_TRUE(has_parts(refused, {"tokenizer.json", each.named})) << each.value << ": " << refused;
  }
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
