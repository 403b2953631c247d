// The keys with parts: the ranks along axes, rewrites, and low-rank adapters with their defaults and refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"
#include "train/config/config.h"

namespace weft::train {
namespace {

TEST(KeyParts, GridTakesAnySubsetOfAxes) {
  RunConfig config;
  set_key(config, "grid", "data=4", "test");
  EXPECT_EQ(config.grid.data, 4);
  set_key(config, "grid", "z=2,x=3", "test");
  EXPECT_EQ(config.grid.x, 3);
  EXPECT_EQ(config.grid.z, 2);
  EXPECT_EQ(config.grid.data, 1);
}

TEST(KeyParts, ContextStandsAmongTheAxes) {
  RunConfig config;
  set_key(config, "grid", "z=4,context=2", "test");
  EXPECT_EQ(config.grid.z, 4);
  EXPECT_EQ(config.grid.context, 2);
  const std::string dump = dump_toml(config);
  EXPECT_TRUE(testing::contains(dump, "grid = \"x=1,y=1,z=4,data=1,context=2\"\n")) << dump;
  RunConfig back;
  load_toml_text(back, dump, "dump");
  EXPECT_EQ(back.grid, config.grid);
  set_key(config, "grid", "z=4", "test");
  EXPECT_EQ(config.grid.context, 1);
}

TEST(KeyParts, ExpertStandsAmongTheAxes) {
  RunConfig config;
  set_key(config, "grid", "expert=2,z=4,context=4", "test");
  EXPECT_EQ(config.grid, (graph::Grid{.z = 4, .context = 4, .expert = 2}));
  RunConfig back;
  load_toml_text(back, dump_toml(config), "dump");
  EXPECT_EQ(back.grid, config.grid);
}

TEST(KeyParts, AGridMayBeLeftToACommandThatChooses) {
  RunConfig config;
  apply_settings(config, {{"grid", "y=2,z=2", "file"}});
  apply_settings(config, {{"grid", "auto", "--grid"}, {"axis-order", "data,x,z,y", "--axis-order"}});
  EXPECT_TRUE(config.grid_auto);
  EXPECT_EQ(config.grid.ranks(), 4);  // the number of ranks, where nothing else says it
  const std::string dump = dump_toml(config);
  EXPECT_TRUE(testing::contains(dump, "grid = \"auto\"\n")) << dump;
  RunConfig back;
  load_toml_text(back, dump, "dump");
  EXPECT_TRUE(back.grid_auto);
  EXPECT_EQ(dump_toml(back), dump);
  const std::string refused = testing::message_of<UserError>([&] { fill_in(back, 4); });
  EXPECT_TRUE(has_parts(refused, {"grid = auto", "only `weft train`", "`weft search"})) << refused;
  set_key(back, "grid", "data=2", "test");
  EXPECT_FALSE(back.grid_auto);
  fill_in(back, 2);
  EXPECT_TRUE(testing::contains(dump_toml(back), "grid = \"x=1,y=1,z=1,data=2\"\n"));
}

TEST(KeyParts, AxisOrderTakesEachAxisOnce) {
  RunConfig config;
  set_key(config, "axis-order", "data,x,z,y", "test");
  set_key(config, "grid", "x=2,data=3", "test");  // keeps the order
  EXPECT_EQ(graph::coordinates_of(config.grid, 4), (graph::Coordinates{.x = 1, .data = 1}));
}

TEST(KeyParts, RewritesAreReadWhenTheyAreSet) {
  RunConfig config;
  set_key(config, "rewrites", "bucket=25MB;recompute=2,0-1", "test");
  EXPECT_EQ(plan::to_string(config.rewrites), "bucket=26214400;recompute=0-2");
  EXPECT_THROW(set_key(config, "rewrites", "buckets", "test"), UserError);
  EXPECT_EQ(plan::to_string(config.rewrites), "bucket=26214400;recompute=0-2");
}

TEST(KeyParts, ASplitOfTheBatchIsOneOfTheRewrites) {
  RunConfig config;
  config.micro_batch = 4;
  config.global_batch = 8;
  set_key(config, "rewrites", "bucket=64;batch-split=2;reshard", "test");
  EXPECT_EQ(plan::to_string(config.rewrites), "bucket=64;reshard");
  EXPECT_EQ(config.batch_split, 2);
  const auto& table = config_keys();
  const auto key = std::ranges::find(table, "rewrites", &ConfigKey::name);
  EXPECT_EQ(key->get(config), "batch-split=2;bucket=64;reshard");
  for (int twice = 0; twice < 2; ++twice) {  // resolved values stay
    fill_in(config, 0);
    EXPECT_EQ(config.micro_batch, 2);
    EXPECT_EQ(key->get(config), "bucket=64;reshard");
  }
  for (const char* wrong : {"batch-split=1", "batch-split=x", "batch-split=2;batch-split", "batch-splits", "bucket;"}) {
    EXPECT_THROW(set_key(config, "rewrites", wrong, "test"), UserError) << wrong;
  }
  set_key(config, "rewrites", "batch-split=3", "test");
  const std::string message = testing::message_of<UserError>([&] { fill_in(config, 0); });
  EXPECT_TRUE(has_parts(message, {"batch-split = 3 doesn't divide the micro-batch of 2", "batch-split=2"}));
}

execute::NcclSettings nccl_of(const std::string& value) {
  RunConfig config;
  set_key(config, "nccl", value, "--nccl");
  return config.nccl;
}

TEST(NcclKey, TakesPartsAndDefaults) {
  using Protocol = execute::NcclSettings::Protocol;
  for (const char* text : {"", "default", "protocol=simple", "channels=auto,gathers=single,calls=background"}) {
    EXPECT_EQ(nccl_of(text), execute::NcclSettings()) << text;
  }
  EXPECT_EQ(nccl_of("protocol=ll,channels=64"), (execute::NcclSettings{.protocol = Protocol::ll, .channels = 64}));
  EXPECT_EQ(nccl_of("buffers=registered,protocol=auto,calls=supervised,gathers=grouped"),
            (execute::NcclSettings{
                .protocol = Protocol::automatic, .grouped_gathers = true, .supervised = true, .registered = true}));
}

TEST(NcclKey, RefusesOtherParts) {
  for (const auto& [wrong, part] :
       std::vector<std::pair<std::string, std::string>>{{"protocol=ll128", "--nccl: protocol = \"ll128\""},
                                                        {"protocol=Simple", "--nccl: protocol = \"Simple\""},
                                                        {"channels=0", "out of range"},
                                                        {"channels=65", "out of range"},
                                                        {"channels=two", "not an integer"},
                                                        {"gathers=on", "--nccl: gathers = \"on\""},
                                                        {"calls=blocking", "--nccl: calls = \"blocking\""},
                                                        {"buffers=", "--nccl: buffers = \"\""},
                                                        {"algorithm=tree", "unknown setting \"algorithm\""},
                                                        {"channels=2,channels=2", "given twice"}}) {
    const std::string message = testing::message_of<UserError>([&, value = wrong] { nccl_of(value); });
    EXPECT_TRUE(testing::contains(message, part)) << wrong << ": " << message;
  }
}

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
  EXPECT_EQ(lora_of("on=mlp+qkv,rank=2,alpha=0.5"),
            (ops::LoraConfig{.rank = 2, .alpha = 0.5F, .on = ops::kLoraQkv | ops::kLoraMlp}));
}

TEST(LoraKey, TakesSingleModules) {
  const auto modules = [](std::initializer_list<ops::LoraModule> of) {
    ops::LoraModules set;
    for (const ops::LoraModule module : of) set |= ops::only(module);
    return set;
  };
  using enum ops::LoraModule;
  EXPECT_EQ(lora_of("on=v+q").on, modules({q, v}));
  EXPECT_EQ(lora_of("on=q+k+v,rank=2"), (ops::LoraConfig{.rank = 2, .on = ops::kLoraQkv}));
  EXPECT_EQ(lora_of("on=out+up+gate").on, modules({out, gate, up}));
  const ops::LoraConfig own{
      .rank = 4, .on = modules({q, v}), .rslora = true, .own_rank = {0, 0, 2}, .own_alpha = {32.0F}};
  EXPECT_EQ(lora_of("rank.v=2,alpha.q=32,rslora=true,on=q+v,rank=4"), own);
  EXPECT_EQ(lora_of("rank.v=2,alpha.q=32,rank.q=4,alpha.v=16,rslora=true,on=q+v,rank=4"), own);  // as all have them
  for (const char* text :
       {"rank=8,alpha=16,on=q+v", "rank=8,alpha=16,on=qkv+up+down",
        "rank=4,alpha=16,on=q+v,rslora=true,alpha.q=32,rank.v=2", "rank=8,alpha=16,on=qkv+out+mlp"}) {
    EXPECT_EQ(ops::to_string(lora_of(text)), text);
  }
}

TEST(LoraKey, RefusesOtherParts) {
  const std::vector<std::pair<std::string, std::string>> refusals = {
      {"rank=0", "--lora: rank"},           {"rank=-1", "--lora: rank"},
      {"rank=two", "--lora: rank"},         {"rank=4,rank=8", "member rank is given twice"},
      {"rank", "\"rank\" is not a member"}, {"rank=4,", "\"\" is not a member"},
      {"r=4", "unknown member \"r\""},      {"alpha=0", "--lora: alpha"},
      {"alpha=nan", "--lora: alpha"},       {"on=", "names \"\""},
      {"on=qkv+head", "names \"head\""},    {"on=qkv+qkv", "repeats \"qkv\""},
      {"on=q+qkv", "repeats \"qkv\""},      {"on=qkv+v", "repeats \"v\""},
      {"rank.v=0", "--lora: rank.v"},       {"alpha.mlp=2", "unknown member \"alpha.mlp\""},
      {"rslora=yes", "--lora: rslora"},     {"dropout=0.1", "unknown member \"dropout\""}};
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
  const ops::LoraConfig expected{.rank = 4, .on = ops::kLoraOut};
  EXPECT_EQ(config.model.lora, expected);
  EXPECT_EQ(config.model.layers, 2);
  RunConfig read;
  load_toml_text(read, dump_toml(config), "dump");
  EXPECT_EQ(read.model.lora, expected);
  EXPECT_EQ(dump_toml(read), dump_toml(config));
}

}  // namespace
}  // namespace weft::train
