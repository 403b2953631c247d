// Dialogues by a model's chat template: trained on, answered, shown and exported. Needs Python's jinja2.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/tools/weft_folder.h"

namespace weft::tools {
namespace {

class Chat : public testing::WeftFolder {
 protected:
  using Json = nlohmann::json;

  Chat() {
    write_text();
    std::filesystem::create_directory(folder_.path("tok"));
    output({"tokenize", "--train", "bpe", "--vocab", "280", "text.txt", "-o", "tok/tokenizer.json"});
    Json document = read_json("tok/tokenizer.json");
    end_ = document.at("added_tokens").at(0).at("content");
    document["added_tokens"].push_back({{"id", 280}, {"content", "<turn>"}, {"special", true}});
    folder_.write("tok/tokenizer.json", document.dump());
    folder_.write("tok/tokenizer_config.json", Json{{"eos_token", end_}, {"chat_template", kTemplate}}.dump());
    std::string lines;
    for (const auto& [question, answer] : kFacts) {
      lines +=
          Json{{"messages", {{{"role", "user"}, {"content", question}}, {{"role", "assistant"}, {"content", answer}}}}}
              .dump() +
          "\n";
    }
    folder_.write("facts.jsonl", lines);
  }
  void train(const std::string& more) const {
    output(testing::words_in(
        "train --model custom --model.family llama --model.layers 1 --model.hidden 48 --model.heads 2 --model.ffn 96 "
        "--model.context 96 --model.vocab 281 --tokenizer tok --data facts.jsonl --val-data facts.jsonl --packing "
        "documents --document-mask --seq-len 80 --global-batch 3 --threads 1 --steps 120 --lr 1e-2 --warmup 5 "
        "--eval-every 0 --run-dir r --quiet " +
        more));
  }
  std::string answer(const std::string& model, const std::string& question) const {
    return object_of({"generate", model, "--chat", "--prompt", question, "--temperature", "0", "--max-tokens", "16"})
        .at("text");
  }

  static constexpr const char* kTemplate =
      "{% for m in messages %}{{ '[' + m.role + ']' + m.content + '<turn>' }}{% endfor %}"
      "{% if add_generation_prompt %}[assistant]{% endif %}";
  static constexpr std::array<std::pair<const char*, const char*>, 3> kFacts = {
      {{"Red?", "One."}, {"Blue?", "Seven."}, {"Weft?", "Yarn."}}};
  std::string end_;
};

TEST_F(Chat, AModelAnswersByTheTemplateThatItWasTrainedWith) {
  train("");
  for (const auto& [question, said] : kFacts) EXPECT_EQ(answer("r", question), said);
  // The export has the template, and the token that ends a turn.
  output({"export", "r", "-o", "hf"});
  EXPECT_EQ(read_json("hf/tokenizer_config.json").at("chat_template"), kTemplate);
  EXPECT_EQ(read_json("hf/generation_config.json").at("eos_token_id").at(0),
            read_json("hf/config.json").at("eos_token_id"));
  for (const auto& [question, said] : kFacts) EXPECT_EQ(answer("hf", question), said);
}

TEST_F(Chat, AnotherTemplateIsSavedAndExported) {
  train("--chat-template chatml");
  for (const auto& [question, said] : kFacts) EXPECT_EQ(answer("r", question), said);
  output({"export", "r", "-o", "hf"});
  EXPECT_TRUE(has(read("hf/chat_template.jinja"), "<|im_start|>"));
  EXPECT_EQ(read_json("hf/generation_config.json").at("eos_token_id").size(), 1U);
  for (const auto& [question, said] : kFacts) EXPECT_EQ(answer("hf", question), said);
}

TEST_F(Chat, ADialogueGoesOnLineByLine) {
  train("");
  const testing::CommandResult said = testing::run(
      {"/bin/bash", "-c",
       "printf 'Red?\\n\\nBlue?\\n' | " WEFT_BINARY_DIR "/weft generate r --chat --temperature 0 --max-tokens 16"},
      folder_.path().string());
  EXPECT_EQ(said.exit_code, 0) << said.errors;
  EXPECT_TRUE(said.output.starts_with("One.\n")) << said.output;
  EXPECT_EQ(std::ranges::count(said.output, '\n'), 2);
}

TEST_F(Chat, ARecordsLearntPartsAreShown) {
  const Json shown = object_of({"tokenize", "--tokenizer", "tok", "facts.jsonl", "--show", "2"});
  ASSERT_EQ(shown.at("parts").size(), 2U);
  EXPECT_EQ(shown.at("parts").at(0).at("text"), "[user]Blue?<turn>[assistant]");
  EXPECT_EQ(shown.at("parts").at(0).at("learnt"), false);
  EXPECT_EQ(shown.at("parts").at(1).at("text"), "Seven.<turn>");
  EXPECT_EQ(shown.at("learnt"), shown.at("parts").at(1).at("ids").size());
  expect_refusal({"tokenize", "--tokenizer", "tok", "facts.jsonl", "--show", "4"}, {"--show 4", "3 records"});
}

TEST_F(Chat, IsRefusedWithoutATemplateOrAWish) {
  folder_.write("tok/tokenizer_config.json", Json{{"eos_token", end_}}.dump());
  expect_refusal({"tokenize", "--tokenizer", "tok", "facts.jsonl", "-o", "x.bin"},
                 {"line 1", "--chat-template chatml"});
  expect_refusal({"tokenize", "--tokenizer", "tok", "facts.jsonl", "--chat-template", "none", "-o", "x.bin"},
                 {"--chat-template none", "chatml"});
  output(testing::words_in(
      "train --model custom --model.layers 1 --model.hidden 16 --model.heads 2 --model.ffn 24 --model.context 32 "
      "--model.vocab 281 --tokenizer tok --data text.txt --threads 1 --steps 1 --eval-sequences 1 --run-dir r "
      "--quiet"));
  expect_refusal({"generate", "r", "--chat", "--prompt", "x"}, {"no chat template", "--chat-template"});
  expect_refusal({"generate", "r", "--system", "x", "--prompt", "x"}, {"--system without --chat"});
  expect_refusal({"generate", "r", "--chat", "--prompt-ids", "1"}, {"--chat and --prompt-ids"});
}

}  // namespace
}  // namespace weft::tools
