// The parameters of adapters of single modules: their rows, and which of them share matrices.
#include "ops/lora_parameters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/sharding.h"
#include "tests/base/messages.h"
#include "tests/ops/tiny_model.h"

namespace weft::ops {
namespace {

LoraModules modules(std::initializer_list<LoraModule> list) {
  LoraModules set;
  for (const LoraModule module : list) set |= only(module);
  return set;
}

/// The adapters of the first layer as "lora_A 6x16 of 0,32".
std::vector<std::string> adapters_of_first_layer(const ModelConfig& model) {
  std::vector<std::string> found;
  for (const ParameterSpec& spec : model_parameters(model)) {
    if (!spec.adapter || !spec.name.starts_with("L0.")) continue;
    std::string text = spec.name.substr(3, spec.name.rfind(".weight") - 3);
    text += " " + std::to_string(spec.rows) + "x" + std::to_string(spec.cols) + " of";
    for (const std::int64_t row : spec.adapter->rows) text += " " + std::to_string(row);
    found.push_back(text);
  }
  return found;
}

TEST(LoraParameters, HoldRowsOfChosenModulesOnly) {
  ModelConfig model = testing::tiny_model(Family::llama);  // 16 rows of queries, 8 of keys, 8 of values
  model.lora = {.rank = 3, .on = modules({LoraModule::q, LoraModule::v, LoraModule::up})};
  EXPECT_EQ(adapters_of_first_layer(model),
            (std::vector<std::string>{"attn.qkv.lora_A 6x16 of 0 24", "attn.qkv.lora_B 24x3 of 0 24",
                                      "mlp.up.lora_A 3x16 of 24", "mlp.up.lora_B 24x3 of 24"}));
  const auto specs = model_parameters(model);
  const auto b = std::ranges::find(specs, "L0.attn.qkv.lora_B.weight", &ParameterSpec::name);
  ASSERT_EQ(b->stored.size(), 2U);
  EXPECT_EQ(b->stored[1].name, "base_model.model.model.layers.0.self_attn.v_proj.lora_B.weight");
  EXPECT_EQ(b->stored[1].row_begin, 16);
  EXPECT_EQ(b->stored[1].rows, 8);
}

TEST(LoraParameters, AreSharedByModulesOfOneRankAndScale) {
  ModelConfig model = testing::tiny_model(Family::llama);
  model.lora = {.rank = 3, .on = kLoraQkv, .own_rank = {0, 2}};
  EXPECT_EQ(adapters_of_first_layer(model),
            (std::vector<std::string>{"attn.qkv.lora_A 6x16 of 0 24", "attn.qkv.lora_B 24x3 of 0 24",
                                      "attn.qkv.lora_A2 2x16 of 16", "attn.qkv.lora_B2 8x2 of 16"}));
  model.lora = {.rank = 3, .on = kLoraQkv, .own_alpha = {0, 0, 4}};
  EXPECT_EQ(adapters_of_first_layer(model).size(), 4U);
  const auto specs = model_parameters(model);
  const auto last = std::ranges::find(specs, "L1.attn.qkv.lora_A2.weight", &ParameterSpec::name);
  EXPECT_FLOAT_EQ(last->adapter->scale, 4.0F / 3);
  EXPECT_EQ(adapted_weight(*last), "L1.attn.qkv.weight");
  model.lora = {.rank = 3, .on = kLoraQkv};
  EXPECT_EQ(adapters_of_first_layer(model).size(), 2U);
}

TEST(LoraParameters, ScaleByTheRankOrItsRoot) {
  LoraConfig lora{.rank = 4, .alpha = 6, .own_rank = {16}, .own_alpha = {0, 1}};
  EXPECT_EQ(lora.scale_of(LoraModule::q), 6.0F / 16);
  EXPECT_EQ(lora.scale_of(LoraModule::k), 1.0F / 4);
  EXPECT_EQ(lora.scale_of(LoraModule::v), 6.0F / 4);
  lora.rslora = true;
  EXPECT_EQ(lora.scale_of(LoraModule::q), 6.0F / 4);
  EXPECT_EQ(lora.scale_of(LoraModule::v), 6.0F / 2);
}

// B's block has the rows of the heads of a rank, where W's block has other rows between them.
TEST(LoraParameters, AreCutAsTheirMatrix) {
  ModelConfig model = testing::tiny_model(Family::llama);
  model.lora = {.rank = 1, .on = modules({LoraModule::q, LoraModule::v})};
  const auto specs = model_parameters(model);
  const auto b = static_cast<std::size_t>(std::ranges::find(specs, "L0.attn.qkv.lora_B.weight", &ParameterSpec::name) -
                                          specs.begin());
  const graph::Grid grid{.x = 2, .y = 2};
  graph::Coordinates at;
  at.y = 1;
  const ParameterShard shard = shard_parameters(model, specs, grid, at)[b];
  // One head of values for both ranks of x: rows 8–15 of the queries, then 4–7 of the values.
  ASSERT_EQ(shard.runs.size(), 2U);
  EXPECT_EQ(shard.runs[0].global, 8);
  EXPECT_EQ(shard.runs[0].count, 8);
  EXPECT_EQ(shard.runs[1].global, 16 + 4);
  EXPECT_EQ(shard.runs[1].count, 4);
}

TEST(LoraParameters, RefuseWhatAModelCannotHave) {
  struct Case {
    Family family;
    LoraConfig lora;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases = {
      {Family::gpt2, {.rank = 1, .on = only(LoraModule::q)}, {"c_attn", "together", "on=qkv"}},
      {Family::gpt2, {.rank = 2, .own_rank = {1}}, {"c_attn", "together"}},
      {Family::gpt2, {.rank = 1, .on = only(LoraModule::gate)}, {"no gate"}},
      {Family::gpt2,
       {.rank = 1, .on = kLoraQkv | only(LoraModule::gate) | only(LoraModule::up)},
       {"no gate", "on=qkv+up"}},
      {Family::llama, {.rank = 1, .on = kLoraQkv, .own_rank = {0, 0, 0, 2}}, {"alpha of out", "on=qkv+out"}},
      {Family::llama, {.rank = 1, .own_rank = {0, 17}}, {"rank = 17"}},
      {Family::llama, {.rank = 1, .own_alpha = {0, INFINITY}}, {"alpha = inf"}}};
  for (const Case& c : cases) {
    ModelConfig model = testing::tiny_model(c.family);
    model.lora = c.lora;
    const std::string message = testing::message_of<UserError>([&] { validate(model); });
    EXPECT_TRUE(has_parts(message, c.parts)) << to_string(c.lora) << ": " << message;
  }
  ModelConfig model = testing::tiny_model(Family::gpt2);
  model.lora = {.rank = 1, .on = modules({LoraModule::up, LoraModule::down})};
  EXPECT_NO_THROW(validate(model));
  model.lora.on = kLoraMlp;
  EXPECT_NO_THROW(validate(model));
}

}  // namespace
}  // namespace weft::ops
