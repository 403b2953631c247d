#include "ops/family.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "tests/ops/tiny_model.h"

namespace weft::ops {
namespace {

TEST(Family, EveryFamilyHasItsRow) {
  for (std::size_t i = 0; i < all_families().size(); ++i) {
    const FamilyParts& parts = all_families()[i];
    EXPECT_EQ(static_cast<std::size_t>(parts.family), i) << parts.name;
    EXPECT_EQ(&parts_of(parts.family), &parts);
    EXPECT_EQ(to_string(parts.family), parts.name);
  }
}

TEST(Family, KeysOfRowsAreKeysOfAdditions) {
  std::set<std::string_view> used;
  for (const FamilyParts& parts : all_families()) used.insert(parts.keys.begin(), parts.keys.end());
  std::set<std::string_view> known;
  for (const Addition& addition : additions()) known.insert(addition.key);
  EXPECT_EQ(used, known);
}

TEST(Family, AnAdditionIsUsedUntilItIsDropped) {
  for (const testing::ModelKind kind : testing::kEveryKind) {
    ModelConfig model = testing::tiny_model(kind);
    for (const Addition& addition : additions()) {
      if (addition.used(model)) {
        EXPECT_TRUE(model.parts().has_key(addition.key)) << to_string(kind) << " " << addition.key;
      }
      addition.drop(model);
      EXPECT_FALSE(addition.used(model)) << addition.key;
    }
  }
}

// Norms before, after and around a branch, and names of files, from the classes in transformers.
TEST(Family, ParametersAreThoseOfTheClass) {
  const auto stored = [](testing::ModelKind kind) {
    std::set<std::string> names;
    for (const ParameterSpec& spec : model_parameters(testing::tiny_model(kind))) {
      for (const StoredTensor& tensor : spec.stored) {
        constexpr std::string_view kSecond = "layers.1.";
        const std::size_t layer = tensor.name.find(kSecond);
        if (layer != std::string::npos) names.insert(tensor.name.substr(layer + kSecond.size()));
      }
    }
    return names;
  };
  using Names = std::set<std::string>;
  EXPECT_EQ(stored(testing::ModelKind::phi3),
            (Names{"input_layernorm.weight", "self_attn.qkv_proj.weight", "self_attn.o_proj.weight",
                   "post_attention_layernorm.weight", "mlp.gate_up_proj.weight", "mlp.down_proj.weight"}));
  const Names matrices = {"self_attn.q_proj.weight",
                          "self_attn.k_proj.weight",
                          "self_attn.v_proj.weight",
                          "self_attn.o_proj.weight",
                          "mlp.gate_proj.weight",
                          "mlp.up_proj.weight",
                          "mlp.down_proj.weight",
                          "self_attn.q_norm.weight",
                          "self_attn.k_norm.weight",
                          "post_attention_layernorm.weight",
                          "post_feedforward_layernorm.weight"};
  EXPECT_EQ(stored(testing::ModelKind::olmo3), matrices);
  Names gemma3 = matrices;
  gemma3.insert({"input_layernorm.weight", "pre_feedforward_layernorm.weight"});
  EXPECT_EQ(stored(testing::ModelKind::gemma3_text), gemma3);
  Names experts = {"input_layernorm.weight",  "self_attn.q_proj.weight", "self_attn.k_proj.weight",
                   "self_attn.v_proj.weight", "self_attn.o_proj.weight", "post_attention_layernorm.weight"};
  Names qwen = experts;
  experts.insert("block_sparse_moe.gate.weight");
  for (const char* expert : {"0", "1", "2", "3"}) {
    for (const char* part : {"w1", "w2", "w3"}) {
      experts.insert(fmt::format("block_sparse_moe.experts.{}.{}.weight", expert, part));
    }
  }
  EXPECT_EQ(stored(testing::ModelKind::mixtral), experts);
  qwen.insert({"self_attn.q_norm.weight", "self_attn.k_norm.weight", "mlp.gate.weight"});
  for (int expert = 0; expert < 8; ++expert) {
    for (const char* part : {"gate_proj", "up_proj", "down_proj"}) {
      qwen.insert(fmt::format("mlp.experts.{}.{}.weight", expert, part));
    }
  }
  EXPECT_EQ(stored(testing::ModelKind::qwen3_moe), qwen);
}

TEST(Family, NormsBeginAsTheIdentity) {
  const auto init_of = [](testing::ModelKind kind) {
    const auto specs = model_parameters(testing::tiny_model(kind));
    return std::ranges::find(specs, "L1.attn.q_norm.weight", &ParameterSpec::name)->init;
  };
  EXPECT_EQ(init_of(testing::ModelKind::olmo2), Init::ones);
  EXPECT_EQ(init_of(testing::ModelKind::gemma3_text), Init::zeros);
}

}  // namespace
}  // namespace weft::ops
