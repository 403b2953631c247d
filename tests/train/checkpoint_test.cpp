// Saving, finding and loading checkpoints, and what damage to them is refused.
#include "train/checkpoint.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/error.h"
#include "tests/train/model_arrays.h"
#include "tests/train/temporary_folder.h"
#include "train/weights.h"

namespace weft {
namespace {

CheckpointInfo info_of(const ModelConfig& model, DType dtype, std::int64_t step) {
  return {step, 7, 4096, dtype, model, "steps = 9\n# \"quoted\"\n", {{"weft", "0.1.0"}}};
}

class Checkpoint : public ::testing::TestWithParam<std::pair<Family, DType>> {
 protected:
  Checkpoint() : model_(small_model(GetParam().first, true)), dtype_(GetParam().second), arrays_(model_, dtype_, 1) {
    model_.rope_scaling_factor = 8.0F;
    model_.norm_eps = 3e-6F;
    model_.name = "small";
  }
  std::filesystem::path save(std::int64_t step) const {
    return save_checkpoint(folder_.path(), info_of(model_, dtype_, step), arrays_.states());
  }
  std::string load(const std::filesystem::path& path) const {
    ModelArrays loaded(model_, dtype_, 0);
    const std::string refusal = message_of<UserError>([&] { load_checkpoint(path, loaded.mutable_states()); });
    return refusal.empty() ? first_difference(arrays_, loaded, true) : refusal;
  }

  TemporaryFolder folder_;
  ModelConfig model_;
  DType dtype_;
  ModelArrays arrays_;
};

INSTANTIATE_TEST_SUITE_P(All, Checkpoint,
                         ::testing::Values(std::pair(Family::gpt2, DType::f32), std::pair(Family::gpt2, DType::bf16),
                                           std::pair(Family::llama, DType::f32), std::pair(Family::llama, DType::bf16)),
                         [](const auto& info) {
                           return std::string(to_string(info.param.first)) + "_" +
                                  std::string(to_string(info.param.second));
                         });

TEST_P(Checkpoint, GivesEveryBitBack) {
  const auto path = save(200);
  EXPECT_EQ(path.filename(), "step_00000200");
  EXPECT_EQ(load(path), "");
}

TEST_P(Checkpoint, RemembersTheRun) {
  const CheckpointInfo info = read_checkpoint_info(save(200));
  EXPECT_EQ(info.step, 200);
  EXPECT_EQ(info.seed, 7U);
  EXPECT_EQ(info.tokens_seen, 4096U);
  EXPECT_EQ(info.dtype, dtype_);
  EXPECT_EQ(info.config_toml, "steps = 9\n# \"quoted\"\n");
  EXPECT_EQ(info.versions.at("weft"), "0.1.0");
  EXPECT_EQ(info.model.name, "small");
  EXPECT_EQ(info.model.family, model_.family);
  EXPECT_EQ(info.model.kv_heads, model_.kv_heads);
  EXPECT_EQ(info.model.norm_eps, model_.norm_eps);
  EXPECT_EQ(info.model.rope_scaling_factor, 8.0F);
  EXPECT_EQ(info.model.parameters(), model_.parameters());
}

TEST_P(Checkpoint, IsAlsoAFolderOfWeights) {
  const auto path = save(3);
  for (const auto& from : {path, folder_.path(), path / "model.safetensors"}) {
    ModelArrays loaded(model_, dtype_, 0);
    load_parameters(from, model_, loaded.mutable_states());
    EXPECT_EQ(first_difference(arrays_, loaded, false), "") << from;
    EXPECT_EQ(read_model_config(from).parameters(), model_.parameters()) << from;
  }
}

TEST_P(Checkpoint, AnotherDtypeIsRefused) {
  const auto path = save(3);
  ModelArrays other(model_, dtype_ == DType::f32 ? DType::bf16 : DType::f32, 0);
  EXPECT_TRUE(has_parts(message_of<UserError>([&] { load_checkpoint(path, other.mutable_states()); }),
                        {"was trained in " + std::string(to_string(dtype_)), "--dtype", "--init-from"}));
  load_parameters(path, model_, other.mutable_states());  // weights alone convert
}

TEST_P(Checkpoint, TheLatestCompleteOneIsFound) {
  EXPECT_FALSE(latest_checkpoint(folder_.path()).has_value());
  save(9);
  const auto ten = save(10);
  folder_.write("checkpoints/step_00000011/model.safetensors", "cut off: no manifest");
  folder_.write("checkpoints/step_12x/manifest.json", "{}");
  folder_.write("checkpoints/.writing_step_00000013/manifest.json", "{}");
  EXPECT_EQ(latest_checkpoint(folder_.path()), ten);
  EXPECT_EQ(find_checkpoint(folder_.path()), ten);
  EXPECT_EQ(find_checkpoint(ten), ten);
}

TEST_P(Checkpoint, ASecondOneOfTheSameStepReplacesTheFirst) {
  save(5);
  folder_.write("checkpoints/.writing_step_00000005/junk", "from a run that was killed");
  arrays_ = ModelArrays(model_, dtype_, 2);
  EXPECT_EQ(load(save(5)), "");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path("checkpoints")), {}), 1);
}

TEST_P(Checkpoint, TheManifestListsStoredShapesAndSizes) {
  const auto manifest = nlohmann::json::parse(TemporaryFolder::read(save(1) / "manifest.json"));
  const bool gpt2 = model_.family == Family::gpt2;
  EXPECT_EQ(manifest["shapes"][gpt2 ? "wte.weight" : "model.embed_tokens.weight"], nlohmann::json({11, 8}));
  EXPECT_EQ(manifest["files"].size(), 2U);
  const SafetensorsFile optimizer(latest_checkpoint(folder_.path()).value() / "optimizer.safetensors");
  EXPECT_NE(optimizer.find(gpt2 ? "h.0.ln_1.weight.m" : "model.layers.0.mlp.up_proj.weight.m"), nullptr);
  EXPECT_EQ(optimizer.tensors().size(), manifest["shapes"].size() * (dtype_ == DType::bf16 ? 3 : 2));
}

class Damage : public Checkpoint {
 protected:
  void replace(const std::filesystem::path& manifest, const std::string& from, const std::string& to) const {
    std::string text = TemporaryFolder::read(manifest);
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    folder_.write(manifest.lexically_relative(folder_.path()).string(), text.replace(at, from.size(), to));
  }
};

INSTANTIATE_TEST_SUITE_P(Gpt2, Damage, ::testing::Values(std::pair(Family::gpt2, DType::f32)));

TEST_P(Damage, ToFilesIsRefused) {
  const auto path = save(1);
  std::filesystem::resize_file(path / "optimizer.safetensors", 100);
  EXPECT_TRUE(has_parts(load(path), {"optimizer.safetensors' has 100 bytes", "as the manifest says"}));
  std::filesystem::remove(path / "optimizer.safetensors");
  EXPECT_TRUE(has_parts(load(path), {"optimizer.safetensors' is missing"}));
  std::filesystem::remove(path / "manifest.json");
  EXPECT_TRUE(has_parts(load(path), {"manifest.json' doesn't exist"}));
  EXPECT_TRUE(has_parts(message_of<UserError>([&] { find_checkpoint(path); }), {"holds no complete checkpoint"}));
  EXPECT_TRUE(has_parts(message_of<UserError>([&] { find_checkpoint(folder_.path("none")); }), {"doesn't exist"}));
}

TEST_P(Damage, ToTheManifestIsRefused) {
  const auto manifest = save(1) / "manifest.json";
  const auto refusal = [&](const std::string& from, const std::string& to) {
    save(1);
    replace(manifest, from, to);
    return message_of<UserError>([&] { read_checkpoint_info(manifest.parent_path()); });
  };
  EXPECT_TRUE(has_parts(refusal("weft-checkpoint", "other"), {"isn't the manifest of a checkpoint"}));
  EXPECT_TRUE(has_parts(refusal("\"version\": 1", "\"version\": 2"), {"has version 2", "version 1"}));
  EXPECT_TRUE(has_parts(refusal("\"step\": 1", "\"step\": \"1\""), {"manifest.json' is damaged"}));
  EXPECT_TRUE(has_parts(refusal("\"seed\"", "\"sead\""), {"is damaged", "seed"}));
  EXPECT_TRUE(has_parts(refusal("\"f32\"", "\"f8\""), {"dtype f8"}));
  EXPECT_TRUE(has_parts(refusal("\"heads\": 4", "\"heads\": 3"), {"heads"}));
  EXPECT_TRUE(has_parts(refusal("{", "["), {"isn't valid JSON"}));
}

TEST_P(Damage, AnotherModelIsRefusedByTensor) {
  const auto path = save(1);
  ModelConfig wider = model_;
  wider.ffn = 16;
  ModelArrays other(wider, DType::f32, 0);
  EXPECT_TRUE(has_parts(message_of<UserError>([&] { load_checkpoint(path, other.mutable_states()); }),
                        {"'h.0.mlp.c_fc.weight' has shape [8, 12]", "[8, 16]"}));
}

TEST_P(Damage, MissingArraysAreABug) {
  auto states = arrays_.states();
  states[3].v = nullptr;
  EXPECT_THROW(save_checkpoint(folder_.path(), info_of(model_, dtype_, 1), states), std::invalid_argument);
  EXPECT_FALSE(latest_checkpoint(folder_.path()).has_value());
}

TEST_P(Damage, AFaultWhileWritingLeavesTheLastCheckpoint) {
  const auto good = save(1);
  folder_.write("checkpoints/.writing_step_00000002", "a file where a folder must be");
  std::filesystem::permissions(folder_.path("checkpoints"), std::filesystem::perms::all);
  EXPECT_EQ(load(save(2)), "");  // cleared away
  const std::string blocked = folder_.write("blocked", "a file where the run folder must be");
  EXPECT_TRUE(has_parts(
      message_of<RuntimeFault>([&] { save_checkpoint(blocked, info_of(model_, dtype_, 1), arrays_.states()); }),
      {"step_00000001' can't be written", "Not a directory"}));
  EXPECT_EQ(load(good), "");
}

TEST(ReadModelConfig, FromHuggingFaceFolders) {
  const TemporaryFolder folder;
  const ModelConfig model = small_model(Family::llama, false);
  save_weights(folder.path(), model, ModelArrays(model, DType::f32, 1).states());
  EXPECT_EQ(read_model_config(folder.path()).parameters(), model.parameters());
  EXPECT_EQ(read_model_config(folder.path("model.safetensors")).family, Family::llama);
  EXPECT_TRUE(has_parts(message_of<UserError>([&] { read_model_config(folder.path("none")); }), {"none"}));
  std::filesystem::remove(folder.path("config.json"));
  EXPECT_TRUE(
      has_parts(message_of<UserError>([&] { read_model_config(folder.path()); }), {"config.json' doesn't exist"}));
}

}  // namespace
}  // namespace weft
