// The key `model` with a folder of Hugging Face in place of a name: its sizes, whole, and the refusals.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "train/checkpoint/hf_config.h"
#include "train/config/config.h"

namespace weft::train {
namespace {

namespace fs = std::filesystem;

class ModelFolders : public ::testing::Test {
 protected:
  /// Writes config.json as an export of the model does.
  std::string folder_of(const ops::ModelConfig& model, const std::string& name = "hf") const {
    folder_.write(name + "/config.json", hf_config_json(model, DType::f32));
    return folder_.path(name).string();
  }
  static RunConfig with_model(const std::string& value, std::vector<Setting> more = {}) {
    more.push_back({"model", value, "--model"});
    RunConfig config;
    apply_settings(config, std::move(more));
    return config;
  }
  static std::string refusal(const std::string& value) {
    return testing::message_of<UserError>([&] { with_model(value); });
  }
  /// The model's part of a dump, which has every size, with the name that a model of single sizes has.
  static std::string sizes(RunConfig config) {
    config.model_name = config.model.name = kCustomModel;
    const std::string dump = dump_toml(config);
    return dump.substr(dump.find("[model]"));
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(ModelFolders, GiveTheModelThatWasExported) {
  std::vector<ops::ModelConfig> models;
  for (const std::string& name : ops::model_names()) models.push_back(ops::model_by_name(name));
  models.push_back(ops::model_by_name("tiny"));
  models.back().tied = false;
  models.back().ffn = 300;
  models.back().norm_eps = 3e-6F;
  models.back().init_std = 0.03F;
  for (const ops::ModelConfig& model : models) {
    RunConfig expected;
    expected.model = model;
    RunConfig found = with_model(folder_of(model));
    EXPECT_EQ(sizes(found), sizes(expected)) << model.name;
    EXPECT_EQ(found.model_name, kCustomModel);
    if (model.context > 4096) continue;  // a step of one rank's whole batch is too large a graph
    fill_in(found, 0);
    EXPECT_EQ(sizes(found), sizes(expected)) << model.name;
  }
}

TEST_F(ModelFolders, AreWholeInAConfigurationsFile) {
  const ops::ModelConfig model = ops::model_by_name("llama-tiny");
  RunConfig config = with_model(folder_of(model));
  fill_in(config, 0);
  const std::string dump = dump_toml(config);
  fs::remove_all(folder_.path("hf"));
  EXPECT_FALSE(testing::contains(dump, folder_.path("hf").string())) << dump;
  RunConfig back;
  load_toml_text(back, dump, "dump");
  fill_in(back, 0);
  EXPECT_EQ(dump_toml(back), dump);
}

TEST_F(ModelFolders, AreNamedInFilesAndChangedBySingleSizes) {
  const std::string hf = folder_of(ops::model_by_name("llama-tiny"));
  RunConfig config;
  load_toml_text(config, "[model]\nlayers = 2\nname = \"" + hf + "\"\n", "run.toml");
  EXPECT_EQ(config.model.layers, 2);
  EXPECT_EQ(config.model.family, ops::Family::llama);
  EXPECT_EQ(config.model.kv_heads, 2);
  EXPECT_EQ(config.model_folder, "");  // another model than the folder's
  EXPECT_EQ(with_model(hf).model_folder, hf);
  apply_settings(config, {{"model", "tiny", "--model"}});
  EXPECT_EQ(config.model_name, "tiny");
}

TEST_F(ModelFolders, DontHideModelsOfTheirName) {
  folder_of(ops::model_by_name("llama-tiny"), "tiny");
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  const RunConfig named = with_model("tiny"), folder = with_model("./tiny");
  fs::rename("tiny", "mine");
  const RunConfig bare = with_model("mine");
  fs::current_path(before);
  EXPECT_EQ(named.model_name, "tiny");
  EXPECT_EQ(named.model.family, ops::Family::gpt2);
  EXPECT_EQ(folder.model.family, ops::Family::llama);
  EXPECT_EQ(bare.model.family, ops::Family::llama);
}

TEST_F(ModelFolders, AreRefusedUnlessTheyHoldAModelThatWeftComputes) {
  fs::create_directory(folder_.path("empty"));
  folder_.write("run/config.toml", "steps = 3\n");
  folder_.write("broken/config.json", "{\"model_type\": ");
  folder_.write("biased/config.json", R"({"model_type": "mistral", "vocab_size": 11, "hidden_size": 8,
    "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 4, "attention_bias": true})");
  folder_.write("other/config.json", R"({"model_type": "gemma2"})");
  fs::create_directories(folder_.path("odd/config.json"));
  const auto refused = [&](const char* name) { return refusal(folder_.path(name).string()); };
  EXPECT_TRUE(has_parts(refused("missing"), {"--model: ", "missing' doesn't exist", "check the path"}));
  EXPECT_TRUE(has_parts(refused("run/config.toml"), {"is no folder", "a folder of Hugging Face"}));
  EXPECT_TRUE(has_parts(refused("empty"), {"empty' has no config.json", "fix: copy the model's config.json"}));
  EXPECT_TRUE(has_parts(refused("run"), {"run' has no config.json", "a run's folder without --model"}));
  EXPECT_TRUE(has_parts(refused("broken"), {"broken/config.json' isn't valid JSON"}));
  EXPECT_TRUE(has_parts(refused("biased"), {"biased/config.json': attention_bias is true", "fix: "}));
  EXPECT_TRUE(has_parts(refused("other"), {"other/config.json': model_type is gemma2"}));
  EXPECT_TRUE(has_parts(refused("odd"), {"odd/config.json' is a folder"}));
  EXPECT_TRUE(has_parts(refusal("no-such-model"), {"unknown model 'no-such-model'", "Hugging Face"}));
  EXPECT_TRUE(has_parts(refusal(std::string("hf\0/", 4)), {"is not plain text"}));
}

TEST_F(ModelFolders, SayThatTheirWeightsArentLoaded) {
  const std::string hf = folder_of(ops::model_by_name("llama-tiny"));
  const auto warnings = [](RunConfig config) {
    fill_in(config, 0);
    return config.warnings;
  };
  EXPECT_TRUE(warnings(with_model(hf)).empty());  // there are none
  folder_.write("hf/model.safetensors", "");
  ASSERT_EQ(warnings(with_model(hf)).size(), 1U);
  EXPECT_TRUE(has_parts(warnings(with_model(hf))[0], {"model = " + hf, "random weights", "--init-from " + hf}));
  EXPECT_TRUE(warnings(with_model(hf, {{"init-from", hf, "--init-from"}})).empty());
  EXPECT_TRUE(warnings(with_model(hf, {{"model.layers", "2", "--model.layers"}})).empty());
}

TEST_F(ModelFolders, AreNamedWhereOtherWeightsContradictThem) {
  const std::string hf = folder_of(ops::model_by_name("llama-tiny"));
  const std::string other = folder_of(ops::model_by_name("tiny"), "other");
  RunConfig config = with_model(hf, {{"init-from", other, "--init-from"}});
  EXPECT_TRUE(refuses([&] { fill_in(config, 0); },
                      {"model.family = llama (model " + hf + ")", "leave model = " + hf + " out"}));
}

}  // namespace
}  // namespace weft::train
