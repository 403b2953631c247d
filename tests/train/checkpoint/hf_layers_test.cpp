#include "train/checkpoint/hf_layers.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/train/checkpoint/hf_config_of_type.h"

namespace weft::train {
namespace {

using nlohmann::json;
using testing::config_of_type;
using testing::model_of;

/// The layers with a window, by letters: s for a window, f for none.
std::string windows(const ops::ModelConfig& model) {
  std::string letters;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) letters += model.window_of(layer) > 0 ? 's' : 'f';
  return letters;
}

json types(const std::string& letters) {
  json list = json::array();
  for (const char letter : letters) list.push_back(letter == 's' ? "sliding_attention" : "full_attention");
  return list;
}

TEST(HfLayers, WindowsAreThoseOfTheList) {
  for (const std::string letters : {"sfsf", "fssf", "ssss", "fffs"}) {
    for (const std::string type : {"ministral", "olmo3", "gemma3_text"}) {
      const auto model = model_of(config_of_type(type, {{"sliding_window", 8}, {"layer_types", types(letters)}}));
      EXPECT_EQ(windows(model), letters) << type;
      EXPECT_EQ(model.window, 8);
    }
    const json qwen = {{"use_sliding_window", true}, {"sliding_window", 8}, {"layer_types", types(letters)}};
    EXPECT_EQ(windows(model_of(config_of_type("qwen3", qwen))), letters);
    EXPECT_EQ(windows(model_of(config_of_type("smollm3", qwen))), letters);
  }
}

TEST(HfLayers, WithoutAListTheClassDecides) {
  const json window = {{"sliding_window", 8}};
  EXPECT_EQ(windows(model_of(config_of_type("ministral", window))), "ssss");
  EXPECT_EQ(windows(model_of(config_of_type("phi3", window))), "ssss");
  EXPECT_EQ(windows(model_of(config_of_type("phi3"))), "ffff");
  EXPECT_EQ(windows(model_of(config_of_type("olmo3", window))), "sssf");
  json gemma = config_of_type("gemma3_text", {{"num_hidden_layers", 7}, {"sliding_window", 8}});
  EXPECT_EQ(windows(model_of(gemma)), "sssssfs");
  gemma["sliding_window_pattern"] = 2;  // of older files
  EXPECT_EQ(windows(model_of(gemma)), "sfsfsfs");
  EXPECT_EQ(windows(model_of(config_of_type("smollm3", {{"use_sliding_window", true}, {"sliding_window", 8}}))),
            "fffs");
}

// Their rotations differ from those of other layers.
TEST(HfLayers, AWindowBeyondTheContextStaysWhereItsLayersRotateOtherwise) {
  const json wide = {{"sliding_window", 64}};
  EXPECT_EQ(model_of(config_of_type("ministral", wide)).window, 0);
  EXPECT_EQ(model_of(config_of_type("olmo3", wide)).window, 64);
}

TEST(HfLayers, LayersWithoutPositions) {
  EXPECT_EQ(to_string(model_of(config_of_type("smollm3")).unrotated_layers), "3");
  EXPECT_EQ(to_string(model_of(config_of_type("smollm3", {{"no_rope_layer_interval", 2}})).unrotated_layers), "1,3");
  const auto model = model_of(config_of_type("smollm3", {{"no_rope_layers", {0, 1, 1, 0}}}));
  EXPECT_EQ(to_string(model.unrotated_layers), "0,3");
  EXPECT_FALSE(model.rotates(0));
  EXPECT_TRUE(model.rotates(1));
}

TEST(HfLayers, ExpertsOfMixtral) {
  const json sizes = {{"num_local_experts", 6}, {"num_experts_per_tok", 3}};
  const auto model = model_of(config_of_type("mixtral", sizes));
  EXPECT_EQ(model.family, ops::Family::mixtral);
  EXPECT_EQ(std::pair(model.experts, model.experts_per_token), std::pair(std::int64_t{6}, std::int64_t{3}));
  EXPECT_EQ(model.expert_cols(), 60);
  EXPECT_TRUE(model.normalise_experts && model.dense_layers.empty());
  EXPECT_EQ(model.window, 0);
  const auto usual = model_of(config_of_type("mixtral", {{"sliding_window", 8}}));
  EXPECT_EQ(std::pair(usual.experts, usual.experts_per_token), std::pair(std::int64_t{8}, std::int64_t{2}));
  EXPECT_EQ(windows(usual), "ssss");
}

TEST(HfLayers, ExpertsOfQwen3Moe) {
  const json sizes = {{"num_experts", 6}, {"num_experts_per_tok", 3}, {"moe_intermediate_size", 20}};
  const auto with = [&](const json& more) {
    json all = sizes;
    all.update(more);
    return model_of(config_of_type("qwen3_moe", all));
  };
  const auto model = with(json::object());
  EXPECT_EQ(std::pair(model.experts, model.experts_per_token), std::pair(std::int64_t{6}, std::int64_t{3}));
  EXPECT_EQ(std::pair(model.expert_cols(), model.ffn), std::pair(std::int64_t{20}, std::int64_t{60}));
  EXPECT_FALSE(model.normalise_experts);
  EXPECT_TRUE(model.dense_layers.empty());
  EXPECT_TRUE(with({{"norm_topk_prob", true}}).normalise_experts);
  EXPECT_EQ(to_string(with({{"mlp_only_layers", {3, 0, 99}}}).dense_layers), "0,3");
  EXPECT_EQ(to_string(with({{"decoder_sparse_step", 2}}).dense_layers), "0,2");
  EXPECT_EQ(
      to_string(with({{"decoder_sparse_step", 3}, {"mlp_only_layers", {2}}, {"num_hidden_layers", 6}}).dense_layers),
      "0-4");
  EXPECT_EQ(with({{"moe_intermediate_size", 60}}).expert_ffn, 0);
  const json window = {{"use_sliding_window", true}, {"sliding_window", 8}};
  EXPECT_EQ(windows(with(window)), "ssss");
  EXPECT_EQ(with({{"sliding_window", 8}, {"max_window_layers", 4}}).window, 0);
  // transformers writes either name.
  json renamed = {{"num_experts", nullptr}, {"num_local_experts", 6}};
  EXPECT_EQ(with(renamed).experts, 6);
}

TEST(HfLayers, ExpertsAreWrittenAsTransformersReadsThem) {
  const auto written = [](const json& config) {
    return json::parse(train::hf_config_json(model_of(config), DType::f32));
  };
  const json mixtral = written(config_of_type("mixtral"));
  EXPECT_EQ(mixtral["architectures"][0], "MixtralForCausalLM");
  EXPECT_EQ(mixtral["num_local_experts"], 8);
  EXPECT_EQ(mixtral["num_experts_per_tok"], 2);
  EXPECT_FALSE(mixtral.contains("moe_intermediate_size"));
  const json qwen = written(config_of_type("qwen3_moe", {{"decoder_sparse_step", 2}}));
  EXPECT_EQ(qwen["num_experts"], 128);
  EXPECT_EQ(qwen["moe_intermediate_size"], 768);
  EXPECT_EQ(qwen["norm_topk_prob"], false);
  EXPECT_EQ(qwen["decoder_sparse_step"], 1);
  EXPECT_EQ(qwen["mlp_only_layers"], json({0, 2}));
}

TEST(HfLayers, RefusesWhatDoesNotFit) {
  const auto refused = [](const std::string& type, const json& more, const std::vector<std::string_view>& parts) {
    const std::string message = testing::message_of<UserError>([&] { model_of(config_of_type(type, more)); });
    EXPECT_TRUE(testing::has_parts(message, parts)) << message;
  };
  refused("mistral", {{"sliding_window", 8}, {"layer_types", types("sfsf")}}, {"layer_types", "ministral"});
  refused("ministral", {{"sliding_window", nullptr}, {"layer_types", types("sfsf")}}, {"layer_types", "no window"});
  refused("granite", {{"sliding_window", 8}}, {"sliding_window is 8", "granite's"});
  refused("olmo3", {{"layer_types", types("sf")}}, {"layer_types", "a type for every layer"});
  refused("smollm3", {{"no_rope_layers", {1, 0}}}, {"no_rope_layers"});
  refused("smollm3", {{"no_rope_layers", {1, 0, 2, 1}}}, {"no_rope_layers[2]"});
  refused("smollm3", {{"no_rope_layer_interval", 0}}, {"no_rope_layer_interval is 0"});
  refused("gemma3_text", {{"sliding_window_pattern", 0}}, {"sliding_window_pattern is 0"});
  refused("mixtral", {{"router_jitter_noise", 0.1}}, {"router_jitter_noise is 0.1"});
  refused("mixtral", {{"output_router_logits", true}}, {"output_router_logits is true"});
  refused("mixtral", {{"num_local_experts", 0}}, {"model.experts = 0"});
  refused("mixtral", {{"num_local_experts", 2}, {"num_experts", 3}}, {"num_experts is 3", "num_local_experts"});
  refused("mixtral", {{"num_experts_per_tok", 9}}, {"model.experts-per-token = 9"});
  refused("qwen3_moe", {{"decoder_sparse_step", 0}}, {"decoder_sparse_step is 0"});
  refused("qwen3_moe", {{"decoder_sparse_step", 5}}, {"model.dense-layers"});
  refused("qwen3_moe", {{"mlp_only_layers", {0, -1}}}, {"mlp_only_layers[1] is -1"});
  refused("qwen3_moe", {{"mlp_only_layers", 2}}, {"mlp_only_layers is 2"});
  refused("qwen3_moe", {{"moe_intermediate_size", 0}}, {"moe_intermediate_size is 0"});
  refused("qwen3_moe", {{"use_sliding_window", true}, {"sliding_window", 8}, {"max_window_layers", 2}},
          {"max_window_layers is 2"});
  refused("llama", {{"num_experts", 4}}, {"num_experts is 4"});
}

}  // namespace
}  // namespace weft::train
