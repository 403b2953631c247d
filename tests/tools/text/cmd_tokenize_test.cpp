// `weft tokenize`, run as a user does.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/base/files/zstd_packed.h"
#include "tests/tools/weft_folder.h"

namespace weft::tools {
namespace {

using nlohmann::json;

class Tokenize : public testing::WeftFolder {
 protected:
  json tokenized(const Words& words) const { return object_of(testing::joined({"tokenize"}, words)); }
  void refused(const Words& words, const Words& parts) const {
    expect_refusal(testing::joined({"tokenize"}, words), parts);
  }
};

TEST_F(Tokenize, ShowsTheTokensOfAText) {
  EXPECT_EQ(tokenized({"--text", "Hi <|endoftext|>"}).at("tokens"), 16);
  const std::string shown = output({"tokenize", "--text", "Hi!"});
  EXPECT_TRUE(has_parts(shown, {"72  H", "105  i", "33  !", "3 tokens of 3 bytes"})) << shown;
  EXPECT_EQ(tokenized({"--decode", "72,105,256"}).at("text"), "Hi<|endoftext|>");
}

TEST_F(Tokenize, LearnsAVocabularyAndUsesIt) {
  folder_.write("book.txt", "the other then the\nthe end of the book\n");
  const json learnt = tokenized({"--train", "bpe", "--vocab", "262", "book.txt", "-o", "tokenizer.json"});
  EXPECT_EQ(learnt.at("vocabulary"), 262);
  EXPECT_EQ(learnt.at("merges"), 5);
  const json made = tokenized({"--tokenizer", ".", "book.txt", "-o", "book.bin", "--verify"});
  EXPECT_EQ(made.at("documents"), 1);
  EXPECT_EQ(made.at("parts_that_differ"), 0);
  EXPECT_EQ(made.at("width"), "u16");
  EXPECT_EQ(made.at("vocabulary"), 262);
  const json about = read_json("book.bin.json");
  EXPECT_EQ(about.at("separator"), 261);
  EXPECT_EQ(about.at("tokens"), made.at("tokens"));
  const json special = tokenized({"--tokenizer", ".", "--text", "a<|endoftext|>", "--special"});
  EXPECT_EQ(special.at("ids").back(), 261);
  EXPECT_GT(tokenized({"--tokenizer", ".", "--text", "a<|endoftext|>"}).at("tokens"), 2);
}

TEST_F(Tokenize, TakesJsonLinesAndFolders) {
  folder_.write("data/a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  folder_.write("data/b.txt", "three");
  EXPECT_EQ(tokenized({"data", "-o", "all.bin"}).at("documents"), 3);
  EXPECT_EQ(tokenized({"data/*.jsonl", "-o", "two.bin", "--separator", "none"}).at("tokens"), 6);
  folder_.write("c.json", "{\"body\": \"four\"}\n");
  EXPECT_EQ(tokenized({"c.json", "--field", "body", "-o", "c.bin", "--separator", "0"}).at("tokens"), 5);
}

// Packed texts give the ids of plain ones, to the command and to a training that tokenizes them itself.
TEST_F(Tokenize, TakesPackedTexts) {
  const std::string lines = "{\"text\": \"one or two\"}\n{\"text\": \"three of them\"}\n";
  folder_.write("a.jsonl", lines);
  folder_.write("b.jsonl.zst", testing::zstd_skippable("index") + testing::zstd_packed(lines));
  tokenized({"a.jsonl", "-o", "a.bin"});
  EXPECT_EQ(tokenized({"b.jsonl.zst", "-o", "b.bin"}).at("documents"), 2);
  EXPECT_EQ(read("a.bin"), read("b.bin"));

  folder_.write("texts/c.txt.zst", testing::zstd_packed("the other then the\nthe end of the book\n"));
  tokenized({"--train", "bpe", "--vocab", "262", "texts", "-o", "tokenizer.json"});
  output(
      testing::words_in("train --tokenizer tokenizer.json --data texts --model.layers 1 --model.hidden 16 "
                        "--model.heads 2 --model.ffn 16 --model.context 4 --seq-len 4 --global-batch 1 --steps 1 "
                        "--threads 1 --run-dir runs/packed --quiet"));

  const std::string cut = testing::zstd_packed(lines).substr(0, 20);
  folder_.write("d.jsonl.zst", cut);
  refused({"d.jsonl.zst", "-o", "d.bin"}, {"d.jsonl.zst' is truncated or damaged"});
  EXPECT_FALSE(exists("d.bin") || exists("d.bin.json"));
}

TEST_F(Tokenize, RefusesWhatIsNeitherTextNorLines) {
  struct Case {
    std::string name, content;
    Words parts;
  };
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
  const std::vector<Case> cases = {
      {"a.jsonl", "[\n  {\"text\": \"a\"}\n]\n", {"a.jsonl' line 1", "a JSON array"}},
      {"a.jsonl", "{\"text\": \"a\"}\n{\n  \"text\": \"b\"\n}\n", {"a.jsonl' line 2", "goes on in the next line"}},
      {"a.jsonl", "{\"text\": \"\\udc00\"}\n", {"a.jsonl' line 1", "a lone surrogate"}},
      {"a.jsonl", std::string("\xff\xfe{\0}\0\n\0", 8), {"a.jsonl' is UTF-16"}},
      {"a.jsonl", pointer, {"a.jsonl' is a pointer of Git LFS", "git lfs pull"}},
      {"a.txt.gz", pointer, {"a.txt.gz' is a pointer of Git LFS"}},
      {"a.jsonl.bz2", "BZh91AY&SYxxxx", {"a.jsonl.bz2' is a bzip2 file"}},
      {"a.json", "[{\"text\": \"a\"}]", {"a.json' is a JSON file"}},
      {"a.txt", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n", {"a.txt' is a JSON file", "x.jsonl"}},
      {"a.jsonl", "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]}", {"chat template"}},
  };
  for (const Case& bad : cases) {
    folder_.write(bad.name, bad.content);
    refused({bad.name, "-o", "x.bin"}, bad.parts);
    EXPECT_FALSE(exists("x.bin") || exists("x.bin.json"));
  }
}

TEST_F(Tokenize, RefusesWhatMakesNoSense) {
  folder_.write("a.txt", "text");
  folder_.write("a.npy", "\x93NUMPY");
  folder_.write("a.jsonl", "{\"body\": 1}\n");
  folder_.write("bert.json", R"({"model": {"type": "WordPiece", "vocab": {}}})");
  refused({}, {"without -o", "--text"});
  refused({"a.txt"}, {"without -o"});
  refused({"none.txt", "-o", "x.bin"}, {"none.txt' doesn't exist"});
  refused({"a.npy", "-o", "x.bin"}, {"a NumPy array"});
  refused({"a.jsonl", "-o", "x.bin"}, {"a.jsonl' line 1", "\"text\""});
  refused({"a.txt", "-o", "x.bin", "--separator", "<none>"}, {"--separator <none>"});
  refused({"a.txt", "-o", "/dev/stdout"}, {"no regular file"});
  refused({"a.txt", "--text", "x"}, {"--text or --decode with files"});
  refused({"--decode", "72,300"}, {"token 1 has id 300"});
  refused({"--tokenizer", "bert.json", "--text", "x"}, {"model.type", "WordPiece"});
  refused({"--train", "bpe", "--vocab", "200", "a.txt", "-o", "t.json"}, {"--vocab 200"});
  refused({"--train", "bpe", "--vocab", "300", "a.txt"}, {"--train without -o"});
  EXPECT_FALSE(exists("x.bin"));
}

}  // namespace
}  // namespace weft::tools
