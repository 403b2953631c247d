#include "ops/model_config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/ops/tiny_model.h"

namespace weft::ops {
namespace {

std::vector<ModelConfig> all_models() {
  std::vector<ModelConfig> models;
  for (const std::string& name : model_names()) models.push_back(model_by_name(name));
  // A model that has no name: gpt2 with an untied head.
  models.push_back(model_by_name("tiny"));
  models.back().tied = false;
  for (const testing::ModelKind kind : testing::kEveryKind) models.push_back(testing::tiny_model(kind));
  return models;
}

// The counts in the releases' own tables and checkpoints.
TEST(ModelConfig, PublishedModelsHaveTheirPublishedSizes) {
  const std::map<std::string, std::int64_t> published = {
      {"gpt2-124m", 124'439'808},        {"gpt2-350m", 354'823'168},  {"gpt2-774m", 774'030'080},
      {"gpt2-1558m", 1'557'611'200},     {"llama-1b", 1'235'814'400}, {"llama-3b", 3'212'749'824},
      {"tinyllama-1.1b", 1'100'048'384}, {"llama-7b", 6'738'415'616}, {"llama-8b", 8'030'261'248}};
  for (const auto& [name, count] : published) EXPECT_EQ(model_by_name(name).parameters(), count) << name;
  // AxoNN publishes rounded sizes in billions.
  const std::map<std::string, double> billions = {{"gpt-5b", 5.1},      {"gpt-10b", 10.3},     {"gpt-20b", 20.1},
                                                  {"gpt-40b", 39.2},    {"gpt-60b", 57.6},     {"gpt-80b", 76.8},
                                                  {"gpt-100b", 96.7},   {"gpt-160b", 152.9},   {"gpt-175b", 174.6},
                                                  {"llama-70b", 70.55}, {"llama-405b", 405.85}};
  for (const auto& [name, count] : billions) {
    EXPECT_NEAR(static_cast<double>(model_by_name(name).parameters()), count * 1e9, 0.06e9) << name;
  }
  EXPECT_NEAR(static_cast<double>(model_by_name("gpt-320b").parameters()), 310e9, 0.5e9);
  EXPECT_NEAR(static_cast<double>(model_by_name("gpt-640b").parameters()), 619e9, 0.5e9);
}

TEST(ModelConfig, ATokenComputesWithItsExpertsAlone) {
  const ModelConfig mixtral = model_by_name("mixtral-8x7b");
  EXPECT_EQ(mixtral.parameters(), 46'702'792'704);
  EXPECT_EQ(mixtral.active_parameters(), 12'879'925'248);
  ModelConfig model = testing::tiny_model(testing::ModelKind::qwen3_moe);  // 2 layers, 3 of 8 experts of 12 columns
  EXPECT_EQ(model.parameters() - model.active_parameters(), 2 * 5 * 3 * 16 * 12);
  model.dense_layers = LayerSet({0});
  EXPECT_EQ(model.parameters() - model.active_parameters(), 5 * 3 * 16 * 12);
  const ModelConfig dense = model_by_name("llama-8b");
  EXPECT_EQ(dense.active_parameters(), dense.parameters());
}

TEST(ModelConfig, EveryNamedModelIsValid) {
  for (const ModelConfig& model : all_models()) EXPECT_NO_THROW(validate(model)) << model.name;
}

TEST(ModelConfig, UnknownNameIsAnsweredWithTheNearest) {
  EXPECT_TRUE(refuses([] { model_by_name("gpt2-124"); }, {"did you mean --model gpt2-124m?"}));
  EXPECT_THROW(model_by_name("no model is called like this"), UserError);
}

TEST(ModelConfig, AdaptersFollowAFrozenModelUnderPeftsNames) {
  ModelConfig model = testing::tiny_model(testing::ModelKind::qwen2);
  const std::vector<ParameterSpec> plain = model_parameters(model);
  for (const ParameterSpec& spec : plain) EXPECT_FALSE(spec.frozen || is_adapter(spec)) << spec.name;
  EXPECT_EQ(model.adapter_parameters(), 0);
  model.lora = {.rank = 3, .alpha = 6};
  const std::vector<ParameterSpec> specs = model_parameters(model);
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ(specs[i].frozen, i < plain.size()) << specs[i].name;
    EXPECT_EQ(is_adapter(specs[i]), i >= plain.size()) << specs[i].name;
    EXPECT_EQ(specs[i].site, i);
    if (i < plain.size()) {
      EXPECT_EQ(specs[i].name, plain[i].name);
    } else {
      elements += specs[i].rows * specs[i].cols;
    }
  }
  EXPECT_EQ(model.adapter_parameters(), elements);
  const ParameterSpec &a = specs[plain.size()], &b = specs[plain.size() + 1];
  EXPECT_EQ(a.name, "L0.attn.qkv.lora_A.weight");
  EXPECT_EQ(b.name, "L0.attn.qkv.lora_B.weight");
  EXPECT_EQ(adapted_weight(a), "L0.attn.qkv.weight");
  EXPECT_EQ(adapted_weight(b), "L0.attn.qkv.weight");
  EXPECT_EQ(a.rows, 3 * 3);
  EXPECT_EQ(b.rows, model.query_cols() + 2 * model.key_cols());
  EXPECT_EQ(b.cols, 3);
  EXPECT_EQ(a.stored.at(1).name, "base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight");
  EXPECT_EQ(a.stored.at(1).row_begin, 3);
  EXPECT_EQ(b.stored.at(2).name, "base_model.model.model.layers.0.self_attn.v_proj.lora_B.weight");
  EXPECT_EQ(b.stored.at(2).rows, model.key_cols());
  EXPECT_FLOAT_EQ(a.std, 1 / std::sqrt(static_cast<float>(model.hidden)));

  model = testing::tiny_model(testing::ModelKind::gpt2);
  model.lora = {.rank = 1, .on = kLoraMlp};
  const std::vector<ParameterSpec> mlp = model_parameters(model);
  EXPECT_EQ(mlp.back().name, fmt::format("L{}.mlp.down.lora_B.weight", model.layers - 1));
  EXPECT_EQ(mlp.back().stored.at(0).name,
            fmt::format("base_model.model.transformer.h.{}.mlp.c_proj.lora_B.weight", model.layers - 1));
  EXPECT_FALSE(mlp.back().stored.at(0).transposed);
  EXPECT_EQ(std::ranges::count_if(mlp, is_adapter), 4 * model.layers);
  EXPECT_EQ(to_string(model.lora), "rank=1,alpha=16,on=mlp");
}

struct Refusal {
  std::string what;
  std::function<void(ModelConfig&)> change;
  std::string expected;  // part of the message
};

TEST(ModelConfig, RefusesWhatCannotBeAModel) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<Refusal> refusals = {
      {"no layers", [](ModelConfig& m) { m.layers = 0; }, "model.layers"},
      {"a rank above the width", [](ModelConfig& m) { m.lora.rank = m.hidden + 1; }, "lora rank"},
      {"alpha of zero", [](ModelConfig& m) { m.lora = {.rank = 1, .alpha = 0}; }, "lora alpha"},
      {"adapters nowhere", [](ModelConfig& m) { m.lora = {.rank = 1, .on = {}}; }, "lora on no layer"},
      {"negative hidden", [](ModelConfig& m) { m.hidden = -256; }, "model.hidden"},
      {"no vocabulary", [](ModelConfig& m) { m.vocab = 0; }, "model.vocab"},
      {"huge vocabulary", [](ModelConfig& m) { m.vocab = std::int64_t{1} << 60; }, "model.vocab"},
      {"no feed-forward", [](ModelConfig& m) { m.ffn = 0; }, "model.ffn"},
      {"no context", [](ModelConfig& m) { m.context = 0; }, "model.context"},
      {"no heads", [](ModelConfig& m) { m.heads = 0; }, "model.heads"},
      {"heads that don't divide", [](ModelConfig& m) { m.heads = m.kv_heads = 6; }, "1, 2, 4, 8, 16"},
      {"key/value heads that don't divide", [](ModelConfig& m) { m.kv_heads = 3; }, "set model.kv-heads to one of"},
      {"more key/value heads than heads", [](ModelConfig& m) { m.kv_heads = 16; }, "model.kv-heads"},
      {"odd head size with RoPE", [](ModelConfig& m) { m.hidden = 8 * 31; }, "even head size"},
      {"grouped queries in gpt2", [](ModelConfig& m) { m.family = Family::gpt2, m.kv_heads = 2; }, "family=llama"},
      {"norm-eps zero", [](ModelConfig& m) { m.norm_eps = 0; }, "model.norm-eps"},
      {"init-std negative", [](ModelConfig& m) { m.init_std = -1; }, "model.init-std"},
      {"rope-theta infinite", [infinity](ModelConfig& m) { m.rope_theta = infinity; }, "model.rope-theta"},
      {"rope scaling zero", [](ModelConfig& m) { m.rope_scaling_factor = 0; }, "model.rope-scaling-factor"},
      {"rope context negative", [](ModelConfig& m) { m.rope_original_context = -1; }, "model.rope-original-context"},
      {"rope frequencies swapped", [](ModelConfig& m) { m.rope_scaling_factor = 8, m.rope_low_freq_factor = 4; },
       "model.rope-high-freq-factor"},
      {"odd head size given", [](ModelConfig& m) { m.head_size = 7; }, "model.head-size"},
      {"huge heads", [](ModelConfig& m) { m.head_size = 1 << 20; }, "model.head-size"},
      {"norms of heads in gpt2",
       [](ModelConfig& m) { m.family = Family::gpt2, m.kv_heads = m.heads, m.qk_norm = true; }, "model.qk-norm"},
      {"negative window", [](ModelConfig& m) { m.window = -1; }, "model.window = -1"},
      {"a layer for no window", [](ModelConfig& m) { m.window_from = 1; }, "leave model.window-from out"},
      {"a bias of the output alone", [](ModelConfig& m) { m.out_bias = true; }, "model.qkv-bias=true"},
      {"biases of the MLP with a window", [](ModelConfig& m) { m.mlp_bias = true, m.window = 4; }, "model.mlp-bias"},
      {"biases of the MLP with norms", [](ModelConfig& m) { m.mlp_bias = m.qk_norm = true; }, "model.qk-norm"},
      {"biases of Q, K and V with norms", [](ModelConfig& m) { m.qkv_bias = m.qk_norm = true; }, "without out-bias"},
      {"full layers without a window", [](ModelConfig& m) { m.full_layers = LayerSet({1}); }, "full-layers out"},
      {"factors of another family", [](ModelConfig& m) { m.logits_divisor = 2; }, "family=granite"},
      {"experts in another family", [](ModelConfig& m) { m.experts = 4; }, "family=mixtral"},
      {"no experts", [](ModelConfig& m) { m.family = Family::mixtral; }, "model.experts = 0"},
      {"more experts a token than there are",
       [](ModelConfig& m) { m.family = Family::mixtral, m.experts = 4, m.experts_per_token = 5; },
       "a whole number from 1 to 4"},
      {"no layer with experts",
       [](ModelConfig& m) {
         m.family = Family::qwen3_moe, m.experts = 4, m.dense_layers = LayerSet({0, 1, 2, 3});
       },
       "model.dense-layers = 0-3 of 4 layers"},
      {"shares that don't add up to 1 in Mixtral",
       [](ModelConfig& m) { m.family = Family::mixtral, m.experts = 4, m.normalise_experts = false; },
       "family=qwen3_moe"},
      {"too many parameters", [](ModelConfig& m) { m.layers = 10'000, m.hidden = 1'000'000; }, "a model of 250"},
      {"too many positions", [](ModelConfig& m) { m.context = 100'000'000, m.layers = 100; },
       "100 blocks of 100000000"},
  };
  for (const Refusal& refusal : refusals) {
    ModelConfig model = model_by_name("llama-tiny");
    refusal.change(model);
    EXPECT_TRUE(refuses([&] { validate(model); }, {refusal.expected})) << refusal.what;
  }
}

TEST(ModelConfig, ParametersHaveNamesAndSitesOfTheirOwn) {
  for (const ModelConfig& model : all_models()) {
    std::set<std::string> names;
    std::uint32_t site = 0;
    for (const ParameterSpec& spec : model_parameters(model)) {
      EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
      EXPECT_EQ(spec.site, site++) << spec.name;
    }
  }
}

TEST(ModelConfig, StoredTensorsCoverEveryRowOnce) {
  for (const ModelConfig& model : all_models()) {
    std::set<std::string> files;
    for (const ParameterSpec& spec : model_parameters(model)) {
      std::int64_t next = 0;
      for (const StoredTensor& piece : spec.stored) {
        EXPECT_EQ(piece.row_begin, next) << model.name << ' ' << spec.name << ' ' << piece.name;
        next += piece.rows;
        EXPECT_TRUE(files.insert(piece.name).second) << piece.name << " twice";
      }
      EXPECT_EQ(next, spec.matrix ? spec.rows : spec.cols) << model.name << ' ' << spec.name;
    }
  }
}

TEST(ModelConfig, OnlyMatricesDecay) {
  for (const ParameterSpec& spec : model_parameters(model_by_name("gpt2-124m"))) {
    const bool vector = spec.name.ends_with(".bias") || spec.name.find("norm") != std::string::npos;
    EXPECT_EQ(spec.matrix, !vector) << spec.name;
    EXPECT_EQ(spec.init == Init::normal, spec.matrix) << spec.name;
  }
}

// Radford et al. 2019: the residual layers' weights are scaled by 1/√(2·layers).
TEST(ModelConfig, ResidualProjectionsStartSmaller) {
  for (const char* name : {"gpt2-124m", "llama-1b"}) {
    const ModelConfig model = model_by_name(name);
    const float smaller = 0.02F / std::sqrt(2.0F * static_cast<float>(model.layers));
    for (const ParameterSpec& spec : model_parameters(model)) {
      if (!spec.matrix) continue;
      const bool residual = spec.name.ends_with("attn.out.weight") || spec.name.ends_with("mlp.down.weight");
      EXPECT_FLOAT_EQ(spec.std, residual ? smaller : 0.02F) << spec.name;
    }
  }
}

}  // namespace
}  // namespace weft::ops
