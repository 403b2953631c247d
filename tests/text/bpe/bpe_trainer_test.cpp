#include "text/bpe/bpe_trainer.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/base/temporary_folder.h"
#include "text/tokenizer.h"

namespace weft::text {
namespace {

WordCounts counted(std::vector<std::string> texts, int threads) {
  std::size_t next = 0;
  return count_words(
      [&]() -> std::optional<std::string> {
        if (next == texts.size()) return std::nullopt;
        return texts[next++];
      },
      *lexer_named("gpt2"), threads);
}

TEST(BpeTrainer, CountsWords) {
  const WordCounts expected{{" a", 2}, {"a", 2}, {"b", 1}};
  EXPECT_EQ(counted({"a a", "a a", "b"}, 1), expected);
  EXPECT_EQ(counted({"a a", "a a", "b"}, 3), expected);
}

TEST(BpeTrainer, MergesTheCommonestPair) {
  // "ab" 5 times, "bc" 4 times; of equally common pairs the lower ids come first.
  const TrainedBpe trained = train_bpe({{"abc", 4}, {"ab", 1}, {"xy", 2}, {"uv", 2}}, 260, [](std::size_t) {});
  EXPECT_EQ(trained.merges,
            (std::vector<std::pair<std::string, std::string>>{{"a", "b"}, {"ab", "c"}, {"u", "v"}, {"x", "y"}}));
  EXPECT_EQ(trained.tokens.size(), 260U);
  EXPECT_EQ(trained.tokens[0], "!");
  EXPECT_EQ(trained.tokens[256], "ab");
}

TEST(BpeTrainer, EndsWhenNoPairIsLeft) {
  std::size_t told = 0;
  const TrainedBpe trained = train_bpe({{"aaaa", 1}}, 1000, [&](std::size_t tokens) { told = tokens; });
  EXPECT_EQ(trained.tokens.size(), 258U);  // "aa", "aaaa"
  EXPECT_EQ(told, 258U);
}

TEST(BpeTrainer, WritesATokenizer) {
  const testing::TemporaryFolder folder;
  const TrainedBpe trained = train_bpe(counted({"the other then the", "the 123"}, 1), 262, [](std::size_t) {});
  for (const char* name : {"gpt2", "llama3"}) {
    folder.write("tokenizer.json", tokenizer_json_of(trained, *lexer_named(name)));
    const TokenizerPointer tokenizer = load_tokenizer(folder.path());
    EXPECT_EQ(tokenizer->vocabulary(), 263);
    EXPECT_EQ(tokenizer->facts().end, 262);
    const auto ids = tokenizer->encode("the then\n");
    EXPECT_LT(ids.size(), 6U);
    EXPECT_EQ(tokenizer->decode(ids), "the then\n");
  }
}

TEST(BpeTrainer, TheBytesAreATokenizerToo) {
  const testing::TemporaryFolder folder;
  folder.write("tokenizer.json", tokenizer_json_of_bytes());
  folder.write("tokenizer_config.json", tokenizer_config_json("<|endoftext|>", "<|endoftext|>"));
  const TokenizerPointer tokenizer = load_tokenizer(folder.path());
  const std::string text = "Hi \xC3\xA9\n 12";
  EXPECT_EQ(tokenizer->encode(text), ByteTokenizer().encode(text));
  EXPECT_EQ(tokenizer->encode("a<|endoftext|>"), (std::vector<std::int32_t>{'a', 256}));
  EXPECT_EQ(tokenizer->facts().begin, 256);
}

}  // namespace
}  // namespace weft::text
