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
}

}  // namespace
}  // namespace weft::train
