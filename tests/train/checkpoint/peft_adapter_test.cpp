// Adapters as PEFT reads them, and their merge.
#include "train/checkpoint/peft_adapter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/base/temporary_folder.h"
#include "tests/train/model_arrays.h"
#include "train/checkpoint/safetensors.h"

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
  model.lora.mlp = false;
  json = nlohmann::json::parse(peft_config_json(model, ""));
  EXPECT_TRUE(json["base_model_name_or_path"].is_null());
  EXPECT_EQ(json["lora_alpha"], 1.5);
  EXPECT_EQ(json["target_modules"], (std::vector<std::string>{"k_proj", "o_proj", "q_proj", "v_proj"}));
  json = nlohmann::json::parse(peft_config_json(adapted_model(ops::Family::gpt2), ""));
  EXPECT_EQ(json["fan_in_fan_out"], true);
  EXPECT_EQ(json["target_modules"], (std::vector<std::string>{"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"}));
}

TEST(PeftAdapter, FilesHoldEachAdapterApart) {
  const testing::TemporaryFolder folder;
  const ops::ModelConfig model = adapted_model(ops::Family::llama);
  const testing::ModelArrays arrays(model, DType::bf16, 1);
  const auto files = save_adapter(folder.path(), model, arrays.states(), "base");
  EXPECT_EQ(files.size(), 2U);
  const SafetensorsFile file(folder.path(kAdapterFile));
  EXPECT_EQ(file.tensors().size(), 2U * 7U * 2U);
  const std::string layer = "base_model.model.model.layers.1.";
  const StoredTensorInfo* const v = file.find(layer + "self_attn.v_proj.lora_A.weight");
  ASSERT_NE(v, nullptr);
  EXPECT_EQ(v->type, StoredType::bf16);
  EXPECT_EQ(v->shape, (std::vector<std::uint64_t>{2, 8}));
  ASSERT_NE(file.find(layer + "mlp.up_proj.lora_B.weight"), nullptr);
  EXPECT_EQ(file.find(layer + "mlp.up_proj.lora_B.weight")->shape, (std::vector<std::uint64_t>{12, 2}));
}

// Element by element, of every adapted matrix: W + alpha/rank · B·A, and nothing else changes.
TEST(PeftAdapter, MergeAddsTheProducts) {
  for (const ops::Family family : {ops::Family::gpt2, ops::Family::llama}) {
    const ops::ModelConfig model = adapted_model(family);
    const testing::ModelArrays before(model, DType::f32, 1);
    testing::ModelArrays after(model, DType::f32, 1);
    merge_adapters(model, after.states());
    const auto& specs = before.specs();
    const auto index = [&](const std::string& name) {
      return static_cast<std::size_t>(std::ranges::find(specs, name, &ops::ParameterSpec::name) - specs.begin());
    };
    int merged = 0;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const ops::ParameterSpec& weight = specs[i];
      const std::string stem = weight.name.substr(0, weight.name.rfind(".weight"));
      const std::size_t a = index(stem + ops::kLoraA), b = index(stem + ops::kLoraB);
      if (a == specs.size()) {
        EXPECT_EQ(after.data(i), before.data(i)) << weight.name;
        continue;
      }
      ++merged;
      for (std::int64_t row = 0; row < weight.rows; ++row) {
        std::int64_t part = 0;
        while (row >= weight.stored[static_cast<std::size_t>(part)].row_begin +
                          weight.stored[static_cast<std::size_t>(part)].rows)
          ++part;
        for (std::int64_t col = 0; col < weight.cols; ++col) {
          double expected = before.data(i)[static_cast<std::size_t>(row * weight.cols + col)];
          for (std::int64_t r = 0; r < 2; ++r) {
            expected += 1.5 * static_cast<double>(before.data(b)[static_cast<std::size_t>(row * 2 + r)]) *
                        before.data(a)[static_cast<std::size_t>((part * 2 + r) * weight.cols + col)];
          }
          const double found = after.data(i)[static_cast<std::size_t>(row * weight.cols + col)];
          ASSERT_NEAR(found, expected, 1e-6 * expected) << weight.name << " [" << row << ", " << col << "]";
        }
      }
    }
    EXPECT_EQ(merged, 2 * 4);
  }
}

}  // namespace
}  // namespace weft::train
