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
  EXPECT_EQ(tokenizer->encode("ab ab", {.add_special = false, .place = TextPlace::continues}), (Ids{kAb, kBlankAb}));
  EXPECT_EQ(tokenizer->encode_prompt("ab"), (Ids{1, kBlankAb}));
  EXPECT_EQ(tokenizer->encode_prompt("<s>ab"), (Ids{1, kBlankAb}));
  EXPECT_EQ(tokenizer->encode_prompt(""), Ids{1});
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

struct WrongFile {
  std::string name, content, named;
};

/// Each beside vocab.json and merges.txt that are whole, unless it takes their place.
TEST(Gpt2Files, RefuseWhatWouldGiveOtherIds) {
  const std::vector<WrongFile> cases = {
      {"vocab.json", R"({"a": 0, "b": 0})", "'a' and 'b' have id 0"},
      {"vocab.json", R"({"a": 0, "b": 1, "a": 3})", "\"a\" twice"},
      {"vocab.json", R"({"a": 0, "b": "1"})", "b is \"1\""},
      {"vocab.json", R"({"a": -1})", "a is -1"},
      {"vocab.json", R"(["a", "b"])", "vocab.json"},
      {"vocab.json", R"({"a": 0, "b": 1)", "vocab.json"},
      {"merges.txt", "a b c\n", "line 1"},
      {"merges.txt", "#version: 0.2\na \n", "merges.txt"},
      {"merges.txt", "a x\n", "'x' isn't a token"},
      {"merges.txt", "a \xE4\xB8\xAD\n", "line 1"},
      {"added_tokens.json", R"({"<pad>": 5})", "\"<pad>\" is 5"},
      {"added_tokens.json", R"({"ab": 4})", "ab is 4"},
      {"tokenizer_config.json", R"({"eos_token": "<none>"})", "eos_token"},
  };
  for (const WrongFile& each : cases) {
    const testing::TemporaryFolder folder;
    folder.write("vocab.json", kVocabulary);
    folder.write("merges.txt", kMerges);
    if (each.name != "vocab.json") folder.write("added_tokens.json", R"({"<|endoftext|>": 4})");
    load_tokenizer(folder.path());
    folder.write(each.name, each.content);
    const std::string refused = testing::message_of<UserError>([&] { load_tokenizer(folder.path()); });
    EXPECT_TRUE(has_parts(refused, {each.name, each.named})) << each.content << ": " << refused;
  }
}

/// Of as many ranks as r50k_base has.
std::vector<std::string> many_ranks() {
  constexpr int kRanks = 50256;
  std::vector<std::string> lines;
  for (int rank = 0; rank < kRanks; ++rank) {
    const int other = rank - 256;
    const std::string bytes = rank < 256 ? std::string(1, static_cast<char>(rank))
                                         : std::string{static_cast<char>(other / 256), static_cast<char>(other % 256)};
    lines.push_back(fmt::format("{} {}", base64(bytes), rank));
  }
  return lines;
}

TEST(Tiktoken, RefusesRanksThatAreNotThoseOfTheVocabulary) {
  const testing::TemporaryFolder folder;
  const std::vector<std::string> good = many_ranks();
  const auto refused = [&](std::size_t line, const std::string& content) {
    std::vector<std::string> lines = good;
    lines[line] = content;
    folder.write("r.tiktoken", join(lines, "\n") + "\n");
    return testing::message_of<UserError>([&] { load_tokenizer(folder.path()); });
  };
  EXPECT_EQ(refused(7, good[7]), "");
  EXPECT_TRUE(has_parts(refused(300, good[299]), {"line 301"}));               // twice
  EXPECT_TRUE(has_parts(refused(300, base64("abc") + " 302"), {"line 302"}));  // one is missing
  EXPECT_TRUE(has_parts(refused(300, base64("ab") + " -1"), {"line 301"}));    // negative
  EXPECT_TRUE(has_parts(refused(300, base64("ab") + " 3e2"), {"line 301"}));   // another number
  EXPECT_TRUE(has_parts(refused(300, "**** 300"), {"line 301"}));              // no base64
  EXPECT_TRUE(has_parts(refused(300, " 300"), {"line 301"}));                  // a token of nothing
  EXPECT_TRUE(has_parts(refused(300, base64("ab") + "\t300"), {"line 301"}));  // another blank
  EXPECT_TRUE(has_parts(refused(50255, base64("abc") + " 50256"), {"50256 is the last"}));
  EXPECT_TRUE(has_parts(refused(98, base64("abc") + " 98"), {"0x62"}));              // a byte is missing
  EXPECT_TRUE(has_parts(refused(300, base64("a") + " 300"), {"'a' has rank 300"}));  // a token twice
}

TEST(Tekken, RefusesWhatWouldGiveOtherIds) {
  const testing::TemporaryFolder folder;
  const std::string good = tekken(R"("special_tokens": [{"rank": 9, "token_str": "<nine>", "is_control": true}],)");
  struct Change {
    std::string from, to, named;
  };
  const std::vector<Change> changes = {
      {R"("rank": 200,)", R"("rank": 201,)", "vocab[200].rank is 201"},
      {R"("default_vocab_size": 268)", R"("default_vocab_size": 270)", "vocab"},
      {R"("default_num_special_tokens": 10)", R"("default_num_special_tokens": 269)", "default_num_special_tokens"},
      {R"("default_num_special_tokens": 10)", R"("default_num_special_tokens": 2)", "default_num_special_tokens"},
      {R"("pattern": "a+|[^a]")", R"("pattern": "a{,2}")", "{,2}"},
      {R"("pattern": "a+|[^a]", )", "", "pattern"},
      {R"({"rank": 9, "token_str": "<nine>", "is_control": true})",
       R"({"rank": 9, "token_str": "<nine>"}, {"rank": 9, "token_str": "<other>"})", "special_tokens[1].rank is 9"},
      {R"({"rank": 9, "token_str": "<nine>", "is_control": true})",
       R"({"rank": 9, "token_str": "<nine>"}, {"rank": 8, "token_str": "<nine>"})", "special_tokens[1].token_str"},
      {R"("rank": 9, "token_str")", R"("rank": 10, "token_str")", "special_tokens[0].rank is 10"},
      {'"' + base64("b") + '"', "\"\"", "vocab[98].token_bytes"},
      {'"' + base64("b") + '"', "\"?\"", "vocab[98].token_bytes"},
      {'"' + base64("b") + '"', "98", "vocab[98].token_bytes"},
  };
  folder.write("tekken.json", good);
  load_tokenizer(folder.path());
  for (const Change& each : changes) {
    std::string text = good;
    ASSERT_NE(text.find(each.from), std::string::npos) << each.from;
    text.replace(text.find(each.from), each.from.size(), each.to);
    folder.write("tekken.json", text);
    const std::string refused = testing::message_of<UserError>([&] { load_tokenizer(folder.path()); });
    EXPECT_TRUE(has_parts(refused, {"tekken.json", each.named})) << each.to << ": " << refused;
  }
}

TEST(SentencePiece, RefusesModelsThatAreDamagedOrHaveOtherTokensBeside) {
  const std::string good = sentencepiece_model(), name = "<0x41>";
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string model = good;
    return model.replace(model.find(from), from.size(), to);
  };
  const std::vector<WrongFile> cases = {
      {"tokenizer.model", good.substr(0, good.size() / 2 + 1), "tokenizer.model"},            // within a piece
      {"tokenizer.model", good.substr(0, good.find("\x12\x05\x18\x02")), "tokenizer.model"},  // behind the pieces
      {"tokenizer.model", replaced(name, "<0x42>"), "tokenizer.model"},                       // a piece twice
      {"tokenizer.model", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "tokenizer.model"},
      {"tokenizer.model", std::string(64, '\0'), "tokenizer.model"},
      {"tokenizer.model", "", "tokenizer.model"},
      {"added_tokens.json", R"({"<pad>": 264})", "\"<pad>\" is 264"},
      {"added_tokens.json", R"({"ab": 1})", "ab is 1"},
      {"tokenizer_config.json", R"({"add_bos_token": "yes"})", "add_bos_token"},
  };
  for (const WrongFile& each : cases) {
    const testing::TemporaryFolder folder;
    folder.write("tokenizer.model", good);
    folder.write(each.name, each.content);
    const std::string refused = testing::message_of<UserError>([&] { load_tokenizer(folder.path()); });
    EXPECT_TRUE(has_parts(refused, {each.name, each.named})) << refused;
  }
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
