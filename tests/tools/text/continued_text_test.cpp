// A trained prompt is continued as it was trained, and every end of a text ends what a model writes.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tools/weft_folder.h"

namespace weft::tools {
namespace {

class ContinuedText : public testing::WeftFolder {
 protected:
  using Ids = std::vector<std::int32_t>;

  /// A prompt continued by the likeliest tokens.
  nlohmann::json continued(const std::string& model, const std::string& prompt, int tokens) const {
    return object_of(
        {"generate", model, "--prompt", prompt, "--max-tokens", std::to_string(tokens), "--temperature", "0"});
  }
  /// The id that a tokenizer's file gives to its end of a text.
  std::int32_t end_of(const std::string& folder) const {
    return read_json(folder + "/tokenizer.json").at("added_tokens").at(0).at("id");
  }
  void write_json(const std::string& name, const nlohmann::json& json) const { folder_.write(name, json.dump()); }
};

TEST_F(ContinuedText, APromptIsContinuedAsTrained) {
  folder_.write("p.jsonl",
                R"({"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good day."}]})"
                "\n"
                R"({"prompt": "Name a tool of weaving.", "completion": " A loom."})"
                "\n"
                R"({"prompt": "Name a colour of the yarn.", "completion": " Red."})"
                "\n");
  output({"tokenize", "p.jsonl", "--chat-template", "chatml", "-o", "p.bin"});
  // Each document has a sequence of its own, so that its positions are those of a prompt.
  output(
      testing::words_in("train --model tiny --data p.bin --val-data p.bin --seq-len 64 --global-batch 2 --packing "
                        "documents --document-mask --steps 150 --warmup 0 --threads 2 --run-dir r --quiet"));
  const nlohmann::json chat = object_of({"generate", "r", "--chat", "--chat-template", "chatml", "--prompt", "Hello",
                                         "--max-tokens", "12", "--temperature", "0"});
  EXPECT_EQ(chat.at("text"), "Good day.");
  EXPECT_EQ(chat.at("prompt_ids").at(0), '<');
  EXPECT_EQ(continued("r", "Name a tool of weaving.", 12).at("text"), " A loom.");
  EXPECT_EQ(continued("r", "Name a colour of the yarn.", 12).at("text"), " Red.");
}

TEST_F(ContinuedText, AllListedEndsEndATextAndAreWrittenBack) {
  write_text();
  std::filesystem::create_directory(folder_.path("tok"));
  output({"tokenize", "--train", "bpe", "--vocab", "280", "text.txt", "-o", "tok/tokenizer.json"});
  output(
      testing::words_in("train --model custom --model.layers 1 --model.hidden 16 --model.heads 2 --model.ffn 24 "
                        "--model.context 32 --model.vocab 280 --tokenizer tok --data text.txt --threads 1 --steps "
                        "20 --lr 3e-3 --eval-sequences 4 --run-dir r --quiet"));
  const std::int32_t end = read_json("r/checkpoints/step_00000020/config.json").at("eos_token_id");
  EXPECT_EQ(end, end_of("tok"));
  output({"export", "r", "-o", "hf"});
  const Ids made = continued("hf", "warp", 6).at("ids");
  ASSERT_EQ(made.size(), 6U);
  const std::int32_t last = made[3], one = 250, other = 251;  // bytes that no text has
  const Ids before(made.begin(), std::ranges::find(made, last));

  nlohmann::json config = read_json("hf/config.json");
  config["eos_token_id"] = {other, last};
  write_json("hf/config.json", config);
  EXPECT_EQ(continued("hf", "warp", 6).at("ids").get<Ids>(), before);
  config["eos_token_id"] = other;
  write_json("hf/config.json", config);
  EXPECT_EQ(continued("hf", "warp", 6).at("ids").get<Ids>(), made);
  write_json("hf/generation_config.json", {{"eos_token_id", {one, last}}, {"bos_token_id", end}});
  EXPECT_EQ(continued("hf", "warp", 6).at("ids").get<Ids>(), before);

  // In an export, and in a run that began with these weights.
  output({"export", "hf", "-o", "again"});
  const Ids ends = {end, one, last, other};
  EXPECT_EQ(read_json("again/config.json").at("eos_token_id").get<Ids>(), ends);
  EXPECT_EQ(read_json("again/generation_config.json"), read_json("hf/generation_config.json"));
  EXPECT_EQ(continued("again", "warp", 6).at("ids").get<Ids>(), before);
  output(
      testing::words_in("train --init-from hf --data text.txt --threads 1 --steps 1 --lr 0 --eval-sequences 4 "
                        "--run-dir tuned --quiet"));
  EXPECT_EQ(read_json("tuned/checkpoints/step_00000001/config.json").at("eos_token_id").get<Ids>(), ends);
  EXPECT_EQ(continued("tuned", "warp", 6).at("ids").get<Ids>(), before);
}

TEST_F(ContinuedText, NoTokenBeginsATextThatHasNone) {
  write_text();
  std::filesystem::create_directory(folder_.path("tok"));
  output({"tokenize", "--train", "bpe", "--vocab", "280", "text.txt", "-o", "tok/tokenizer.json"});
  write_json("tok/tokenizer_config.json", {{"bos_token", nullptr}, {"eos_token", "<|endoftext|>"}});
  write_json("tok/config.json", {{"bos_token_id", 3}});
  output({"tokenize", "--tokenizer", "tok", "text.txt", "-o", "ids.bin"});
  EXPECT_EQ(read_json("ids.bin.json").at("separator"), end_of("tok"));  // the end of the text before
  write_json("tok/tokenizer_config.json", {{"bos_token", "a"}, {"eos_token", "<|endoftext|>"}});
  output({"tokenize", "--tokenizer", "tok", "text.txt", "-o", "ids.bin"});
  EXPECT_EQ(read_json("ids.bin.json").at("separator"), read_json("tok/tokenizer.json")["model"]["vocab"]["a"]);
}

}  // namespace
}  // namespace weft::tools
