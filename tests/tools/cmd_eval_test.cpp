// `weft eval`, `generate`, `export` and `train --init-from` on folders that transformers saved (see
// ../reference/make_hf_folders): the loss is theirs without any flag about the model.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/tools/weft_folder.h"

namespace weft::tools {
namespace {

class HuggingFaceFolder : public testing::WeftFolder, public ::testing::WithParamInterface<const char*> {
 protected:
  HuggingFaceFolder() { std::filesystem::copy(golden(), folder_.path("model")); }
  static std::string golden() { return std::string(WEFT_SOURCE_DIR) + "/tests/reference/golden/" + GetParam(); }
  static nlohmann::json expected() {
    return nlohmann::json::parse(testing::TemporaryFolder::read(golden() + "/expected.json"));
  }
  /// The result of `weft eval` of a folder on the tokens.
  nlohmann::json evaluated(const std::string& folder) const {
    return object_of({"eval", folder, "--val-data", "model/tokens.bin"});
  }
};

INSTANTIATE_TEST_SUITE_P(Models, HuggingFaceFolder,
                         ::testing::Values("hf_gpt2", "hf_llama", "hf_biased_llama", "hf_mistral", "hf_qwen2",
                                           "hf_qwen3", "hf_mixtral", "hf_qwen3_moe"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(HuggingFaceFolder, HasTheLossOfTransformers) {
  const nlohmann::json result = evaluated("model");
  EXPECT_EQ(result.at("targets"), expected().at("targets"));
  EXPECT_NEAR(result.at("val_loss").get<double>(), expected().at("loss").get<double>(), 1e-6);
}

TEST_P(HuggingFaceFolder, ExportedOnceMoreHasTheSameLoss) {
  ASSERT_EQ(run({"export", "model", "-o", "again", "--shard-size", "8KB"}).exit_code, 0);
  EXPECT_FALSE(exists("again/model.safetensors"));
  EXPECT_EQ(evaluated("again").at("val_loss"), evaluated("model").at("val_loss"));
  EXPECT_EQ(run({"export", "model", "-o", "again"}).exit_code, 2);  // nothing is overwritten
  EXPECT_EQ(run({"export", "model", "-o", "other", "--shard-size", "many"}).exit_code, 2);
}

TEST_P(HuggingFaceFolder, GeneratesIds) {
  const testing::CommandResult result = testing::succeeded(
      run({"generate", "model", "--prompt-ids", "5,7", "--max-tokens", "3", "--temperature", "0", "--json"}));
  const auto json = nlohmann::json::parse(result.output);
  EXPECT_EQ(json.at("prompt_ids"), nlohmann::json({5, 7}));
  EXPECT_EQ(json.at("ids").size(), 3U);
  EXPECT_EQ(run({"generate", "model", "--prompt", "a"}).exit_code, 2);
  EXPECT_EQ(run({"generate", "model", "--prompt-ids", "5,200"}).exit_code, 2);
}

// A training that starts there has the loss that an evaluation of the folder has.
TEST_P(HuggingFaceFolder, IsWhereATrainingStarts) {
  const auto train = [&](const Words& more) {
    return run(testing::joined({"train", "--init-from", "model", "--data", "model/tokens.bin", "--val-data",
                                "model/tokens.bin", "--steps", "1", "--json", "--save=false"},
                               more));
  };
  const testing::CommandResult result = testing::succeeded(train({"--run-dir", "run"}));
  const auto json = nlohmann::json::parse(result.output);
  EXPECT_NEAR(json.at("first_val_loss").get<double>(), expected().at("loss").get<double>(), 1e-6);

  EXPECT_EQ(train({"--run-dir", "other", "--model.heads", "2"}).exit_code, 2);
  EXPECT_EQ(train({"--run-dir", "other", "--model", "tiny"}).exit_code, 2);
  auto changed = read_json("model/config.json");
  changed["hidden_act"] = changed["activation_function"] = "relu";
  folder_.write("model/config.json", changed.dump());
  EXPECT_EQ(train({"--run-dir", "other"}).exit_code, 2);
  folder_.write("model/config.json", "not json");
  EXPECT_EQ(train({"--run-dir", "other"}).exit_code, 2);
  EXPECT_FALSE(exists("other"));
}

}  // namespace
}  // namespace weft::tools
