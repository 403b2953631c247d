// `weft tokenize`, run as a user does.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace weft::tools {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

class Tokenize : public ::testing::Test {
 protected:
  testing::CommandResult weft(const Words& words) const {
    return testing::run_weft(testing::joined({"tokenize"}, words), folder_.path().string());
  }
  json object_of(const Words& words) const {
    const auto result = weft(testing::joined(words, {"--json"}));
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return json::parse(result.output);
  }
  std::string refusal(const Words& words) const {
    const auto result = weft(words);
    EXPECT_EQ(result.exit_code, 2) << result.output;
    return result.errors;
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(Tokenize, ShowsTheTokensOfAText) {
  EXPECT_EQ(object_of({"--text", "Hi <|endoftext|>"}).at("tokens"), 16);
  const auto shown = weft({"--text", "Hi!"});
  EXPECT_TRUE(testing::has_parts(shown.output, {"72  H", "105  i", "33  !", "3 tokens of 3 bytes"})) << shown.output;
  EXPECT_EQ(object_of({"--decode", "72,105,256"}).at("text"), "Hi<|endoftext|>");
}

TEST_F(Tokenize, LearnsAVocabularyAndUsesIt) {
  folder_.write("book.txt", "the other then the\nthe end of the book\n");
  const json learnt = object_of({"--train", "bpe", "--vocab", "262", "book.txt", "-o", "tokenizer.json"});
  EXPECT_EQ(learnt.at("vocabulary"), 262);
  EXPECT_EQ(learnt.at("merges"), 5);
  const json made = object_of({"--tokenizer", ".", "book.txt", "-o", "book.bin", "--verify"});
  EXPECT_EQ(made.at("documents"), 1);
  EXPECT_EQ(made.at("parts_that_differ"), 0);
  EXPECT_EQ(made.at("width"), "u16");
  EXPECT_EQ(made.at("vocabulary"), 262);
  const json about = json::parse(testing::TemporaryFolder::read(folder_.path("book.bin.json")));
  EXPECT_EQ(about.at("separator"), 261);
  EXPECT_EQ(about.at("tokens"), made.at("tokens"));
  const json special = object_of({"--tokenizer", ".", "--text", "a<|endoftext|>", "--special"});
  EXPECT_EQ(special.at("ids").back(), 261);
  EXPECT_GT(object_of({"--tokenizer", ".", "--text", "a<|endoftext|>"}).at("tokens"), 2);
}

TEST_F(Tokenize, TakesJsonLinesAndFolders) {
  folder_.write("data/a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  folder_.write("data/b.txt", "three");
  EXPECT_EQ(object_of({"data", "-o", "all.bin"}).at("documents"), 3);
  EXPECT_EQ(object_of({"data/*.jsonl", "-o", "two.bin", "--separator", "none"}).at("tokens"), 6);
  folder_.write("c.json", "{\"body\": \"four\"}\n");
  EXPECT_EQ(object_of({"c.json", "--field", "body", "-o", "c.bin", "--separator", "0"}).at("tokens"), 5);
}

TEST_F(Tokenize, RefusesWhatMakesNoSense) {
  folder_.write("a.txt", "text");
  folder_.write("a.npy", "\x93NUMPY");
  folder_.write("a.jsonl", "{\"body\": 1}\n");
  folder_.write("bert.json", R"({"model": {"type": "WordPiece", "vocab": {}}})");
  EXPECT_TRUE(testing::has_parts(refusal({}), {"without -o", "--text"}));
  EXPECT_TRUE(testing::has_parts(refusal({"a.txt"}), {"without -o"}));
  EXPECT_TRUE(testing::has_parts(refusal({"none.txt", "-o", "x.bin"}), {"none.txt' doesn't exist"}));
  EXPECT_TRUE(testing::has_parts(refusal({"a.npy", "-o", "x.bin"}), {"a NumPy array"}));
  EXPECT_TRUE(testing::has_parts(refusal({"a.jsonl", "-o", "x.bin"}), {"a.jsonl' line 1", "\"text\""}));
  EXPECT_TRUE(testing::has_parts(refusal({"a.txt", "-o", "x.bin", "--separator", "<none>"}), {"--separator <none>"}));
  EXPECT_TRUE(testing::has_parts(refusal({"a.txt", "-o", "/dev/stdout"}), {"no regular file"}));
  EXPECT_TRUE(testing::has_parts(refusal({"a.txt", "--text", "x"}), {"--text or --decode with files"}));
  EXPECT_TRUE(testing::has_parts(refusal({"--decode", "72,300"}), {"token 1 has id 300"}));
  EXPECT_TRUE(testing::has_parts(refusal({"--tokenizer", "bert.json", "--text", "x"}), {"model.type", "WordPiece"}));
  EXPECT_TRUE(
      testing::has_parts(refusal({"--train", "bpe", "--vocab", "200", "a.txt", "-o", "t.json"}), {"--vocab 200"}));
  EXPECT_TRUE(testing::has_parts(refusal({"--train", "bpe", "--vocab", "300", "a.txt"}), {"--train without -o"}));
  EXPECT_FALSE(std::filesystem::exists(folder_.path("x.bin")));
}

}  // namespace
}  // namespace weft::tools
