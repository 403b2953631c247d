// Tokenizers of GGUF files: ids of transformers (see ../../reference/make_gguf), and a tokenizer.json that goes through
// metadata and back.
#include "text/formats/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/gguf_file.h"
#include "base/files/gguf_writer.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/text/formats/small_tokenizers.h"
#include "text/tokenizer.h"

namespace weft::text {
namespace {

using Ids = std::vector<std::int32_t>;

const std::string kGgufGolden = std::string(WEFT_SOURCE_DIR) + "/tests/reference/golden/gguf/";

class GgufIds : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Files, GgufIds, ::testing::Values("model", "pieces"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(GgufIds, AreThoseOfTransformers) {
  const auto expected =
      nlohmann::json::parse(testing::TemporaryFolder::read(kGgufGolden + "expected.json")).at(GetParam());
  const TokenizerPointer tokenizer = load_tokenizer(kGgufGolden + GetParam() + ".gguf");
  ASSERT_GE(expected.size(), 12U);
  for (const auto& entry : expected) {
    const auto text = entry.at("text").get<std::string>();
    EXPECT_EQ(tokenizer->encode(text), entry.at("ids").get<Ids>()) << text;
    EXPECT_EQ(tokenizer->encode(text, {.add_special = false}), entry.at("plain").get<Ids>()) << text;
    if (text.starts_with(' ')) continue;  // the blank before the first word is SentencePiece's prefix
    EXPECT_EQ(tokenizer->decode(entry.at("plain").get<Ids>()), text);
  }
}

TEST(GgufTokenizer, HasTheEndsAndTheTemplateOfTheMetadata) {
  EXPECT_TRUE(has_tokenizer(kGgufGolden + "model.gguf"));
  EXPECT_FALSE(has_tokenizer(kGgufGolden + "blocks.gguf"));
  const TokenizerPointer tokenizer = load_tokenizer(kGgufGolden + "model.gguf");
  EXPECT_EQ(tokenizer->facts().begin, 0);
  EXPECT_EQ(tokenizer->facts().end, 0);
  EXPECT_EQ(tokenizer->facts().ends, (Ids{0, 1}));
  EXPECT_EQ(listed_ends(kGgufGolden + "model.gguf", 288).ends, (Ids{0, 1}));
  EXPECT_EQ(listed_ends(kGgufGolden + "model.gguf", 1).ends, Ids{0});
  EXPECT_EQ(tokenizer->vocabulary(), 288);
  EXPECT_EQ(gguf_chat_template(GgufFile(kGgufGolden + "model.gguf")), "{{ messages[0]['content'] }}");
  EXPECT_EQ(gguf_chat_template(GgufFile(kGgufGolden + "pieces.gguf")), std::nullopt);
  std::vector<std::string> names;
  for (const TokenizerFile& file : tokenizer->facts().files) names.push_back(file.name);
  EXPECT_EQ(names, (std::vector<std::string>{"tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
                                             "generation_config.json"}));
}

class GgufSmall : public ::testing::Test {
 protected:
  using Change = std::function<void(GgufMetadata&)>;

  /// Bytes a and b, a blank, and two merges; without a pattern's name.
  static void add_small(GgufMetadata& metadata,
                        const std::vector<std::string>& tokens = {"a", "b", "Ġ", "ab", "Ġab", "<end>"}) {
    metadata.text("tokenizer.ggml.model", "gpt2").texts("tokenizer.ggml.tokens", tokens);
    metadata.texts("tokenizer.ggml.merges", std::vector<std::string>{"a b", "Ġ ab"});
    metadata.integers("tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 1, 1, 1, 1, 3});
  }
  TokenizerPointer loaded(const Change& change) const {
    GgufMetadata metadata;
    change(metadata);
    write_gguf(folder_.path("model.gguf"), metadata, {});
    return load_tokenizer(folder_.path("model.gguf"));
  }
  /// The tokenizer of a tokenizer.json, and what is read from the metadata that it becomes.
  struct Pair {
    TokenizerPointer given, found;
  };
  Pair through(const testing::SmallJson& json, std::int64_t vocabulary) const {
    Pair pair;
    folder_.write("tokenizer.json", json.text());
    pair.given = load_tokenizer(folder_.path("tokenizer.json"));
    pair.found = loaded([&](GgufMetadata& metadata) { add_gguf_tokenizer(*pair.given, vocabulary, metadata); });
    return pair;
  }
  std::string refusal(const testing::SmallJson& json) const {
    return testing::message_of<UserError>([&] { through(json, 16); });
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(GgufSmall, APatternCutsByItsName) {
  const auto ids = [&](const std::string& pre) {
    return loaded([&](GgufMetadata& metadata) {
             metadata.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", pre);
             metadata.texts("tokenizer.ggml.tokens", std::vector<std::string>{"a", "1", "Ġ", "11", "Ġ11"});
             metadata.texts("tokenizer.ggml.merges", std::vector<std::string>{"1 1", "Ġ 11"});
           })
        ->encode("a 11");
  };
  EXPECT_EQ(ids("gpt-2"), (Ids{0, 4}));
  EXPECT_EQ(ids("default"), (Ids{0, 4}));
  EXPECT_EQ(ids("dbrx"), (Ids{0, 2, 3}));
  EXPECT_EQ(ids("gpt-4o"), (Ids{0, 2, 3}));
  EXPECT_EQ(ids("qwen2"), (Ids{0, 2, 1, 1}));
  EXPECT_EQ(ids("tekken"), (Ids{0, 2, 1, 1}));
  EXPECT_EQ(ids("smollm"), (Ids{0, 2, 1, 1}));
}

TEST_F(GgufSmall, RefusesByName) {
  const auto refusal_of = [&](const Change& change) { return testing::message_of<UserError>([&] { loaded(change); }); };
  EXPECT_TRUE(has_parts(refusal_of([](auto& m) {
                          add_small(m);
                          m.text("tokenizer.ggml.pre", "viking");
                        }),
                        {"tokenizer.ggml.pre is viking", "llama-bpe"}));
  EXPECT_TRUE(has_parts(refusal_of([](auto& m) { add_small(m); }), {"has no tokenizer.ggml.pre"}));
  EXPECT_TRUE(
      has_parts(refusal_of([](auto& m) { m.text("tokenizer.ggml.model", "t5").texts("tokenizer.ggml.tokens", {}); }),
                {"tokenizer.ggml.model is t5", "gpt2 or llama"}));
  const auto with_tokens = [&](const std::vector<std::string>& tokens) {
    return refusal_of([&](auto& m) {
      add_small(m, tokens);
      m.text("tokenizer.ggml.pre", "gpt-2");
    });
  };
  EXPECT_TRUE(has_parts(with_tokens({"a", "b", "Ġ", "ab", "Ġab", "a"}), {"token 5", "is token 0 too"}));
  EXPECT_TRUE(has_parts(with_tokens({"a", "b", "Ġ", "ab", "Ġab", "\xff"}), {"token 5", "isn't UTF-8"}));
  EXPECT_TRUE(has_parts(with_tokens({"a"}), {"tokenizer.ggml.token_type is a list of 6"}));
  EXPECT_TRUE(has_parts(refusal_of([](auto& m) {
                          add_small(m);
                          m.text("tokenizer.ggml.pre", "gpt-2").integer("tokenizer.ggml.eos_token_id", 6);
                        }),
                        {"tokenizer.ggml.eos_token_id is 6", "from 0 to 5"}));
}

TEST_F(GgufSmall, GPT2sOwnFilesNeedNoPattern) {
  const TokenizerPointer tokenizer = loaded([](auto& metadata) {
    metadata.text("general.architecture", "gpt2");
    add_small(metadata);
  });
  EXPECT_EQ(tokenizer->encode("ab ab<end>"), (Ids{3, 4, 5}));
  EXPECT_EQ(tokenizer->facts().begin, std::nullopt);
}

TEST_F(GgufSmall, FlagsSayWhatIsPutAroundATextAndNames) {
  const auto made = [&](const Change& more) {
    return loaded([&](auto& metadata) {
      metadata.text("general.architecture", "gpt2");
      add_small(metadata);
      metadata.integer("tokenizer.ggml.bos_token_id", 5).integer("tokenizer.ggml.eos_token_id", 4);
      more(metadata);
    });
  };
  EXPECT_EQ(made([](auto&) {})->encode("ab"), Ids{3});
  EXPECT_EQ(made([](auto& m) { m.flag("tokenizer.ggml.add_bos_token", true); })->encode("ab"), (Ids{5, 3}));
  EXPECT_EQ(made([](auto& m) {
              m.flag("tokenizer.ggml.add_bos_token", true).flag("tokenizer.ggml.add_eos_token", true);
            })->encode("ab"),
            (Ids{5, 3, 4}));
  EXPECT_EQ(made([](auto& m) { m.text("tokenizer.ggml.pre", "llama-bpe"); })->encode("ab"), (Ids{5, 3}));
}

TEST_F(GgufSmall, ATokenizerJsonComesBack) {
  const Pair pair = through({}, 12);
  EXPECT_EQ(pair.given->vocabulary(), 10);
  EXPECT_EQ(pair.found->vocabulary(), 12);
  EXPECT_EQ(pair.found->token_text(11), "[PAD11]");
  for (const char* text : {"ab abc", "", "c<end>a", "ab  ab"})
    EXPECT_EQ(pair.found->encode(text), pair.given->encode(text));
  EXPECT_EQ(pair.found->facts().end, pair.given->facts().end);
}

TEST_F(GgufSmall, SentencePiecesFormComesBack) {
  testing::SmallJson json = testing::small_llama();
  const Pair pair = through(json, 12);
  for (const char* text : {"ab ab", "é", "b</s>", "aab"})
    EXPECT_EQ(pair.found->encode(text), pair.given->encode(text)) << text;
  EXPECT_EQ(pair.found->facts().begin, 1);
  EXPECT_EQ(pair.found->facts().end, 2);
  json.merges = R"([["▁", "ab"], ["a", "b"]])";
  EXPECT_EQ(refusal(json), "");
  // Tokens of one score: their merges come by turns.
  json.vocabulary = R"({"<unk>": 0, "<s>": 1, "</s>": 2, "a": 3, "aa": 4, "aaa": 5, "aaaa": 6})";
  json.merges = R"([["aaa", "a"], ["aa", "aa"], ["aa", "a"], ["a", "aaa"], ["a", "aa"], ["a", "a"]])";
  const Pair turns = through(json, 12);
  for (const char* text : {"aa", "aaa", "aaaaa", "aaaaaaa"}) {
    EXPECT_EQ(turns.found->encode(text), turns.given->encode(text)) << text;
  }
  json.merges = R"([["aaa", "a"], ["aa", "a"], ["aa", "aa"], ["a", "aaa"], ["a", "aa"], ["a", "a"]])";
  EXPECT_TRUE(has_parts(refusal(json), {"merges that no scores of tokens give"}));
  json = testing::small_llama();
  json.merges = R"([["a", "b"]])";
  EXPECT_TRUE(has_parts(refusal(json), {"merges that no scores of tokens give", "--format hf"}));
}

TEST_F(GgufSmall, BytesStayTheByteTokenizer) {
  const ByteTokenizer bytes;
  const TokenizerPointer found = loaded([&](auto& metadata) { add_gguf_tokenizer(bytes, 257, metadata); });
  EXPECT_EQ(found->facts().files.front().content, bytes.facts().files.front().content);
}

TEST_F(GgufSmall, RefusesWhatMetadataCantSay) {
  testing::SmallJson json;
  EXPECT_EQ(refusal(json), "");
  json.normalizer = R"({"type": "NFC"})";
  EXPECT_EQ(refusal(json), "");
  json.normalizer = R"({"type": "Lowercase"})";
  EXPECT_TRUE(has_parts(refusal(json), {"the normalizer Lowercase"}));
  json = {};
  json.pre_tokenizer = R"({"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": "a+"}, "behavior": "Isolated", "invert": false},
    {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})";
  EXPECT_TRUE(has_parts(refusal(json), {"a pre_tokenizer that isn't one of gpt-2"}));
  json = {};
  json.added = R"([{"id": 9, "content": "<end>", "special": true, "lstrip": true}])";
  EXPECT_TRUE(has_parts(refusal(json), {"the token '<end>' with lstrip"}));
  json = {};
  json.options = R"("ignore_merges": true, )";
  EXPECT_TRUE(has_parts(refusal(json), {"with ignore_merges"}));
  EXPECT_TRUE(has_parts(testing::message_of<UserError>([&] { through({}, 9); }), {"an id below 9"}));
}

}  // namespace
}  // namespace weft::text
