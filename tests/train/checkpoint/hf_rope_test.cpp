#include "train/checkpoint/hf_rope.h"

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

const json kYarn = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 16}};

json with_base(json rope, double theta) {
  rope["rope_theta"] = theta;
  return rope;
}
json unscaled(double theta) {
  return with_base({{"rope_type", "default"}}, theta);
}

struct Bases {
  float all, local;
  friend bool operator==(const Bases&, const Bases&) = default;
  friend void PrintTo(const Bases& bases, std::ostream* out) { *out << bases.all << " and " << bases.local; }
};
Bases bases(const json& config) {
  const ops::ModelConfig model = model_of(config);
  return {model.rope_theta, model.rope_local_theta};
}

TEST(HfRope, AbsentBasesAreThoseOfTheClass) {
  EXPECT_EQ(bases(config_of_type("smollm3")), (Bases{2e6F, 0}));
  EXPECT_EQ(bases(config_of_type("gemma3_text", {{"sliding_window", 8}})), (Bases{1e6F, 1e4F}));
  EXPECT_EQ(bases(config_of_type("olmo3", {{"sliding_window", 8}})), (Bases{5e5F, 5e5F}));
}

TEST(HfRope, LayersWithAWindowHaveABaseOfTheirOwn) {
  const json flat = {
      {"sliding_window", 8}, {"rope_theta", 3e5}, {"rope_local_base_freq", 500}, {"rope_scaling", kYarn}};
  const json nested = {
      {"sliding_window", 8},
      {"rope_parameters", {{"full_attention", with_base(kYarn, 3e5)}, {"sliding_attention", unscaled(500)}}}};
  for (const json& keys : {flat, nested}) {
    const ops::ModelConfig model = model_of(config_of_type("gemma3_text", keys));
    EXPECT_EQ(bases(config_of_type("gemma3_text", keys)), (Bases{3e5F, 500}));
    EXPECT_EQ(model.rope_scaling_factor, 4.0F);
  }
  json both = flat;
  both.update(nested);
  EXPECT_EQ(bases(config_of_type("gemma3_text", both)), (Bases{3e5F, 500}));
}

TEST(HfRope, OneSetOfNumbersForAllLayersIsKept) {
  const json yarn = with_base(kYarn, 3e5);
  const json keys = {{"sliding_window", 8},
                     {"rope_parameters", {{"full_attention", yarn}, {"sliding_attention", yarn}}}};
  const ops::ModelConfig model = model_of(config_of_type("olmo3", keys));
  EXPECT_EQ(model.rope_local_theta, 0);
  const json written = json::parse(hf_config_json(model, DType::f32));
  EXPECT_EQ(written["rope_parameters"]["sliding_attention"], written["rope_parameters"]["full_attention"]);
  EXPECT_FALSE(written.contains("rope_scaling"));  // transformers 4 wouldn't scale layers with a window
  EXPECT_EQ(model_of(written).rope_local_theta, 0);
}

TEST(HfRope, RefusesWhatDoesNotFit) {
  const auto refused = [](const std::string& type, json more, const std::vector<std::string_view>& parts) {
    more["sliding_window"] = 8;
    const std::string message = testing::message_of<UserError>([&] { model_of(config_of_type(type, more)); });
    EXPECT_TRUE(testing::has_parts(message, parts)) << message;
  };
  const json one = {
      {"rope_parameters", {{"full_attention", unscaled(3e5)}, {"sliding_attention", with_base(kYarn, 10)}}}};
  refused("olmo3", one, {"sliding_attention", "full_attention"});
  refused("olmo3", {{"rope_parameters", unscaled(3e5)}}, {"rope_parameters", "sliding_attention"});
  refused("olmo3", {{"rope_theta", 3e5}}, {"rope_theta is 3", "rope_parameters"});  // transformers 4 and 5 differ
  json both = {{"rope_parameters", {{"full_attention", unscaled(3e5)}, {"sliding_attention", unscaled(500)}}}};
  both["rope_theta"] = 4e5;
  refused("gemma3_text", both, {"rope_parameters", "rope_theta"});
  refused("phi3", {{"rope_scaling", {{"rope_type", "longrope"}}}}, {"longrope"});
  refused("phi3", {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2}}}}, {"family phi3"});
  refused("phi3", {{"partial_rotary_factor", 0.75}}, {"partial_rotary_factor is 0.75"});
}

}  // namespace
}  // namespace weft::train
