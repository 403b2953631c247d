// Ids of one tokenizer never meet the model, the ids or the texts of another: every command refuses them with both
// digests; and a checkpoint whose small files were damaged is refused everywhere.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tools/weft_folder.h"

namespace weft::tools {
namespace {

class TokenizerDigest : public testing::WeftFolder {
 protected:
  TokenizerDigest() {
    std::string a, b;
    for (int i = 0; a.size() < 6000; ++i) {
      a += i % 3 == 0 ? "warp and weft\n" : "a loom of yarn ";
      b += i % 5 == 0 ? "spindle, bobbin\n" : "the wheel spins wool ";
    }
    folder_.write("a.txt", a);
    folder_.write("b.txt", b);
    for (const std::string name : {"A", "B"}) {
      const std::string text = (name == "A" ? "a" : "b") + std::string(".txt");
      std::filesystem::create_directory(folder_.path(name));
      output({"tokenize", "--train", "bpe", "--vocab", "280", text, "-o", name + "/tokenizer.json"});
      output({"tokenize", "--tokenizer", name, "a.txt", "-o", (name == "A" ? "a" : "b") + std::string(".bin")});
    }
  }
  static Words training(const std::string& run_dir, const Words& more) {
    const Words words = testing::words_in(
        "train --model custom --model.layers 1 --model.hidden 16 --model.heads 2 --model.ffn 24 --model.context 16 "
        "--model.vocab 280 --global-batch 4 --threads 1 --eval-sequences 4 --steps 2 --trace-steps 0 --quiet "
        "--run-dir " +
        run_dir);
    return testing::joined(words, more);
  }
  std::string digest(const std::string& tokens) const {
    return read_json(tokens + ".json").at("tokenizer").at("digest");
  }
  void expect_both_digests(const Words& words) const { expect_refusal(words, {digest("a.bin"), digest("b.bin")}); }
};

TEST_F(TokenizerDigest, OthersAreRefusedByEveryCommand) {
  ASSERT_NE(digest("a.bin"), digest("b.bin"));
  output(training("of-texts", {"--data", "a.txt", "--tokenizer", "A"}));
  output(training("of-ids", {"--data", "a.bin"}));
  EXPECT_EQ(read_json("of-texts/checkpoints/step_00000002/manifest.json").at("tokenizer_digest"), digest("a.bin"));
  EXPECT_EQ(read_json("of-ids/checkpoints/step_00000002/manifest.json").at("tokenizer_digest"), digest("a.bin"));
  std::filesystem::create_directory(folder_.path("out"));
  std::filesystem::copy(folder_.path("B/tokenizer.json"), folder_.path("out/tokenizer.json"));
  const std::vector<Words> refused = {
      training("new", {"--data", "a.bin", "--tokenizer", "B"}),
      training("new", {"--data", "a.bin", "--data", "b.bin"}),
      training("new", {"--data", "a.bin", "--val-data", "b.bin"}),
      training("new", {"--data", "a.txt", "--init-from", "of-texts", "--tokenizer", "B"}),
      training("new", {"--data", "b.bin", "--init-from", "of-texts"}),
      training("new", {"--data", "b.bin", "--init-from", "of-ids"}),
      {"train", "--resume", "of-texts", "--tokenizer", "B", "--steps", "3"},
      {"train", "--resume", "of-ids", "--tokenizer", "B", "--steps", "3"},
      {"train", "--resume", "of-ids", "--data", "b.bin", "--steps", "3"},
      {"eval", "of-texts", "--data", "b.bin"},
      {"eval", "of-ids", "--data", "b.bin"},
      {"eval", "of-texts", "--val-data", "b.txt", "--tokenizer", "B"},
      {"generate", "of-texts", "--prompt", "a", "--tokenizer", "B"},
      {"generate", "of-ids", "--prompt", "a", "--tokenizer", "B"},
      {"export", "of-texts", "-o", "out"}};
  for (const Words& words : refused) expect_both_digests(words);
  EXPECT_FALSE(exists("new"));
  EXPECT_FALSE(exists("out/model.safetensors"));
  // The user may know better.
  for (Words words : refused) {
    if (words.front() == "train" || words.front() == "export") continue;
    EXPECT_EQ(run(testing::joined(words, {"--accept", "tokenizer"})).exit_code, 0) << words.front();
  }
  EXPECT_EQ(run(testing::joined(refused.front(), {"--accept", "tokenizer"})).exit_code, 0);
  EXPECT_EQ(run({"eval", "of-ids", "--data", "a.bin", "--tokenizer", "A"}).exit_code, 0);
}

TEST_F(TokenizerDigest, ADamagedCheckpointIsRefusedByItsChecksumEverywhere) {
  output(training("run", {"--data", "a.txt", "--tokenizer", "A"}));
  const std::string folder = "run/checkpoints/step_00000002/";
  const auto changed = [&](const std::string& name, const std::vector<std::pair<std::string, std::string>>& changes) {
    std::string text = read(folder + name);
    for (const auto& [from, to] : changes) {
      const std::size_t at = text.find(from);
      EXPECT_NE(at, std::string::npos) << from;
      if (at != std::string::npos) text.replace(at, from.size(), to);
    }
    return text;
  };
  // Two ids change places; another number of heads.
  const std::vector<std::pair<std::string, std::string>> damages = {
      {"tokenizer.json", changed("tokenizer.json", {{"\"H\":39", "\"H\":68"}, {"\"e\":68", "\"e\":39"}})},
      {"config.json", changed("config.json", {{"\"n_head\": 2", "\"n_head\": 4"}})}};
  for (const auto& [name, damaged] : damages) {
    const std::string good = read(folder + name);
    folder_.write(folder + name, damaged);
    for (const Words& words : std::vector<Words>{{"eval", "run"},
                                                 {"generate", "run", "--prompt", "a"},
                                                 {"export", "run", "-o", "out"},
                                                 {"train", "--resume", "run", "--steps", "3"},
                                                 training("new", {"--init-from", "run", "--data", "a.bin"}),
                                                 {"eval", "run", "--accept", "tokenizer"}}) {
      expect_refusal(words, {name + "' has the checksum", "it was damaged"});
    }
    folder_.write(folder + name, good);
  }
  EXPECT_FALSE(exists("out"));
  EXPECT_EQ(run({"eval", "run"}).exit_code, 0);
  // A tokenizer that the manifest doesn't list.
  output(training("of-ids", {"--data", "a.bin"}));
  std::filesystem::copy(folder_.path("B/tokenizer.json"),
                        folder_.path("of-ids/checkpoints/step_00000002/tokenizer.json"));
  expect_both_digests({"generate", "of-ids", "--prompt", "a"});
}

TEST_F(TokenizerDigest, WhatTellsNoneIsReadAsBefore) {
  output(training("run", {"--data", "a.txt", "--tokenizer", "A"}));
  std::filesystem::remove(folder_.path("b.bin.json"));
  EXPECT_EQ(run({"eval", "run", "--data", "b.bin"}).exit_code, 0);
  output(training("again", {"--init-from", "run", "--data", "b.bin"}));
  EXPECT_TRUE(has(read("again/log.txt"), "1 of 1 files don't tell their tokenizer"));
}

TEST_F(TokenizerDigest, AJumpOfTheLearningRateIsTold) {
  output(training("run", {"--data", "a.bin", "--warmup", "0"}));
  const testing::CommandResult jumped =
      testing::succeeded(run({"train", "--resume", "run", "--steps", "4", "--quiet"}));
  EXPECT_TRUE(has(jumped.errors, "steps = 4, before 2: the learning rate jumps from")) << jumped.errors;
  const testing::CommandResult same = testing::succeeded(run({"train", "--resume", "run", "--steps", "4", "--quiet"}));
  EXPECT_FALSE(has(same.errors, "jumps")) << same.errors;
  output(training("flat", {"--data", "a.bin", "--schedule", "constant"}));
  const testing::CommandResult flat = testing::succeeded(run({"train", "--resume", "flat", "--steps", "4", "--quiet"}));
  EXPECT_FALSE(has(flat.errors, "jumps")) << flat.errors;
}

// A new model has the ids of the tokenizer that was named for it; other models keep theirs.
TEST_F(TokenizerDigest, ANewModelTakesTheVocabularyOfItsTokenizer) {
  const auto vocabulary_of = [&](const Words& more) {
    const std::string config = output(testing::joined({"train", "--dump-config"}, more));
    const std::string line = config.substr(config.find("\nvocab = ") + 9);
    return std::stoi(line);
  };
  EXPECT_EQ(vocabulary_of({"--model", "tiny", "--tokenizer", "A"}), 277);
  EXPECT_EQ(vocabulary_of({"--model", "gpt2-124m", "--tokenizer", "A/tokenizer.json"}), 277);
  EXPECT_EQ(vocabulary_of({"--model", "tiny", "--tokenizer", "A", "--model.vocab", "288"}), 288);
  EXPECT_EQ(vocabulary_of({"--model", "tiny"}), 257);
  folder_.write("run.toml", "tokenizer = \"A\"\nsteps = 1\n[model]\nname = \"tiny\"\nlayers = 1\n");
  EXPECT_EQ(vocabulary_of({"run.toml"}), 277);
  EXPECT_NE(output({"simulate", "run.toml", "--dump-config"}).find("\nvocab = 277\n"), std::string::npos);
  output(training("of-ids", {"--data", "a.bin"}));
  EXPECT_EQ(vocabulary_of({"--init-from", "of-ids", "--tokenizer", "A"}), 280);
  output({"train", "run.toml", "--data", "a.txt", "--eval-sequences", "4", "--quiet", "--run-dir", "run"});
  EXPECT_EQ(read_json("run/checkpoints/step_00000001/manifest.json").at("model").at("vocab"), 277);
  expect_refusal({"train", "--model", "tiny", "--tokenizer", "A", "--model.vocab", "257"},
                 {"vocabulary of 277", "257"});
  expect_refusal({"simulate", "--set", "tokenizer=A", "--model", "tiny"}, {"tokenizer"});
}

}  // namespace
}  // namespace weft::tools
