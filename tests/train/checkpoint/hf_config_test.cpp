// config.json in both directions, in the shapes of transformers 4 and 5.
#include "train/checkpoint/hf_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/base/messages.h"

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
std::string with(const char* config, const char* key, const nlohmann::json& value) {
  auto json = nlohmann::json::parse(config);
  json[key] = value;
  return json.dump();
}

std::string refusal(const std::string& text) {
  return testing::message_of<UserError>([&] { read(text); });
}

void expect_equal_sizes(const ops::ModelConfig& a, const ops::ModelConfig& b) {
  EXPECT_EQ(a.family, b.family);
  EXPECT_EQ(a.layers, b.layers);
  EXPECT_EQ(a.hidden, b.hidden);
  EXPECT_EQ(a.heads, b.heads);
  EXPECT_EQ(a.kv_heads, b.kv_heads);
  EXPECT_EQ(a.ffn, b.ffn);
  EXPECT_EQ(a.vocab, b.vocab);
  EXPECT_EQ(a.context, b.context);
  EXPECT_EQ(a.tied, b.tied);
  EXPECT_EQ(a.norm_eps, b.norm_eps);
  EXPECT_EQ(a.init_std, b.init_std);
  EXPECT_EQ(a.rope_theta, b.rope_theta);
  EXPECT_EQ(a.rope_scaling_factor, b.rope_scaling_factor);
  EXPECT_EQ(a.rope_low_freq_factor, b.rope_low_freq_factor);
  EXPECT_EQ(a.rope_high_freq_factor, b.rope_high_freq_factor);
  EXPECT_EQ(a.rope_original_context, b.rope_original_context);
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
    EXPECT_TRUE(testing::has_parts(refusal(with(kGpt2, other, 2 * size)), {std::string(other) + " is ", own}));
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
}

TEST(HfConfig, RefusesWhatItWouldComputeWrongly) {
  EXPECT_TRUE(testing::has_parts(refusal(with(kGpt2, "activation_function", "relu")),
                                 {"config.json: activation_function is \"relu\"", "gelu_new"}));
  EXPECT_TRUE(
      testing::has_parts(refusal(with(kGpt2, "scale_attn_by_inverse_layer_idx", true)), {"inverse_layer_idx is true"}));
  EXPECT_TRUE(testing::has_parts(refusal(with(kLlama, "attention_bias", true)), {"attention_bias is true"}));
  EXPECT_TRUE(testing::has_parts(refusal(with(kLlama, "hidden_act", "gelu")), {"hidden_act"}));
  EXPECT_TRUE(testing::has_parts(refusal(with(kLlama, "head_dim", 128)), {"head_dim is 128", "2048 / 32"}));
  EXPECT_TRUE(testing::has_parts(refusal(with(kLlama, "rope_scaling", {{"type", "linear"}, {"factor", 2}})),
                                 {"type is \"linear\"", "llama3"}));
  EXPECT_TRUE(
      testing::has_parts(refusal(with(kGpt2, "activation_function", "gelu")), {"activation_function is \"gelu\""}));
  EXPECT_TRUE(
      testing::has_parts(refusal(with(kLlama, "rope_scaling", {{"type", "yarn"}, {"factor", 2}})), {"\"yarn\""}));
  EXPECT_TRUE(testing::has_parts(refusal(with(kLlama, "rope_scaling", {{"rope_type", "llama3"}})), {"has no factor"}));
  EXPECT_TRUE(testing::has_parts(refusal(with(kLlama, "mlp_bias", true)), {"mlp_bias is true"}));
}

TEST(HfConfig, RefusesOtherModelTypesByTheirPart) {
  EXPECT_TRUE(testing::has_parts(refusal(with(kLlama, "model_type", "qwen2")),
                                 {"model_type is qwen2", "biases of Q, K and V"}));
  EXPECT_TRUE(testing::has_parts(refusal(with(kLlama, "model_type", "gemma")), {"model_type is gemma", "1 + weight"}));
  EXPECT_TRUE(testing::has_parts(refusal(with(kLlama, "model_type", "granite")), {"model_type is granite", "factors"}));
  EXPECT_TRUE(
      testing::has_parts(refusal(with(kLlama, "model_type", "phi")), {"model_type is phi", "a part of each head"}));
  EXPECT_TRUE(
      testing::has_parts(refusal(with(kLlama, "model_type", "unheard_of")), {"model_type is unheard_of", "mistral"}));
}

TEST(HfConfig, RefusesFactorsOfOtherFamilies) {
  for (const char* key : {"embedding_multiplier", "residual_multiplier", "logits_scaling", "partial_rotary_factor"}) {
    EXPECT_TRUE(testing::has_parts(refusal(with(kLlama, key, 0.5)), {std::string(key) + " is 0.5"})) << key;
    expect_equal_sizes(read(with(kLlama, key, 1.0)), read(kLlama));
  }
  EXPECT_TRUE(testing::has_parts(refusal(with(kLlama, "attention_multiplier", 0.1)), {"attention_multiplier is 0.1"}));
  EXPECT_TRUE(testing::has_parts(refusal(with(kLlama, "quantization_config", {{"bits", 4}})), {"quantization_config"}));
  EXPECT_TRUE(
      testing::has_parts(refusal(with(kGpt2, "architectures", {"GPT2ForSequenceClassification"})), {"architectures"}));
}

TEST(HfConfig, ReadsMistralAndRefusesWindowsShorterThanTheContext) {
  const std::string mistral = with(kLlama, "model_type", "mistral");
  EXPECT_TRUE(testing::has_parts(refusal(with(mistral.c_str(), "sliding_window", 16)),
                                 {"sliding_window 16 is shorter than the context 131072"}));
  EXPECT_TRUE(testing::has_parts(refusal(mistral), {"sliding_window 4096 is shorter"}));  // the class' default
  expect_equal_sizes(read(with(mistral.c_str(), "sliding_window", nullptr)), read(kLlama));
  expect_equal_sizes(read(with(mistral.c_str(), "sliding_window", 131072)), read(kLlama));
  EXPECT_TRUE(testing::has_parts(refusal(with(kLlama, "layer_types", {"sliding_attention"})), {"layer_types"}));
}

TEST(HfConfig, RefusesRopeThatIsSaidTwiceInTwoWays) {
  EXPECT_TRUE(
      testing::has_parts(refusal(with(kLlama, "rope_parameters", {{"rope_type", "default"}, {"rope_theta", 5e5}})),
                         {"rope_parameters is"}));
}

TEST(HfConfig, ReadsTheTypeOfTheWeights) {
  const auto dtype = [](const std::string& text) { return read_hf_config(text, "config.json").dtype; };
  EXPECT_EQ(dtype(kGpt2), DType::f32);
  EXPECT_EQ(dtype(with(kGpt2, "torch_dtype", "bfloat16")), DType::bf16);
  EXPECT_EQ(dtype(with(kGpt2, "dtype", "bfloat16")), DType::bf16);
  EXPECT_EQ(dtype(with(kGpt2, "dtype", "float16")), DType::f32);
}

TEST(HfConfig, RefusesNumbersOutOfRange) {
  EXPECT_TRUE(testing::has_parts(refusal(with(kGpt2, "n_embd", std::int64_t{1} << 62)),
                                 {"n_embd is 4611686018427387904", "an integer from 0 to 1000000000"}));
  EXPECT_TRUE(
      testing::has_parts(refusal(with(kGpt2, "n_layer", std::uint64_t{1} << 63)), {"n_layer is 9223372036854775808"}));
  EXPECT_TRUE(testing::has_parts(refusal(with(kGpt2, "n_head", -12)), {"n_head is -12"}));
  EXPECT_TRUE(testing::has_parts(refusal(with(kLlama, "head_dim", std::int64_t{1} << 62)), {"head_dim is 46"}));
  EXPECT_TRUE(testing::has_parts(refusal(with(kLlama, "rms_norm_eps", 1e300)), {"rms_norm_eps is 1e+300", "a float"}));
  // The sizes' own ranges, with the file's name.
  EXPECT_TRUE(testing::has_parts(refusal(with(kGpt2, "n_layer", 1'000'000)), {"config.json: model.layers = 1000000"}));
}

TEST(HfConfig, RefusesWhatIsMissingOrMisshapen) {
  EXPECT_TRUE(testing::has_parts(refusal("{}"), {"model_type is absent"}));
  EXPECT_TRUE(testing::has_parts(refusal("[]"), {"config.json is []", "an object"}));
  EXPECT_TRUE(testing::has_parts(refusal("{"), {"config.json isn't valid JSON"}));
  EXPECT_TRUE(testing::has_parts(refusal(with(kGpt2, "n_embd", nullptr)), {"n_embd is null"}));
  EXPECT_TRUE(testing::has_parts(refusal(with(kGpt2, "n_embd", "768")), {"n_embd is \"768\"", "an integer"}));
  EXPECT_TRUE(testing::has_parts(refusal(with(kGpt2, "layer_norm_epsilon", "x")), {"layer_norm_epsilon", "a number"}));
  EXPECT_TRUE(
      testing::has_parts(refusal(with(kLlama, "tie_word_embeddings", 1)), {"tie_word_embeddings", "true or false"}));
  EXPECT_TRUE(testing::has_parts(refusal(with(kLlama, "rope_scaling", 2)), {"rope_scaling is 2", "an object"}));
  EXPECT_NE(refusal(with(kGpt2, "n_head", 7)), "");  // 768 / 7
  EXPECT_NE(refusal(with(kGpt2, "n_head", 0)), "");
}

}  // namespace
}  // namespace weft::train
