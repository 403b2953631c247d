// config.json in both directions, in the shapes of transformers 4 and 5.
#include "train/checkpoint/hf_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/ops/tiny_model.h"

namespace weft::train {
namespace {

constexpr const char* kGpt2 = R"({"model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024, "n_ctx": 1024,
  "n_embd": 768, "n_layer": 12, "n_head": 12, "n_inner": null, "activation_function": "gelu_new",
  "layer_norm_epsilon": 1e-05, "initializer_range": 0.02, "attn_pdrop": 0.1, "bos_token_id": 50256})";

constexpr const char* kLlama = R"({"model_type": "llama", "vocab_size": 128256, "hidden_size": 2048,
  "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
  "head_dim": 64, "hidden_act": "silu", "max_position_embeddings": 131072, "rms_norm_eps": 1e-05,
  "rope_theta": 500000.0, "tie_word_embeddings": true, "eos_token_id": [128001, 128008],
  "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                   "original_max_position_embeddings": 8192}})";

ops::ModelConfig read(const std::string& text) {
  return read_hf_config(text, "config.json").model;
}

/// The config with one key set.
std::string with(const std::string& config, const char* key, const nlohmann::json& value) {
  auto json = nlohmann::json::parse(config);
  json[key] = value;
  return json.dump();
}

// A llama by its sizes, with the window of Mistral's class.
const std::string kMistral = with(kLlama, "model_type", "mistral");

std::string refusal(const std::string& text) {
  return testing::message_of<UserError>([&] { read(text); });
}

void expect_equal_sizes(const ops::ModelConfig& a, const ops::ModelConfig& b) {
  const auto sizes = [](const ops::ModelConfig& m) {
    return std::tuple(m.family, m.layers, m.hidden, m.heads, m.kv_heads, m.ffn, m.vocab, m.context, m.tied, m.norm_eps,
                      m.init_std, m.head_dim(), m.qkv_bias, m.out_bias, m.mlp_bias, m.qk_norm, m.window, m.window_from,
                      m.full_layers, m.unrotated_layers, m.attention_scale, m.embedding_factor, m.residual_factor,
                      m.logits_divisor, m.experts, m.experts_per_token, m.expert_cols(), m.normalise_experts,
                      m.dense_layers);
  };
  const auto rope = [](const ops::ModelConfig& m) {
    return std::tuple(m.rope_theta, m.rope_scaling, m.rope_scaling_factor, m.rope_low_freq_factor,
                      m.rope_high_freq_factor, m.rope_original_context, m.rotary_factor(), m.rope_truncate,
                      m.rope_local_theta);
  };
  EXPECT_EQ(sizes(a), sizes(b));
  EXPECT_EQ(rope(a), rope(b));
}

TEST(HfConfig, ReadsGpt2) {
  const ops::ModelConfig model = read(kGpt2);
  EXPECT_EQ(model.family, ops::Family::gpt2);
  EXPECT_EQ(model.ffn, 3072);
  EXPECT_EQ(model.context, 1024);
  EXPECT_TRUE(model.tied);
  EXPECT_EQ(model.parameters(), 124'439'808);
}

TEST(HfConfig, ReadsLlama) {
  const ops::ModelConfig model = read(kLlama);
  EXPECT_EQ(model.family, ops::Family::llama);
  EXPECT_EQ(model.kv_heads, 8);
  EXPECT_EQ(model.norm_eps, 1e-5F);
  EXPECT_EQ(model.rope_theta, 5e5F);
  EXPECT_EQ(model.rope_scaling_factor, 32.0F);
  EXPECT_EQ(model.rope_original_context, 8192.0F);
  EXPECT_EQ(model.parameters(), 1'235'814'400);
}

TEST(HfConfig, ReadsTheRopeParametersOfTransformers5) {
  auto json = nlohmann::json::parse(kLlama);
  json["rope_parameters"] = json["rope_scaling"];
  json["rope_parameters"]["rope_theta"] = 500000.0;
  json.erase("rope_scaling");
  json.erase("rope_theta");
  expect_equal_sizes(read(json.dump()), read(kLlama));
}

TEST(HfConfig, TheBaseInsideTheScalingCounts) {
  auto json = nlohmann::json::parse(kLlama);
  json["rope_scaling"]["rope_theta"] = 500000.0;
  expect_equal_sizes(read(json.dump()), read(kLlama));
  json["rope_scaling"]["rope_theta"] = 250000.0;
  EXPECT_TRUE(refuses([&] { read(json.dump()); }, {"rope_scaling.rope_theta", "250000"}));
  json.erase("rope_theta");
  EXPECT_EQ(read(json.dump()).rope_theta, 2.5e5F);
}

TEST(HfConfig, AbsentKeysHaveTheDefaultsOfTheFamily) {
  const ops::ModelConfig model = read(R"({"model_type": "llama", "vocab_size": 32000, "hidden_size": 256,
    "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8, "head_dim": null})");
  EXPECT_EQ(model.kv_heads, 8);
  EXPECT_FALSE(model.tied);
  EXPECT_EQ(model.norm_eps, 1e-6F);
  EXPECT_EQ(model.rope_theta, 10000.0F);
  EXPECT_EQ(model.rope_scaling_factor, 1.0F);
}

// transformers sets these names of other families for gpt2 too.
TEST(HfConfig, ReadsSizesOfGpt2UnderTheNamesOfOtherFamilies) {
  auto json = nlohmann::json::parse(kGpt2);
  for (const auto& [own, other] :
       {std::pair("n_embd", "hidden_size"), std::pair("n_layer", "num_hidden_layers"),
        std::pair("n_head", "num_attention_heads"), std::pair("n_positions", "max_position_embeddings")}) {
    const std::int64_t size = json[own].get<std::int64_t>();
    expect_equal_sizes(read(with(kGpt2, other, size)), read(kGpt2));
    EXPECT_TRUE(has_parts(refusal(with(kGpt2, other, 2 * size)), {std::string(other) + " is ", own}));
    json.erase(own);
    json[other] = size;
  }
  expect_equal_sizes(read(json.dump()), read(kGpt2));
}

TEST(HfConfig, ReadsBackWhatItWrites) {
  for (const std::string& name : ops::model_names()) {
    const ops::ModelConfig model = ops::model_by_name(name);
    expect_equal_sizes(read(hf_config_json(model, DType::f32)), model);
  }
}

TEST(HfConfig, WritesWhatOthersRead) {
  const auto gpt2 = nlohmann::json::parse(hf_config_json(read(kGpt2), DType::f32));
  EXPECT_EQ(gpt2["architectures"][0], "GPT2LMHeadModel");
  EXPECT_EQ(gpt2["layer_norm_epsilon"].dump(), "1e-05");
  EXPECT_EQ(gpt2["activation_function"], "gelu_new");
  EXPECT_EQ(gpt2["eos_token_id"], 50256);
  const auto llama = nlohmann::json::parse(hf_config_json(read(kLlama), DType::bf16));
  EXPECT_EQ(llama["torch_dtype"], "bfloat16");
  EXPECT_EQ(llama["rope_scaling"]["rope_type"], "llama3");
  EXPECT_EQ(llama["rope_parameters"]["rope_theta"], 500000.0);
  EXPECT_EQ(llama["head_dim"], 64);
  EXPECT_FALSE(llama.contains("eos_token_id"));
  const auto ended =
      nlohmann::json::parse(hf_config_json(read(kLlama), DType::bf16, TextEnds{.begin = {}, .ends = {7}}));
  EXPECT_EQ(ended["eos_token_id"], 7);
  EXPECT_TRUE(ended["bos_token_id"].is_null());
}

struct RefusedKey {
  std::string config;
  const char* key;
  nlohmann::json value;
  std::vector<std::string_view> parts;
};

const std::vector<RefusedKey> kRefusedKeys = {
    {kGpt2, "scale_attn_by_inverse_layer_idx", true, {"inverse_layer_idx is true"}},
    {kMistral, "attention_bias", true, {"attention_bias is true"}},
    {kLlama, "hidden_act", "gelu", {"hidden_act"}},
    {kLlama, "head_dim", 0, {"head_dim is 0", "above 0"}},
    {kLlama, "sliding_window", 16, {"sliding_window is 16", "llama's"}},
    {kLlama, "rope_scaling", {{"type", "dynamic"}, {"factor", 2}}, {"type is \"dynamic\"", "yarn"}},
    {kGpt2, "activation_function", "gelu", {"config.json: activation_function is \"gelu\"", "gelu_new"}},
    {kLlama, "rope_scaling", {{"type", "yarn"}}, {"has no factor"}},
    {kLlama,
     "rope_scaling",
     {{"type", "yarn"}, {"factor", 2}, {"attention_factor", -1}},
     {"attention_factor is -1", "above 0"}},
    {kLlama, "rope_scaling", {{"rope_type", "llama3"}}, {"has no factor"}},
    {kMistral, "mlp_bias", true, {"mlp_bias is true"}},
    {kLlama, "model_type", "qwen2_moe", {"model_type is qwen2_moe", "a mixture of experts"}},
    {kLlama, "model_type", "gemma2", {"model_type is gemma2", "capped logits"}},
    {kLlama, "model_type", "gemma3", {"model_type is gemma3", "gemma3_text"}},
    {kLlama, "model_type", "granitemoe", {"model_type is granitemoe", "a mixture of experts"}},
    {kLlama, "hidden_activation", "gelu_pytorch_tanh", {"hidden_activation"}},
    {kLlama, "use_bidirectional_attention", true, {"use_bidirectional_attention is true"}},
    {kLlama, "num_hidden_layers", 1'000'000'000, {"model.layers = 1000000000"}},
    {kLlama, "model_type", "phi", {"model_type is phi", "a part of each head"}},
    {kLlama, "model_type", "unheard_of", {"model_type is unheard_of", "mistral"}},
    {kLlama, "use_mrope", true, {"use_mrope is true"}},
    {kLlama, "pruned_heads", {{"0", {1}}}, {"pruned_heads"}},
    {kLlama,
     "rope_scaling",
     {{"rope_type", "default"}, {"rope_theta", 5e5}, {"mrope_section", {8, 12, 12}}},
     {"mrope_section"}},
    {kLlama, "rope_parameters", {{"rope_type", "default"}, {"rope_theta", 5e5}}, {"rope_parameters is"}},
    {kGpt2, "n_embd", std::int64_t{1} << 62, {"n_embd is 4611686018427387904", "an integer from 0 to 1000000000"}},
    {kGpt2, "n_layer", std::uint64_t{1} << 63, {"n_layer is 9223372036854775808"}},
    {kGpt2, "n_head", -12, {"n_head is -12"}},
    {kLlama, "head_dim", std::int64_t{1} << 62, {"head_dim is 46"}},
    {kLlama, "head_dim", 1'000'000, {"model.head-size = 1000000"}},
    {kLlama, "rms_norm_eps", 1e300, {"rms_norm_eps is 1e+300", "a float"}},
    {kGpt2, "n_embd", nullptr, {"n_embd is null"}},
    {kGpt2, "n_embd", "768", {"n_embd is \"768\"", "an integer"}},
    {kGpt2, "layer_norm_epsilon", "x", {"layer_norm_epsilon", "a number"}},
    {kLlama, "tie_word_embeddings", 1, {"tie_word_embeddings", "true or false"}},
    {kLlama, "rope_scaling", 2, {"rope_scaling is 2", "an object"}},
    // The sizes' own ranges, with the file's name.
    {kGpt2, "n_layer", 1'000'000, {"config.json: model.layers = 1000000"}},
};

TEST(HfConfig, RefusesWhatItWouldComputeWronglyOrCantRead) {
  for (const RefusedKey& each : kRefusedKeys) {
    EXPECT_TRUE(has_parts(refusal(with(each.config, each.key, each.value)), each.parts)) << each.key;
  }
  for (const int heads : {0, 7}) EXPECT_NE(refusal(with(kGpt2, "n_head", heads)), "");  // of 768
  EXPECT_TRUE(has_parts(refusal("{}"), {"model_type is absent"}));
  EXPECT_TRUE(has_parts(refusal("[]"), {"config.json is []", "an object"}));
  EXPECT_TRUE(has_parts(refusal("{"), {"config.json isn't valid JSON"}));
  expect_equal_sizes(read(with(kLlama, "pruned_heads", nlohmann::json::object())), read(kLlama));
}

// Settings that change what the model computes, of which no part is Weft's.
const std::vector<RefusedKey> kKeysOfOtherMeaning = {
    {kGpt2, "scale_attn_weights", false, {"scale_attn_weights is false"}},
    {kGpt2, "reorder_and_upcast_attn", true, {"reorder_and_upcast_attn is true"}},
    {kGpt2, "add_cross_attention", true, {"add_cross_attention is true"}},
    {kGpt2, "hidden_size", 512, {"hidden_size is 512"}},
    {kGpt2, "n_inner", -1, {"n_inner is -1"}},
    {kGpt2, "architectures", "GPT2LMHeadModel", {"architectures"}},
    {kGpt2, "architectures", {"GPT2DoubleHeads"}, {"architectures"}},
    {kLlama, "logit_scale", 0.0625, {"logit_scale is 0.0625"}},
    {kLlama, "attn_logit_softcapping", 50.0, {"attn_logit_softcapping"}},
    {kLlama, "final_logit_softcapping", 30.0, {"final_logit_softcapping"}},
    {kLlama, "query_pre_attn_scalar", 224, {"query_pre_attn_scalar"}},
    {kLlama, "num_local_experts", 8, {"num_local_experts"}},
    {kLlama, "num_key_value_heads", 5, {"kv-heads"}},
    {kLlama, "head_dim", 63, {"63"}},
    {kLlama, "vocab_size", 128256.0, {"vocab_size is 128256.0"}},
    {kLlama, "vocab_size", 0, {"model.vocab = 0"}},
    {kLlama, "hidden_size", "2048", {"hidden_size is \"2048\""}},
    {kLlama, "rope_theta", -1, {"rope-theta"}},
    {kLlama, "rope_theta", "5e5", {"rope_theta is \"5e5\""}},
    {kLlama, "rope_scaling", {{"rope_type", "longrope"}, {"factor", 4}}, {"rope_type is \"longrope\""}},
    {kLlama, "rope_scaling", {{"rope_type", "linear"}, {"factor", "4"}}, {"factor is \"4\""}},
    {kLlama, "rope_scaling", {{"rope_type", "linear"}, {"factor", -4}}, {"rope-scaling-factor"}},
    {kLlama,
     "rope_scaling",
     {{"rope_type", "default"}, {"rope_theta", 5e5}, {"partial_rotary_factor", 0.5}},
     {"partial_rotary_factor is 0.5"}},
    {kLlama, "rope_parameters", {{"full_attention", {{"rope_theta", 5e5}}}}, {"full_attention"}},
    {kLlama, "layer_types", {"full_attention"}, {"layer_types"}},
    {kLlama, "layer_types", std::vector<std::string>(16, "linear_attention"), {"layer_types"}},
    {kLlama, "rms_norm_eps", -1e-5, {"norm-eps"}},
    {kMistral, "sliding_window", -1, {"sliding_window is -1"}},
    {kMistral, "sliding_window", 16.5, {"sliding_window is 16.5"}},
};

TEST(HfConfig, RefusesKeysThatChangeTheMeaning) {
  for (const RefusedKey& each : kKeysOfOtherMeaning) {
    const std::string refused = refusal(with(each.config, each.key, each.value));
    EXPECT_TRUE(has_parts(refused, each.parts)) << each.key << ": " << refused;
  }
  EXPECT_TRUE(has_parts(refusal(with(with(kLlama, "model_type", "qwen2"), "use_sliding_window", "yes")),
                        {"use_sliding_window is \"yes\""}));
  const std::string gpt2 = kGpt2;
  EXPECT_TRUE(has_parts(refusal(gpt2.substr(0, gpt2.rfind('}')) + ", \"n_head\": 6}"), {"\"n_head\" twice"}));
}

TEST(HfConfig, RefusesFactorsOfOtherFamilies) {
  for (const char* key : {"embedding_multiplier", "residual_multiplier", "logits_scaling", "partial_rotary_factor"}) {
    EXPECT_TRUE(has_parts(refusal(with(kLlama, key, 0.5)), {std::string(key) + " is 0.5"})) << key;
    expect_equal_sizes(read(with(kLlama, key, 1.0)), read(kLlama));
  }
  EXPECT_TRUE(has_parts(refusal(with(kLlama, "attention_multiplier", 0.1)), {"attention_multiplier is 0.1"}));
  EXPECT_TRUE(has_parts(refusal(with(kLlama, "quantization_config", {{"bits", 4}})), {"quantization_config"}));
  EXPECT_TRUE(has_parts(refusal(with(kGpt2, "architectures", {"GPT2ForSequenceClassification"})), {"architectures"}));
}

TEST(HfConfig, ReadsTheWindowOfMistral) {
  EXPECT_EQ(read(with(kMistral, "sliding_window", 16)).window, 16);
  EXPECT_EQ(read(kMistral).window, 4096);  // the class' default
  expect_equal_sizes(read(with(kMistral, "sliding_window", nullptr)), read(kLlama));
  expect_equal_sizes(read(with(kMistral, "sliding_window", 131072)), read(kLlama));
  EXPECT_TRUE(has_parts(refusal(with(kMistral, "sliding_window", 0)), {"sliding_window is 0", "null"}));
  const std::vector<std::string> full(16, "full_attention"), sliding(16, "sliding_attention");
  EXPECT_EQ(read(with(kMistral, "layer_types", sliding)).window, 4096);
  EXPECT_TRUE(has_parts(refusal(with(kMistral, "layer_types", full)), {"layer_types", "no sliding_window"}));
  EXPECT_EQ(read(with(kLlama, "layer_types", full)).window, 0);
  EXPECT_TRUE(has_parts(refusal(with(kLlama, "layer_types", sliding)), {"layer_types", "of llama"}));
}

TEST(HfConfig, ReadsHeadsAndBiasesOfLlama) {
  EXPECT_EQ(read(with(kLlama, "head_dim", 128)).query_cols(), 4096);
  EXPECT_EQ(read(with(kLlama, "head_dim", 64)).head_size, 0);
  const ops::ModelConfig biased = read(with(with(kLlama, "attention_bias", true), "mlp_bias", true));
  EXPECT_TRUE(biased.qkv_bias && biased.out_bias && biased.mlp_bias);
  EXPECT_EQ(biased.parameters(), read(kLlama).parameters() + 16 * (2048 + 2 * 512 + 2048 + 2 * 8192 + 2048));
}

TEST(HfConfig, ReadsQwen2) {
  const std::string qwen2 = with(kLlama, "model_type", "qwen2");
  const ops::ModelConfig model = read(qwen2);
  EXPECT_TRUE(model.qkv_bias);
  EXPECT_FALSE(model.out_bias || model.mlp_bias || model.qk_norm);
  EXPECT_EQ(model.window, 0);
  const auto with_window = [&](auto... more) {
    std::string text = with(with(qwen2, "use_sliding_window", true), "sliding_window", 512);
    ((text = with(text, more.first, more.second)), ...);
    return text;
  };
  EXPECT_EQ(read(with(qwen2, "sliding_window", 512)).window, 0);  // use_sliding_window is false
  const ops::ModelConfig windowed = read(with_window(std::pair("max_window_layers", 5)));
  EXPECT_EQ(std::pair(windowed.window, windowed.window_from), std::pair(std::int64_t{512}, std::int64_t{5}));
  EXPECT_EQ(read(with_window()).window, 0);  // max_window_layers is 28 then, and there are 16 layers
  nlohmann::json types = std::vector<std::string>(16, "full_attention");
  for (int i = 10; i < 16; ++i) types[static_cast<std::size_t>(i)] = "sliding_attention";
  EXPECT_EQ(read(with_window(std::pair("layer_types", types))).window_from, 10);
  EXPECT_TRUE(has_parts(refusal(with(qwen2, "layer_types", types)), {"layer_types", "no window"}));
  types[12] = "full_attention";
  EXPECT_EQ(to_string(read(with_window(std::pair("layer_types", types))).full_layers), "12");
  types[12] = "chunked_attention";
  EXPECT_TRUE(has_parts(refusal(with_window(std::pair("layer_types", types))), {"chunked_attention"}));
  types.erase(0);
  EXPECT_NE(refusal(with_window(std::pair("layer_types", types))), "");
}

TEST(HfConfig, ReadsQwen3) {
  const std::string qwen3 = with(kLlama, "model_type", "qwen3");
  EXPECT_TRUE(read(qwen3).qk_norm);
  EXPECT_FALSE(read(qwen3).qkv_bias);
  auto json = nlohmann::json::parse(qwen3);
  json.erase("head_dim");
  EXPECT_EQ(read(json.dump()).head_dim(), 128);  // the class' default
  EXPECT_TRUE(read(with(qwen3, "attention_bias", true)).out_bias);
}

TEST(HfConfig, ReadsLinearAndYarn) {
  const auto rope = [](const nlohmann::json& value) { return read(with(kLlama, "rope_scaling", value)); };
  const ops::ModelConfig linear = rope({{"type", "linear"}, {"factor", 2}});
  EXPECT_EQ(linear.rope_scaling, ops::RopeKind::linear);
  EXPECT_EQ(linear.rope_scaling_factor, 2.0F);
  const ops::ModelConfig yarn = rope({{"rope_type", "yarn"}, {"factor", 4.0}});
  EXPECT_EQ(yarn.rope_scaling, ops::RopeKind::yarn);
  EXPECT_EQ(std::pair(yarn.rope_low_freq_factor, yarn.rope_high_freq_factor), std::pair(1.0F, 32.0F));
  EXPECT_EQ(yarn.rope_original_context, 131072.0F);
  EXPECT_NEAR(yarn.rotary_factor(), 0.1 * std::log(4.0) + 1, 1e-7);
  EXPECT_TRUE(yarn.rope_truncate);
  const ops::ModelConfig other = rope({{"rope_type", "yarn"},
                                       {"factor", nullptr},
                                       {"beta_fast", 16},
                                       {"beta_slow", 2},
                                       {"mscale", 2.0},
                                       {"mscale_all_dim", 0.5},
                                       {"truncate", false},
                                       {"original_max_position_embeddings", 4096}});
  EXPECT_EQ(other.rope_scaling_factor, 32.0F);  // 131072 / 4096
  EXPECT_EQ(std::pair(other.rope_low_freq_factor, other.rope_high_freq_factor), std::pair(2.0F, 16.0F));
  EXPECT_NEAR(other.rotary_factor(), (0.2 * std::log(32.0) + 1) / (0.05 * std::log(32.0) + 1), 1e-6);
  EXPECT_FALSE(other.rope_truncate);
}

TEST(HfConfig, ReadsBackTheTypesThatAddToLlama) {
  for (const testing::ModelKind kind : testing::kEveryKind) {
    const std::string type = kind == testing::ModelKind::llama_biased ? "llama" : to_string(kind);
    SCOPED_TRACE(type);
    const ops::ModelConfig model = testing::tiny_model(kind);
    const std::string text = hf_config_json(model, DType::f32);
    EXPECT_EQ(nlohmann::json::parse(text)["model_type"], type);
    expect_equal_sizes(read(text), model);
  }
}

TEST(HfConfig, FactorsOfGraniteAndGemma3) {
  const std::string granite =
      with(with(with(kLlama, "model_type", "granite"), "rope_scaling", nullptr), "attention_multiplier", 0.25);
  const ops::ModelConfig model = read(with(with(granite, "embedding_multiplier", 12), "logits_scaling", 8.0));
  EXPECT_EQ(model.attention_scale, 0.25F);
  EXPECT_EQ(model.embedding_factor, 12.0F);
  EXPECT_EQ(model.residual_factor, 1.0F);
  EXPECT_EQ(model.logits_divisor, 8.0F);
  EXPECT_TRUE(has_parts(refusal(with(granite, "query_pre_attn_scalar", 64)), {"query_pre_attn_scalar is 64"}));
  const std::string gemma =
      with(with(with(kLlama, "model_type", "gemma3_text"), "rope_scaling", nullptr), "hidden_act", nullptr);
  EXPECT_EQ(read(gemma).attention_scale, 1.0F / 16);  // the class' 256, where heads have 64 columns
  EXPECT_EQ(read(with(gemma, "query_pre_attn_scalar", 64)).attention_scale, 0);
  const auto written =
      nlohmann::json::parse(hf_config_json(read(with(gemma, "query_pre_attn_scalar", 168)), DType::f32));
  EXPECT_EQ(written["query_pre_attn_scalar"].dump(), "168");
  EXPECT_FALSE(written.contains("attention_multiplier"));
  EXPECT_TRUE(has_parts(refusal(with(gemma, "attention_multiplier", 0.5)), {"attention_multiplier is 0.5"}));
  EXPECT_TRUE(has_parts(refusal(with(gemma, "query_pre_attn_scalar", 0)), {"query_pre_attn_scalar is 0"}));
  EXPECT_TRUE(has_parts(refusal(with(gemma, "hidden_activation", "gelu")), {"hidden_activation is \"gelu\""}));
}

TEST(HfConfig, ReadsTheTypeOfTheWeights) {
  const auto dtype = [](const std::string& text) { return read_hf_config(text, "config.json").dtype; };
  EXPECT_EQ(dtype(kGpt2), DType::f32);
  EXPECT_EQ(dtype(with(kGpt2, "torch_dtype", "bfloat16")), DType::bf16);
  EXPECT_EQ(dtype(with(kGpt2, "dtype", "bfloat16")), DType::bf16);
  EXPECT_EQ(dtype(with(kGpt2, "dtype", "float16")), DType::f32);
}

}  // namespace
}  // namespace weft::train
