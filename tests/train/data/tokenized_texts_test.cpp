#include "train/data/tokenized_texts.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "text/bpe/bpe_trainer.h"
#include "text/tokenizer.h"
#include "train/data/token_source.h"

namespace weft::train {
namespace {

namespace fs = std::filesystem;

/// A tokenizer of bytes and "ab" with the end of text 257, in its folder.
text::TokenizerPointer small_tokenizer(const testing::TemporaryFolder& folder) {
  const text::TrainedBpe trained = text::train_bpe({{"ab", 2}}, 257, [](std::size_t) {});
  folder.write("tokenizer/tokenizer.json", text::tokenizer_json_of(trained, *text::lexer_named("gpt2")));
  return text::load_tokenizer(folder.path("tokenizer"));
}

std::size_t folders_in(const fs::path& path) {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(path)) count += entry.is_directory() ? 1 : 0;
  return count;
}

TEST(TokenizedTexts, AreMadeOnce) {
  const testing::TemporaryFolder folder;
  const auto tokenizer = small_tokenizer(folder);
  folder.write("data/a.txt", "ababababababababababababababababababababab");
  folder.write("data/b.jsonl", "{\"text\": \"abab\"}\n{\"text\": \"ab\"}\n");
  folder.write("data/empty.txt", "");
  const TextCache cache{.folder = folder.path("tokens"), .threads = 2};
  const std::string made = tokenized_texts(folder.path("data"), *tokenizer, cache).paths().at(0);
  EXPECT_TRUE(fs::exists(fs::path(made) / "a.txt.bin"));
  EXPECT_FALSE(fs::exists(fs::path(made) / "empty.txt.bin"));
  EXPECT_EQ(tokenized_texts(folder.path("data").string(), *tokenizer, cache), made);
  EXPECT_EQ(folders_in(folder.path("tokens")), 1U);

  const TokenSource source = TokenSource::open({made, "", 258, 4});
  EXPECT_EQ(source.files, 2U);
  EXPECT_EQ(source.train.at(0), 257);  // stands before the text
  EXPECT_EQ(source.train.size() + source.held_out.size(), 22U + 5);

  folder.write("data/c.txt", "ab");
  EXPECT_NE(tokenized_texts(folder.path("data").string(), *tokenizer, cache), made);
  EXPECT_EQ(folders_in(folder.path("tokens")), 2U);
}

TEST(TokenizedTexts, SeveralPathsHaveOneFolder) {
  const testing::TemporaryFolder folder;
  const auto tokenizer = small_tokenizer(folder);
  folder.write("z/a.txt", "zzzzzzzzzzzzzzzzzzzz");
  folder.write("b/a.txt", "bbbbbbbbbbbbbbbbbbbb");
  folder.write("b/x_val.txt", "vv");
  folder.write("b/empty.txt", "");
  PathList paths(folder.path("z/*.txt"));
  paths.add(folder.path("b"));
  const TextCache cache{.folder = folder.path("tokens")};
  const PathList made = tokenized_texts(paths, *tokenizer, cache);
  EXPECT_EQ(tokenized_texts(paths, *tokenizer, cache), made);
  EXPECT_EQ(made.paths().size(), 1U);
  const TokenSource source = TokenSource::open({made, "", 258, 4});
  EXPECT_EQ(source.train.size(), 42U);
  EXPECT_EQ(source.train.at(1), tokenizer->encode("z").front());  // in the order of the paths
  EXPECT_EQ(source.held_out.size(), 3U);
  PathList turned(folder.path("b"));
  turned.add(folder.path("z/*.txt"));
  EXPECT_NE(tokenized_texts(turned, *tokenizer, cache), made);

  // Documents are known of texts, and of lines of JSON.
  folder.write("c.jsonl", "{\"text\": \"cccc\"}\n{\"text\": \"dddd\"}\n{\"text\": \"eeee\"}\n");
  const PathList lines = tokenized_texts(folder.path("c.jsonl"), *tokenizer, cache);
  const TokenSource split = TokenSource::open({lines, "", 258, 4, TokenWidth::automatic, false, ValSplit::documents});
  EXPECT_EQ(split.description(), "1 u16 token file, 10 tokens to train on, 5 held out (1 of 3 documents)");

  // A mix of texts and tokens stays as it is, to be refused.
  paths.add(folder.write("x.bin", "0123"));
  EXPECT_EQ(tokenized_texts(paths, *tokenizer, cache), paths);
}

TEST(TokenizedTexts, CompletionsAreLearntAndPromptsAreNot) {
  const testing::TemporaryFolder folder;
  const auto tokenizer = small_tokenizer(folder);
  folder.write("a.jsonl", "{\"prompt\": \"abab\", \"completion\": \"xy\"}\n{\"text\": \"zzz\"}\n");
  const PathList made = tokenized_texts(folder.path("a.jsonl"), *tokenizer, {.folder = folder.path("tokens")});
  const TokenSource source = TokenSource::open({made, made, 258, 4});
  std::vector<std::int32_t> ids(source.train.size());
  source.train.copy(0, ids.size(), ids.data());
  const std::int32_t x = tokenizer->encode("x").front(), y = tokenizer->encode("y").front();
  const std::int32_t z = tokenizer->encode("z").front(), ab = tokenizer->encode("ab").front();
  EXPECT_EQ(ids, (std::vector<std::int32_t>{257, ab, ab, x, y, 257, 257, z, z, z}));
  source.train.drop_ignored(0, ids);
  EXPECT_EQ(ids, (std::vector<std::int32_t>{-1, -1, -1, x, y, 257, 257, z, z, z}));
}

TEST(TokenizedTexts, TokensStayWhereTheyAre) {
  const testing::TemporaryFolder folder;
  const auto tokenizer = small_tokenizer(folder);
  const TextCache cache{.folder = folder.path("tokens")};
  for (const std::string& path : {folder.write("x.bin", "0123"), folder.path("none").string()}) {
    EXPECT_EQ(tokenized_texts(path, *tokenizer, cache), path);
  }
  folder.write("bins/x.bin", "0123");
  EXPECT_EQ(tokenized_texts(folder.path("bins").string(), *tokenizer, cache), folder.path("bins"));
  EXPECT_FALSE(fs::exists(folder.path("tokens")));
}

TEST(SavedTokenizer, IsNamedOrBesideTheModelOrBytes) {
  const testing::TemporaryFolder folder;
  const auto tokenizer = small_tokenizer(folder);
  fs::create_directory(folder.path("empty"));
  EXPECT_EQ(find_tokenizer("", folder.path("tokenizer"), 258)->facts().digest, tokenizer->facts().digest);
  EXPECT_EQ(find_tokenizer("", folder.path("tokenizer/model.safetensors"), 300)->vocabulary(), 258);
  EXPECT_EQ(find_tokenizer(folder.path("tokenizer").string(), folder.path("empty"), 258)->vocabulary(), 258);
  EXPECT_EQ(find_tokenizer("", folder.path("empty"), 300), nullptr);
  EXPECT_EQ(find_tokenizer("", "", 257)->facts().kind, "bytes");
  const std::string message =
      testing::message_of<UserError>([&] { find_tokenizer("", folder.path("tokenizer"), 257); });
  EXPECT_TRUE(has_parts(message, {"vocabulary of 258", "at most 257", "--tokenizer"}));
}

// The tokenizer.json that checkpoints of bytes carry is for other libraries.
TEST(SavedTokenizer, BytesStayBytes) {
  const testing::TemporaryFolder folder;
  const text::ByteTokenizer bytes;
  for (const auto& file : bytes.facts().files) folder.write(file.name, file.content);
  const auto tokenizer = find_tokenizer("", folder.path(), 257);
  EXPECT_EQ(tokenizer->facts().kind, "bytes");
  EXPECT_EQ(tokenizer->encode("\xFF"), std::vector<std::int32_t>{255});  // which others read as U+FFFD
}

}  // namespace
}  // namespace weft::train
