// PEFT's description of adapters: the one that Weft writes, and what it reads or refuses of others.
#include "train/checkpoint/adapter_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/train/model_arrays.h"

namespace weft::train {
namespace {

ops::ModelConfig adapted_model(ops::Family family) {
  ops::ModelConfig model = testing::small_model(family, true);
  model.lora = {.rank = 2, .alpha = 3};
  return model;
}

TEST(PeftAdapter, TellsPeftTheModulesAndTheScale) {
  ops::ModelConfig model = adapted_model(ops::Family::llama);
  nlohmann::json json = nlohmann::json::parse(peft_config_json(model, "models/base"));
  EXPECT_EQ(json["base_model_name_or_path"], "models/base");
  EXPECT_EQ(json["peft_type"], "LORA");
  EXPECT_EQ(json["r"], 2);
  EXPECT_EQ(json["lora_alpha"], 3);
  EXPECT_EQ(json["fan_in_fan_out"], false);
  EXPECT_EQ(json["target_modules"],
            (std::vector<std::string>{"down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"}));
  model.lora.alpha = 1.5F;
  model.lora.on = ops::kLoraQkv | ops::kLoraOut;
  json = nlohmann::json::parse(peft_config_json(model, ""));
  EXPECT_TRUE(json["base_model_name_or_path"].is_null());
  EXPECT_EQ(json["lora_alpha"], 1.5);
  EXPECT_EQ(json["target_modules"], (std::vector<std::string>{"k_proj", "o_proj", "q_proj", "v_proj"}));
  json = nlohmann::json::parse(peft_config_json(adapted_model(ops::Family::gpt2), ""));
  EXPECT_EQ(json["fan_in_fan_out"], true);
  EXPECT_EQ(json["target_modules"], (std::vector<std::string>{"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"}));
}

TEST(PeftAdapter, TellsPeftTheModulesWithOtherRanksAndScales) {
  ops::ModelConfig model = adapted_model(ops::Family::llama);
  model.lora = {.rank = 2, .alpha = 3, .on = ops::kLoraQkv | ops::only(ops::LoraModule::up), .rslora = true};
  model.lora.own_rank = {0, 1};
  model.lora.own_alpha = {0, 0, 2.5F};
  const nlohmann::json json = nlohmann::json::parse(peft_config_json(model, ""));
  EXPECT_EQ(json["use_rslora"], true);
  EXPECT_EQ(json["target_modules"], (std::vector<std::string>{"k_proj", "q_proj", "up_proj", "v_proj"}));
  EXPECT_EQ(json["rank_pattern"], (nlohmann::json{{"k_proj", 1}}));
  EXPECT_EQ(json["alpha_pattern"], (nlohmann::json{{"v_proj", 2.5}}));
  const PeftConfig read = read_peft_config(peft_config_json(model, "their/base"), "config", ops::Family::llama);
  EXPECT_EQ(read.rank, 2);
  EXPECT_EQ(read.alpha, 3);
  EXPECT_TRUE(read.rslora);
  EXPECT_EQ(read.base, "their/base");
  EXPECT_EQ(read.ranks, (std::vector<std::pair<std::string, std::int64_t>>{{"k_proj", 1}}));
  EXPECT_EQ(read.alphas, (std::vector<std::pair<std::string, float>>{{"v_proj", 2.5F}}));
  EXPECT_EQ(read.targets, (std::vector<std::string>{"k_proj", "q_proj", "up_proj", "v_proj"}));
}

TEST(PeftConfig, HasPeftsDefaults) {
  const PeftConfig read = read_peft_config(R"({"peft_type": "LORA", "target_modules": "q.*", "lora_dropout": 0.1,
      "r": 4, "layers_to_transform": [0, 1], "init_lora_weights": "gaussian", "modules_to_save": [],
      "loftq_config": {}, "new_setting": null})",
                                           "config", ops::Family::llama);
  EXPECT_EQ(read.rank, 4);
  EXPECT_EQ(read.alpha, 8);
  EXPECT_FALSE(read.rslora || read.targets);
  EXPECT_EQ(read.layers, "[0,1]");
}

TEST(PeftConfig, RefusesOtherAdaptersByName) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> refusals = {
      {R"("use_dora": true)", {"use_dora", "DoRA"}},
      {R"("bias": "lora_only")", {"bias", "lora_only", "\"none\""}},
      {R"("modules_to_save": ["lm_head"])", {"modules_to_save"}},
      {R"("trainable_token_indices": [3])", {"trainable_token_indices", "embedding"}},
      {R"("lora_bias": true)", {"lora_bias"}},
      {R"("use_qalora": true)", {"use_qalora"}},
      {R"("layer_replication": [[0, 2], [1, 3]])", {"layer_replication"}},
      {R"("alora_invocation_tokens": [1])", {"alora_invocation_tokens"}},
      {R"("target_parameters": ["mlp.experts"])", {"target_parameters"}},
      {R"("init_lora_weights": "pissa_niter_16")", {"init_lora_weights", "pissa", "base"}},
      {R"("fan_in_fan_out": true)", {"fan_in_fan_out", "Conv1D"}},
      {R"("rank_pattern": {"layers.[01].q_proj": 2})", {"rank_pattern", "regular expression"}},
      {R"("rank_pattern": {"q_proj": 0})", {"rank_pattern.q_proj"}},
      {R"("alpha_pattern": {"q_proj": -1})", {"alpha_pattern.q_proj"}},
      {R"("lora_alpha": 0)", {"lora_alpha"}},
      {R"("r": 0)", {"r is 0"}},
      {R"("new_setting": 3)", {"new_setting", "doesn't know"}}};
  for (const auto& [member, parts] : refusals) {
    const std::string message = testing::message_of<UserError>([&, &text = member] {
      read_peft_config(R"({"peft_type": "LORA", )" + text + "}", "the config", ops::Family::llama);
    });
    EXPECT_TRUE(has_parts(message, {"the config"})) << member;
    for (const std::string& part : parts) EXPECT_TRUE(has_parts(message, {part})) << member << ": " << message;
  }
  const auto refusal = [](const char* text, ops::Family family) {
    return testing::message_of<UserError>([&] { read_peft_config(text, "the config", family); });
  };
  EXPECT_TRUE(has_parts(refusal(R"({"peft_type": "IA3"})", ops::Family::llama), {"peft_type", "IA3"}));
  EXPECT_TRUE(has_parts(refusal("{}", ops::Family::llama), {"peft_type"}));
  EXPECT_TRUE(
      has_parts(refusal(R"({"peft_type": "LORA", "fan_in_fan_out": false})", ops::Family::gpt2), {"fan_in_fan_out"}));
}

TEST(PeftConfig, NamesEndAtDots) {
  EXPECT_TRUE(is_module("model.layers.0.self_attn.q_proj", "q_proj"));
  EXPECT_TRUE(is_module("model.layers.0.self_attn.q_proj", "self_attn.q_proj"));
  EXPECT_TRUE(is_module("q_proj", "q_proj"));
  EXPECT_FALSE(is_module("model.layers.0.self_attn.q_proj", "proj"));
  EXPECT_FALSE(is_module("proj", "q_proj"));
}

}  // namespace
}  // namespace weft::train
