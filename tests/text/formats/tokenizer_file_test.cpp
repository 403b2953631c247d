// Tokenizers in their other formats, and which file of a folder counts.
#include "text/formats/tokenizer_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text/escape.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/text/formats/small_tokenizers.h"
#include "text/tokenizer.h"

namespace weft::text {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr const char* kVocabulary = R"({"a": 0, "b": 1, "Ġ": 2, "ab": 3, "<|endoftext|>": 4})";
constexpr const char* kMerges = "#version: 0.2\na b\n";

TEST(Gpt2Files, AreAPair) {
  const testing::TemporaryFolder folder;
  folder.write("vocab.json", kVocabulary);
  EXPECT_FALSE(has_tokenizer(folder.path()));
  folder.write("merges.txt", kMerges);
  EXPECT_TRUE(has_tokenizer(folder.path()));
  for (const char* name : {"", "vocab.json", "merges.txt"}) {
    const auto tokenizer = load_tokenizer(folder.path(name));
    EXPECT_EQ(tokenizer->encode("ab ab<|endoftext|>"), (Ids{3, 2, 3, 4}));
    EXPECT_EQ(tokenizer->facts().end, 4);
    EXPECT_EQ(tokenizer->facts().begin, 4);
    ASSERT_EQ(tokenizer->facts().files.size(), 2U);
    EXPECT_EQ(tokenizer->facts().files[1].content, kMerges);
  }
}

TEST(Gpt2Files, RefuseDamage) {
  const testing::TemporaryFolder folder;
  folder.write("vocab.json", kVocabulary);
  const auto refusal = [&](const char* merges) {
    folder.write("merges.txt", merges);
    return testing::message_of<UserError>([&] { load_tokenizer(folder.path()); });
  };
  EXPECT_TRUE(has_parts(refusal("a b\nab\n"), {"merges.txt' line 2: 'ab'", "two tokens"}));
  EXPECT_TRUE(has_parts(refusal("b a\n"), {"merge 1", "'ba' isn't a token"}));
}

/// Ranks of all bytes, then of "aa", "aaa", … up to `count`.
std::string rank_lines(std::size_t count) {
  std::string lines;
  for (std::size_t rank = 0; rank < count; ++rank) {
    const std::string bytes = rank < 256 ? std::string(1, static_cast<char>(rank)) : std::string(rank - 254, 'a');
    lines += fmt::format("{} {}\n", base64(bytes), rank);
  }
  return lines;
}

TEST(Tiktoken, TheNumberOfRanksTellsTheVocabulary) {
  const testing::TemporaryFolder folder;
  folder.write("mine.tiktoken", rank_lines(300));
  EXPECT_TRUE(refuses([&] { load_tokenizer(folder.path()); }, {"300 ranks", "100256 (cl100k_base)"}));
  folder.write("mine.tiktoken", "YQ== 0\nYg== x\n");
  EXPECT_TRUE(refuses([&] { load_tokenizer(folder.path()); }, {"line 2", "base64"}));
  folder.write("other.tiktoken", "YQ== 0\n");
  EXPECT_TRUE(refuses([&] { load_tokenizer(folder.path()); }, {"several .tiktoken files"}));
}

TEST(Tiktoken, IsKnownByItsFirstLine) {
  EXPECT_TRUE(is_tiktoken("IQ== 0\nIg== 1\n"));
  EXPECT_FALSE(is_tiktoken("IQ== 7\n"));
  EXPECT_FALSE(is_tiktoken("IQ==\n"));
  EXPECT_FALSE(is_tiktoken(""));
}

std::string tekken(const char* more) {
  std::string vocabulary;
  for (int rank = 0; rank < 259; ++rank) {
    const std::string bytes = rank < 256 ? std::string(1, static_cast<char>(rank)) : std::string(rank - 254, 'a');
    vocabulary += fmt::format(R"({}{{"rank": {}, "token_bytes": "{}", "token_str": null}})", rank == 0 ? "" : ", ",
                              rank, base64(bytes));
  }
  return fmt::format(R"({{"config": {{"pattern": "a+|[^a]", "default_vocab_size": 268, "num_vocab_tokens": 259,
    "default_num_special_tokens": 10, "version": "v3"}}, {} "vocab": [{}]}})",
                     more, vocabulary);
}

TEST(Tekken, SpecialTokensComeFirst) {
  const testing::TemporaryFolder folder;
  folder.write("tekken.json", tekken(""));
  const auto tokenizer = load_tokenizer(folder.path());
  EXPECT_EQ(tokenizer->vocabulary(), 268);  // the last rank is beyond the size that the file names
  EXPECT_EQ(tokenizer->encode("aaab"), (Ids{1, 10 + 257, 10 + 'b'}));
  EXPECT_EQ(tokenizer->encode("a</s>", {.add_special = false}), (Ids{10 + 'a', 2}));
  EXPECT_EQ(tokenizer->token_text(3), "[INST]");
  EXPECT_EQ(tokenizer->facts().begin, 1);
  EXPECT_EQ(tokenizer->facts().end, 2);
  folder.write("tekken.json", tekken(R"("special_tokens": [{"rank": 9, "token_str": "<nine>", "is_control": true}],)"));
  EXPECT_EQ(load_tokenizer(folder.path())->token_text(9), "<nine>");
  EXPECT_EQ(load_tokenizer(folder.path())->token_text(8), "<SPECIAL_8>");
}

TEST(Tekken, RefusesTwiceTheSameTokenAMissingByteAndAnUnknownVersion) {
  const testing::TemporaryFolder folder;
  const std::string good = tekken("");
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    folder.write("tekken.json", text);
    return testing::message_of<UserError>([&] { load_tokenizer(folder.path()); });
  };
  const std::string a = base64("a"), of_a = '"' + a + '"', of_b = '"' + base64("b") + '"';
  EXPECT_NE(refused("\"v3\"", "\"v99\"").find("config.version"), std::string::npos);
  EXPECT_NE(refused(of_b, of_a).find("'a' has rank"), std::string::npos);
  EXPECT_NE(refused(of_b, '"' + base64("bbbb") + '"').find("0x62"), std::string::npos);
}

/// A field of a protobuf message with bytes.
std::string field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}
std::string field(int number, char value) {
  return {static_cast<char>(number << 3), value};
}

/// SentencePiece's ModelProto: pieces with scores and types (2 unknown, 3 control, 6 byte), BPE, a dummy prefix.
std::string sentencepiece_model() {
  constexpr char kPlain = 1;
  std::string model;
  const auto add = [&](const std::string& text, float score, char type) {
    std::string bytes(sizeof score, '\0');
    std::memcpy(bytes.data(), &score, sizeof score);
    model += field(1, field(1, text) + std::string(1, 2 << 3 | 5) + bytes + field(3, type));
  };
  add("<unk>", 0, 2);
  for (const char* control : {"<s>", "</s>"}) add(control, 0, 3);
  for (int byte = 0; byte < 256; ++byte) add(fmt::format("<0x{:02X}>", byte), 0, 6);
  float score = 0;
  const std::string blank = "\xE2\x96\x81";
  for (const std::string& piece : std::vector<std::string>{"ab", blank + "ab", blank, "a", "b"}) {
    add(piece, --score, kPlain);
  }
  const std::string byte_fallback{static_cast<char>(0x98), 2, 1};
  model += field(2, field(3, char{2}) + byte_fallback);
  model += field(3, field(1, std::string("identity")) + field(3, char{1}) + field(4, char{0}) + field(5, char{1}));
  return model;
}

TEST(SentencePiece, ModelsAreReadByTheLibrary) {
  constexpr std::int32_t kAb = 259, kBlankAb = 260, kBytes = 3;
  const testing::TemporaryFolder folder;
  folder.write("tokenizer.model", sentencepiece_model());
  const auto tokenizer = load_tokenizer(folder.path());
  EXPECT_EQ(tokenizer->vocabulary(), 264);
  EXPECT_EQ(tokenizer->encode("ab ab"), (Ids{1, kBlankAb, kBlankAb}));
  EXPECT_EQ(tokenizer->encode("ab</s>", {.add_special = false}), (Ids{kBlankAb, 2}));
  EXPECT_EQ(tokenizer->encode("ab\xC3\xA9"), (Ids{1, kBlankAb, kBytes + 0xC3, kBytes + 0xA9}));
  EXPECT_EQ(tokenizer->decode(Ids{kBlankAb, kBlankAb}), "ab ab");
  EXPECT_EQ(tokenizer->decode(Ids{1, kBlankAb, 2}), "<s>ab</s>");
  EXPECT_EQ(tokenizer->decode(Ids{1, kBlankAb, 2}, true), "ab");
  EXPECT_EQ(tokenizer->decode(Ids{kBlankAb, kBytes + 0xC3}), "ab\xC3");  // a character's first byte
  EXPECT_EQ(tokenizer->decode(Ids{kBlankAb, kBytes + 0xC3, kBytes + 0xA9}), "ab\xC3\xA9");
  EXPECT_EQ(tokenizer->token_id("ab"), kAb);
  EXPECT_EQ(tokenizer->token_id("x"), std::nullopt);
  folder.write("tokenizer_config.json", R"({"add_bos_token": false, "add_eos_token": true})");
  EXPECT_EQ(load_tokenizer(folder.path())->encode("ab"), (Ids{kBlankAb, 2}));
}

TEST(LoadTokenizer, TheFirstFormatOfAFolderCounts) {
  const testing::TemporaryFolder folder;
  folder.write("vocab.json", kVocabulary);
  folder.write("merges.txt", kMerges);
  folder.write("tokenizer.json", testing::SmallJson().text());
  EXPECT_EQ(load_tokenizer(folder.path())->vocabulary(), 10);
}

TEST(LoadTokenizer, RefusesOtherFiles) {
  const testing::TemporaryFolder folder;
  const auto refusal = [&](const char* name) {
    return testing::message_of<UserError>([&] { load_tokenizer(folder.path(name)); });
  };
  EXPECT_TRUE(has_parts(refusal(""), {"has no tokenizer", "tokenizer.json", "fix: "}));
  EXPECT_TRUE(has_parts(refusal("none"), {"can't be read"}));
  folder.write("notes.txt", "hello");
  EXPECT_TRUE(has_parts(refusal("notes.txt"), {"notes.txt", "SentencePiece"}));
  folder.write("some.json", "{}");
  EXPECT_TRUE(has_parts(refusal("some.json"), {"neither a \"model\" nor a \"config\""}));
}

}  // namespace
}  // namespace weft::text
