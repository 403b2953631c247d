// The key `lora`: its parts and their defaults, refused texts, and the way through a file and back.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"
#include "train/config/config.h"

namespace weft::train {
namespace {

ops::LoraConfig lora_of(const std::string& value) {
  RunConfig config;
  set_key(config, "lora", value, "--lora");
  return config.model.lora;
}

TEST(LoraKey, TakesPartsAndDefaults) {
  EXPECT_EQ(lora_of("none"), ops::LoraConfig());
  EXPECT_EQ(lora_of(""), ops::LoraConfig());
  EXPECT_EQ(lora_of("rank=4"), (ops::LoraConfig{.rank = 4}));
  EXPECT_EQ(lora_of("alpha=32"), (ops::LoraConfig{.rank = 8, .alpha = 32}));
  EXPECT_EQ(lora_of("on=mlp+qkv,rank=2,alpha=0.5"), (ops::LoraConfig{.rank = 2, .alpha = 0.5F, .out = false}));
}

TEST(LoraKey, RefusesOtherParts) {
  const std::vector<std::pair<std::string, std::string>> refusals = {{"rank=0", "--lora: rank"},
                                                                     {"rank=-1", "--lora: rank"},
                                                                     {"rank=two", "--lora: rank"},
                                                                     {"rank=4,rank=8", "member rank is given twice"},
                                                                     {"rank", "\"rank\" is not a member"},
                                                                     {"rank=4,", "\"\" is not a member"},
                                                                     {"r=4", "unknown member \"r\""},
                                                                     {"alpha=0", "--lora: alpha"},
                                                                     {"alpha=nan", "--lora: alpha"},
                                                                     {"on=", "names \"\""},
                                                                     {"on=qkv+head", "names \"head\""},
                                                                     {"on=qkv+qkv", "repeats \"qkv\""},
                                                                     {"dropout=0.1", "unknown member \"dropout\""}};
  for (const auto& [value, part] : refusals) {
    const std::string message = testing::message_of<UserError>([&, &text = value] { lora_of(text); });
    EXPECT_TRUE(has_parts(message, {part})) << value << ": " << message;
  }
}

TEST(LoraKey, StaysWhateverTheModelBecomes) {
  RunConfig config;
  apply_settings(config, {{"lora", "rank=4,on=out", "--lora"}, {"model", "llama-tiny", "--model"}});
  set_key(config, "model", "small", "--model");
  set_key(config, "model.layers", "2", "--model.layers");
  const ops::LoraConfig expected{.rank = 4, .qkv = false, .mlp = false};
  EXPECT_EQ(config.model.lora, expected);
  EXPECT_EQ(config.model.layers, 2);
  RunConfig read;
  load_toml_text(read, dump_toml(config), "dump");
  EXPECT_EQ(read.model.lora, expected);
  EXPECT_EQ(dump_toml(read), dump_toml(config));
}

}  // namespace
}  // namespace weft::train
