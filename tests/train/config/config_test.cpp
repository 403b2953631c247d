// The table of keys: setting from text, refusals with the nearest name, and dumps that read back.
#include "train/config/config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "tests/base/messages.h"

namespace weft::train {
namespace {

std::string refused_key(std::string_view key, std::string_view value) {
  return testing::message_of<UserError>([&] {
    RunConfig config;
    set_key(config, key, value, "--set");
  });
}

TEST(Config, SetsEachKindOfValue) {
  RunConfig config;
  set_key(config, "steps", "7", "test");
  set_key(config, "lr", "3e-4", "test");
  set_key(config, "beta2", "0.97", "test");
  set_key(config, "dtype", "bf16", "test");
  set_key(config, "schedule", "wsd", "test");
  set_key(config, "recompute", "block", "test");
  set_key(config, "run-dir", "runs/a b", "test");
  set_key(config, "model.tied", "false", "test");
  EXPECT_EQ(config.steps, 7);
  EXPECT_EQ(config.lr, 3e-4);
  EXPECT_EQ(config.beta2, 0.97F);
  EXPECT_EQ(config.dtype, DType::bf16);
  EXPECT_EQ(config.schedule, Schedule::wsd);
  EXPECT_EQ(config.recompute, Recompute::block);
  EXPECT_EQ(config.run_dir, "runs/a b");
  EXPECT_FALSE(config.model.tied);
}

TEST(Config, AcceptsUnderscoresForDashes) {
  RunConfig config;
  set_key(config, "seq_len", "32", "test");
  set_key(config, "model.kv_heads", "2", "test");
  EXPECT_EQ(config.seq_len, 32);
  EXPECT_EQ(config.model.kv_heads, 2);
}

TEST(Config, RefusesWhatAKeyDoesNotTake) {
  struct Case {
    const char *key, *value;
    std::vector<std::string_view> parts;
  };
  for (const Case& each : std::vector<Case>{
           {"stpes", "1", {"--set: unknown key \"stpes\"", "did you mean steps?"}},
           {"model.hiden", "1", {"did you mean model.hidden?"}},
           {"eval_batches", "0", {"set eval-sequences"}},
           {"eval_batches", "1", {"set eval-sequences"}},
           {"steps", "ten", {"steps = \"ten\" is not an integer"}},
           {"steps", "10.5", {"is not an integer"}},
           {"steps", "10 ", {"is not an integer"}},
           {"steps", "", {"is not an integer"}},
           {"lr", "fast", {"is not a number"}},
           {"lr", "1e-3x", {"is not a number"}},
           {"model.tied", "yes", {"model.tied = \"yes\" is not a truth value", "expected true, false, on or off"}},
           {"schedule", "cosin", {"expected one of cosine, wsd, linear, constant", "did you mean \"cosine\"?"}},
           {"dtype", "fp16", {"expected one of fp32, bf16"}},
           {"pack-weights", "of", {"one of auto, on, off", "did you mean"}},
           {"gpu-kernels", "early-start,cluster-loss", {"one of early-start", "did you mean \"clustered-loss\"?"}},
           {"gradient-reduction", "true", {"one of step, micro-batch"}},
           {"communicator", "ncl", {"one of auto, local, nccl, staged, mpi"}},
           {"model", "gpt2-125m", {"gpt2-124m"}},
           {"grid", "dta=2", {"unknown axis \"dta\"", "did you mean \"data\"?"}},
           {"grid", "data", {"not an axis and its size"}},
           {"grid", "data=2,data=3", {"given twice"}},
           {"grid", "data=0", {"out of range"}},
           {"grid", "data=two", {"not an integer"}}}) {
    EXPECT_TRUE(has_parts(refused_key(each.key, each.value), each.parts)) << each.key << " = " << each.value;
  }
  for (const char* wrong :
       {"", "x", "x,y,z", "x,y,z,data,x", "x,x,y,z", "x,y,z,date", "x, y, z, data", "x,y,z,data,"}) {
    EXPECT_TRUE(testing::contains(refused_key("axis-order", wrong), "isn't an order of the axes")) << wrong;
  }
  EXPECT_EQ(key_in_place_of("eval-batches"), "eval-sequences");
  EXPECT_EQ(key_in_place_of("eval-sequences"), "");
}

TEST(Config, NumbersOutOfRangeAreRefused) {
  using KeyAndValue = std::pair<const char*, const char*>;
  for (const auto& [key, value] : {KeyAndValue{"steps", "-1"},
                                   {"steps", "99999999999999999999"},
                                   {"seed", "-1"},
                                   {"lr", "-1"},
                                   {"lr", "nan"},
                                   {"lr", "inf"},
                                   {"lr", "1e999"},
                                   {"dropout", "1"},
                                   {"beta1", "1"},
                                   {"global-batch", "0"},
                                   {"model.layers", "0"},
                                   {"ranks", "-2"}}) {
    EXPECT_TRUE(testing::contains(refused_key(key, value), "is out of range; expected")) << key << " = " << value;
  }
  // The bounds themselves.
  EXPECT_EQ(refused_key("dropout", "0.99"), "");
  EXPECT_EQ(refused_key("lr", "10"), "");
  EXPECT_EQ(refused_key("steps", "1"), "");
}

TEST(Config, TextsArePlainUtf8) {
  for (const char* good : {"", "a\tb\n\x7f", "data/café.txt", "數據", "\xf4\x8f\xbf\xbf"}) {
    RunConfig config;
    set_key(config, "data", good, "--data");
    EXPECT_EQ(config.data, good);
  }
  // NUL, Latin-1, a cut sequence, overlong forms, a surrogate, and beyond U+10FFFF.
  for (const std::string& bad : {std::string("a\0b", 3), std::string("caf\xe9"), std::string("\xe2\x82"),
                                 std::string("\xc0\xaf"), std::string("\xe0\x80\xaf"), std::string("\xf0\x80\x80\xaf"),
                                 std::string("\xed\xa0\x80"), std::string("\xf4\x90\x80\x80"), std::string("\xff")}) {
    RunConfig config;
    EXPECT_THROW(set_key(config, "data", bad, "--data"), UserError) << bad;
  }
}

TEST(Config, WhenGradientsAreReducedIsTheUsersChoice) {
  RunConfig config;
  EXPECT_EQ(config.gradient_reduction, ops::GradientReduction::step);
  config.gradient_reduction = ops::GradientReduction::micro_batch;
  fill_in(config, 0);  // on one rank there is nothing to do
  const auto key = std::ranges::find(config_keys(), "gradient-reduction", &ConfigKey::name);
  EXPECT_TRUE(testing::contains(key->help, "in another order"));
}

TEST(Config, ModelNameLoadsItsSizesWhateverTheOrder) {
  RunConfig config;
  apply_settings(config, {{"model.layers", "2", "test"}, {"model", "gpt2-124m", "test"}});
  EXPECT_EQ(config.model.layers, 2);
  EXPECT_EQ(config.model.hidden, ops::model_by_name("gpt2-124m").hidden);
  EXPECT_EQ(config.model_name, "custom");
}

TEST(Config, UnchangedSizesKeepTheModelsName) {
  RunConfig config;
  const ops::ModelConfig tiny = ops::model_by_name("tiny");
  set_key(config, "model.layers", std::to_string(tiny.layers), "test");
  EXPECT_EQ(config.model_name, "tiny");
  EXPECT_EQ(config.model.context, tiny.context);
}

TEST(Config, DependentSizesFollowUnlessSet) {
  RunConfig config;
  apply_settings(config, {{"model", "tiny", "test"}, {"model.heads", "4", "test"}, {"model.hidden", "128", "test"}});
  EXPECT_EQ(config.model.kv_heads, 4);
  EXPECT_EQ(config.model.ffn, 512);
  apply_settings(config, {{"model.ffn", "300", "test"}, {"model.hidden", "64", "test"}});
  EXPECT_EQ(config.model.ffn, 300);

  RunConfig llama;
  apply_settings(llama, {{"model", "llama-tiny", "test"}, {"model.family", "gpt2", "test"}});
  EXPECT_EQ(llama.model.kv_heads, llama.model.heads);
}

TEST(Config, ARunIsAsLongAsItsStepsOrItsEpochs) {
  RunConfig config;
  apply_settings(config, {{"epochs", "2.5", "file"}});
  EXPECT_EQ(config.steps, 0);
  EXPECT_EQ(config.epochs, 2.5);
  RunConfig back;
  load_toml_text(back, dump_toml(config), "dump");
  EXPECT_EQ(back.epochs, 2.5);
  EXPECT_EQ(back.steps, 0);
  apply_settings(config, {{"steps", "7", "--steps"}});  // a later layer
  EXPECT_EQ(config.steps, 7);
  EXPECT_EQ(config.epochs, 0);
  const std::string message = testing::message_of<UserError>([&] {
    apply_settings(config, {{"epochs", "3", "--epochs"}, {"steps", "9", "--steps"}});
  });
  EXPECT_TRUE(has_parts(message, {"steps = 9 and epochs = 3", "one of both", "leave one out"}));
  EXPECT_EQ(config.steps, 7);
  config.steps = 0;
  EXPECT_TRUE(refuses([&] { fill_in(config, 0); }, {"steps = 0 and epochs = 0", "--epochs 3"}));
}

TEST(Config, KeysAreUniqueAndTheirDefaultsAreAccepted) {
  std::set<std::string> names;
  RunConfig config;
  for (const ConfigKey& key : config_keys()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    EXPECT_FALSE(key.help.empty()) << key.name;
    EXPECT_NO_THROW(set_key(config, key.name, key.default_value, "test")) << key.name;
  }
  EXPECT_EQ(dump_toml(config), dump_toml(RunConfig{}));
}

/// A value other than the default, in the form that a flag takes.
std::string another_value(const ConfigKey& key) {
  if (key.name == "model") return "gpt2-124m";
  if (key.name == "model.family") return "olmo3";
  if (key.name == "grid") return "x=1,y=1,z=1,data=2";
  if (key.name == "stages") return "2,3";
  if (key.name == "axis-order") return "data,z,x,y";
  if (key.name == "goldfish") return "k=3,h=5,strategy=avalanche";
  if (key.name == "rewrites") return "bucket=26214400;recompute=0-3";
  if (key.name == "lora") return "rank=3,alpha=0.5,on=qkv+mlp";
  if (key.name == "attention-workspace") return "3GiB";
  if (key.name == "gpu-kernels") return "early-start,grouped-mma";
  if (key.name == "nccl") return "protocol=auto,channels=3,gathers=grouped,calls=supervised,buffers=registered";
  if (key.name == "peer-timeout") return "3.5";
  if (key.type == "layers") return "3,7-9";
  if (key.type == "integer") return key.default_value == "3" ? "4" : "3";
  if (key.name == "model.rope-theta") return "50000.5";
  if (key.name == "eps") return "3e-09";
  if (key.name == "model.norm-eps") return "1e-06";
  if (key.type == "number") return key.name.starts_with("model.rope") ? "2.5" : "0.123456789012";
  if (key.type == "true or false") return key.default_value == "true" ? "false" : "true";
  if (key.is_list) return R"(["a \"quoted\\path", "[b*]?.txt", "é"])";
  if (key.type == "text") return "a \"quoted\\path\"\twith = signs # and é";
  const std::size_t bar = key.type.rfind('|');
  return key.type.substr(bar + 1);
}

TEST(Config, DumpOfEveryKeyReadsBack) {
  for (const ConfigKey& key : config_keys()) {
    RunConfig config;
    set_key(config, key.name, another_value(key), "test");
    const std::string dump = dump_toml(config);
    EXPECT_NE(dump, dump_toml(RunConfig{})) << key.name;
    RunConfig back;
    load_toml_text(back, dump, "dump");
    EXPECT_EQ(dump_toml(back), dump) << key.name;
  }
}

TEST(Config, FieldsReadBackBitForBit) {
  RunConfig config;
  set_key(config, "min-lr", "-0", "test");
  EXPECT_FALSE(std::signbit(config.min_lr));
  config.lr = 0.1 + 0.2;
  config.beta1 = 1.0F / 3.0F;
  config.eps = 1.2345678e-9F;
  config.seed = 9'000'000'000'000'000'000ULL;
  RunConfig back;
  load_toml_text(back, dump_toml(config), "dump");
  EXPECT_EQ(back.lr, config.lr);
  EXPECT_EQ(back.beta1, config.beta1);
  EXPECT_EQ(back.eps, config.eps);
  EXPECT_EQ(back.seed, config.seed);
}

}  // namespace
}  // namespace weft::train
