// Models of folders: the values that a configuration takes from them, and the refusal of contradictions.
#include "train/config/saved_model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/train/model_arrays.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/hf_config.h"
#include "train/checkpoint/weights.h"

namespace weft::train {
namespace {

/// A folder of Hugging Face and a run with a checkpoint, of one Llama model.
class SavedModels : public ::testing::Test {
 protected:
  SavedModels() {
    model_.norm_eps = 1e-6F;
    model_.rope_theta = 5e5F;
    std::filesystem::create_directories(folder_.path("hf"));
    const testing::ModelArrays arrays(model_, DType::f32, 1);
    save_weights(folder_.path("hf"), model_, arrays.states());
    CheckpointInfo info;
    info.step = 3;
    info.seed = 7;
    info.model = model_;
    info.config_toml = "steps = 9\nlr = 0.25\nseed = 7\nthreads = 3\nrun-dir = \"elsewhere\"\ninit-from = \"hf\"\n";
    save_checkpoint(folder_.path("run"), info, arrays.states());
  }

  std::string hf() const { return folder_.path("hf").string(); }
  std::string run() const { return folder_.path("run").string(); }

  static RunConfig given(std::vector<Setting> settings) {
    RunConfig config;
    for (Setting& setting : settings) setting.source = "--" + setting.key;
    apply_settings(config, std::move(settings));
    return config;
  }
  static std::string refused(RunConfig config) {
    return testing::message_of<UserError>([&] { fill_in(config, 0); });
  }
  static void expect_model(const ops::ModelConfig& found, const ops::ModelConfig& expected) {
    EXPECT_EQ(hf_config_json(found, DType::f32), hf_config_json(expected, DType::f32));
  }

  const testing::TemporaryFolder folder_;
  ops::ModelConfig model_ = testing::small_model(ops::Family::llama, false);
};

TEST_F(SavedModels, AreFoundInEveryKindOfFolder) {
  for (const std::string& path : {hf(), hf() + "/model.safetensors", run(), run() + "/checkpoints/step_00000003"}) {
    const SavedModel saved = read_saved_model(path);
    expect_model(saved.model, model_);
    EXPECT_EQ(saved.checkpoint.has_value(), path.starts_with(run())) << path;
  }
  EXPECT_EQ(read_saved_model(run()).path, folder_.path("run") / "checkpoints" / "step_00000003");
}

TEST_F(SavedModels, GetTheAdaptersThatTheRunAsksFor) {
  for (const std::string& path : {hf(), run()}) {
    RunConfig config = given({{"init-from", path, ""}, {"lora", "rank=3,on=out", ""}});
    fill_in(config, 0);
    expect_model(config.model, model_);
    EXPECT_EQ(config.model.lora, (ops::LoraConfig{.rank = 3, .on = ops::kLoraOut}));
  }
  EXPECT_TRUE(
      has_parts(refused(given({{"resume", run(), ""}, {"lora", "rank=3", ""}})),
                {"lora = rank=3,alpha=16,on=qkv+out+mlp, and the run in", "trained all weights", "fix: --init-from"}));
}

TEST_F(SavedModels, KeepTheirAdapters) {
  CheckpointInfo info;
  info.step = 3;
  info.model = model_;
  info.model.lora = {.rank = 2, .alpha = 4};
  const testing::ModelArrays arrays(info.model, DType::f32, 1);
  save_checkpoint(folder_.path("adapted"), info, arrays.states());
  const std::string adapted = folder_.path("adapted").string();
  for (const char* key : {"init-from", "resume"}) {
    for (const char* lora : {"", "rank=2,alpha=4"}) {
      RunConfig config = *lora == 0 ? given({{key, adapted, ""}}) : given({{key, adapted, ""}, {"lora", lora, ""}});
      fill_in(config, 0);
      EXPECT_EQ(config.model.lora, info.model.lora);
    }
    for (const char* lora : {"none", "rank=3"}) {
      EXPECT_TRUE(has_parts(refused(given({{key, adapted, ""}, {"lora", lora, ""}})),
                            {"and the adapters in", "have rank=2,alpha=4,on=qkv+out+mlp", "leave lora out"}));
    }
  }
}

// The base alone would be trained, as if there were no adapter.
TEST_F(SavedModels, AnAdapterBesideAModelIsTold) {
  RunConfig plain = given({{"init-from", hf(), ""}});
  fill_in(plain, 0);
  EXPECT_TRUE(plain.warnings.empty());
  folder_.write("hf/adapter_config.json", R"({"peft_type": "LORA", "r": 2})");
  for (const std::string& path : {hf(), hf() + "/model.safetensors"}) {
    RunConfig config = given({{"init-from", path, ""}});
    fill_in(config, 0);
    expect_model(config.model, model_);
    ASSERT_EQ(config.warnings.size(), 1U);
    EXPECT_TRUE(has_parts(config.warnings.front(), {"adapter", path}));
  }
}

TEST_F(SavedModels, OtherPathsAreRefused) {
  const auto refusal = [](const std::string& path) {
    return testing::message_of<UserError>([&] { read_saved_model(path); });
  };
  EXPECT_TRUE(has_parts(refusal(folder_.path("none").string()), {"none' doesn't exist"}));
  std::filesystem::remove(folder_.path("hf") / "config.json");
  EXPECT_TRUE(has_parts(refusal(hf()), {"no complete checkpoint and no config.json"}));
  EXPECT_TRUE(has_parts(refusal(hf() + "/model.safetensors"), {"has no config.json beside it"}));
  folder_.write("hf/config.json", "not json");
  EXPECT_TRUE(has_parts(refusal(hf()), {"config.json' isn't valid JSON"}));
}

TEST_F(SavedModels, GiveTheSizesThatAreLeftOut) {
  for (const std::vector<Setting>& start : std::vector<std::vector<Setting>>{
           {{"init-from", hf(), ""}},
           {{"init-from", run(), ""}},
           {{"resume", run(), ""}},
           {{"run-dir", run(), ""}, {"resume", "auto", ""}},
           {{"init-from", hf(), ""}, {"model.heads", "4", ""}, {"model.norm-eps", "1e-6", ""}}}) {
    RunConfig config = given(start);
    fill_in(config, 0);
    expect_model(config.model, model_);
    EXPECT_EQ(config.model_name, kCustomModel);
    EXPECT_EQ(config.seq_len, model_.context);
    fill_in(config, 0);  // again: the same
    expect_model(config.model, model_);
  }
}

TEST_F(SavedModels, RefuseEverySizeThatIsGivenOtherwise) {
  struct Case {
    const char *key, *value, *saved;
  };
  for (const Case& c :
       {Case{"model.family", "gpt2", "llama"}, Case{"model.layers", "3", "2"}, Case{"model.hidden", "16", "8"},
        Case{"model.heads", "2", "4"}, Case{"model.kv-heads", "4", "2"}, Case{"model.ffn", "16", "12"},
        Case{"model.vocab", "12", "11"}, Case{"model.context", "8", "6"}, Case{"model.tied", "true", "false"},
        Case{"model.norm-eps", "1e-05", "1e-06"}, Case{"model.rope-theta", "10000", "500000"},
        Case{"model.rope-scaling-factor", "8", "1"}, Case{"model.rope-low-freq-factor", "2", "1"},
        Case{"model.rope-high-freq-factor", "8", "4"}, Case{"model.rope-original-context", "64", "8192"}}) {
    for (const auto& [key, path] : {std::pair("init-from", hf()), std::pair("resume", run())}) {
      const std::string message = refused(given({{key, path, ""}, {c.key, c.value, ""}}));
      EXPECT_TRUE(has_parts(message, {fmt::format("{} = {}", c.key, c.value), fmt::format("has {}", c.saved)}))
          << c.key << ": " << message;
    }
  }
}

TEST_F(SavedModels, ANamedModelGivesAllItsSizes) {
  const std::string message = refused(given({{"init-from", hf(), ""}, {"model", "tiny", ""}}));
  EXPECT_TRUE(has_parts(message, {"model.family = gpt2 (model tiny)", "leave model = tiny out"})) << message;
  RunConfig in_code;
  in_code.model_name = "gpt2-124m";
  in_code.init_from = hf();
  EXPECT_TRUE(has_parts(refused(in_code), {"(model gpt2-124m)"}));
  in_code.model_name = kCustomModel;
  in_code.model = model_;
  in_code.model.heads = 2;
  EXPECT_TRUE(has_parts(refused(in_code), {"model.heads = 2", "has 4"}));
}

TEST_F(SavedModels, WeightsWithoutAConfigNeedTheSizes) {
  std::filesystem::remove(folder_.path("hf") / "config.json");
  EXPECT_TRUE(has_parts(refused(given({{"init-from", hf(), ""}, {"model.heads", "4", ""}})), {"config.json"}));
  RunConfig named = given({{"init-from", hf(), ""}, {"model", "llama-tiny", ""}});
  fill_in(named, 0);
  EXPECT_EQ(named.model_name, "llama-tiny");
}

TEST_F(SavedModels, AResumedRunKeepsItsSeedOrWarns) {
  RunConfig config = given({{"resume", run(), ""}});
  fill_in(config, 0);
  EXPECT_EQ(config.seed, 7U);
  EXPECT_TRUE(config.warnings.empty());
  RunConfig other = given({{"resume", run(), ""}, {"seed", "8", ""}});
  fill_in(other, 0);
  EXPECT_EQ(other.seed, 8U);
  ASSERT_EQ(other.warnings.size(), 1U);
  EXPECT_TRUE(has_parts(other.warnings.front(), {"seed = 8", "had 7"}));
}

TEST_F(SavedModels, AFolderThatIsGoneLeavesACompleteConfigurationReadable) {
  RunConfig config = given({{"resume", run(), ""}});
  fill_in(config, 0);
  RunConfig again;
  load_toml_text(again, dump_toml(config), "dump");
  std::filesystem::remove_all(folder_.path("run"));
  fill_in(again, 0);
  expect_model(again.model, model_);
  RunConfig open = given({{"resume", run(), ""}});
  EXPECT_TRUE(has_parts(refused(open), {"doesn't exist"}));
}

TEST_F(SavedModels, TheRunItselfIsTheConfigurationToResume) {
  const RunConfig config = config_to_resume(run());
  EXPECT_EQ(config.steps, 9);
  EXPECT_EQ(config.lr, 0.25);
  EXPECT_EQ(config.threads, 0);
  EXPECT_EQ(config.init_from, "");
  EXPECT_EQ(config.resume, run());
  EXPECT_EQ(std::filesystem::path(config.run_dir), folder_.path("run"));
}

TEST_F(SavedModels, AMicroBatchThatWasTheWholeShareStaysSo) {
  const auto micro_batch_of = [&](const std::string& stored) {
    CheckpointInfo info;
    info.model = model_;
    info.config_toml = stored;
    save_checkpoint(folder_.path("other"), info, {});
    return config_to_resume(folder_.path("other").string()).micro_batch;
  };
  EXPECT_EQ(micro_batch_of("global-batch = 8\nmicro-batch = 4\ngrid = \"data=2\"\n"), 0);
  EXPECT_EQ(micro_batch_of("global-batch = 8\nmicro-batch = 2\ngrid = \"data=2\"\n"), 2);
}

}  // namespace
}  // namespace weft::train
