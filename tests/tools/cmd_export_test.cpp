// `weft export` as a process: a checkpoint of a grid becomes the files that one rank would have written.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tools/weft_folder.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

class ExportCommand : public testing::WeftFolder {
 protected:
  ExportCommand() { write_text(); }
  /// A run of two steps, with a checkpoint after each.
  void train(const std::string& run_dir, const Words& more) const {
    const Words words = testing::words_in(
        "train --quiet --data text.txt --model.layers 1 --model.hidden 16 --model.heads 4 --model.ffn 24 "
        "--model.vocab 257 --model.context 16 --global-batch 4 --threads 1 --trace-steps 0 --steps 2 --save-every 1 "
        "--run-dir " +
        run_dir);
    output(testing::joined(words, more));
  }
  std::vector<std::string> files_of(const std::string& path) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path(path))) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
};

class ExportedFamily : public ExportCommand, public ::testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Families, ExportedFamily, ::testing::Values("gpt2", "llama"),
                         [](const auto& info) { return std::string(info.param); });

// From a grid that cuts everything to one rank and back: each export holds the weights of the checkpoint, to the bit.
TEST_P(ExportedFamily, OfAGridIsTheModelThatOneRankSaves) {
  const std::vector<std::string> family = {"--model.family", GetParam(), "--model.tied",
                                           GetParam() == std::string("gpt2") ? "true" : "false"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), family.begin(), family.end());
    return more;
  };
  train("cut", with({"--grid", "x=2,y=2,z=2", "--zero-1", "true"}));
  // A single rank takes the cut weights and changes none.
  train("one", with({"--init-from", "cut/checkpoints/step_00000002", "--lr", "0"}));
  const testing::CommandResult cut = testing::succeeded(run({"export", "cut", "-o", "out/cut"}));
  EXPECT_TRUE(has_parts(cut.output, {"out/cut/model.safetensors: ", " f32 parameters of cut/", "step 2, "}));
  EXPECT_EQ(files_of("out/cut"),
            (std::vector<std::string>{"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}));
  ASSERT_EQ(run({"export", "one/checkpoints/step_00000002", "-o", "out/one"}).exit_code, 0);
  EXPECT_TRUE(read("out/cut/model.safetensors") == read("out/one/model.safetensors"));
  EXPECT_EQ(read("out/cut/config.json"), read("out/one/config.json"));

  // The exported file is read again, on another grid.
  train("again", with({"--init-from", "out/cut", "--lr", "0", "--grid", "y=2,z=2"}));
  ASSERT_EQ(run({"export", "again", "-o", "out/again"}).exit_code, 0);
  EXPECT_TRUE(read("out/again/model.safetensors") == read("out/cut/model.safetensors"));
}

// The folder as a model gives each size of the run that it was exported from.
TEST_P(ExportedFamily, IsTheModelAgain) {
  train("run", {"--model.family", GetParam(), "--model.norm-eps", "3e-6"});
  ASSERT_EQ(run({"export", "run", "-o", "hf"}).exit_code, 0);
  const auto sizes = [&](const std::vector<std::string>& words) {
    const std::string dump = run(words).output;
    return dump.substr(std::min(dump.find("[model]"), dump.size()));
  };
  const std::string expected = sizes({"train", "run", "--dump-config"});
  EXPECT_TRUE(has_parts(expected, {"norm-eps = 3e-06", "ffn = 24"}));
  EXPECT_EQ(sizes({"train", "--model", "hf", "--dump-config"}), expected);
  for (const std::string command : {"simulate", "search", "graph", "compare", "explain", "memory", "plan"}) {
    EXPECT_EQ(sizes({command, "--model", "./hf/", "--dump-config"}), expected) << command;
  }
  const testing::CommandResult trained = testing::succeeded(
      run({"train", "--model", "hf", "--run-dir", "again", "--steps", "1", "--data", "text.txt", "--threads", "1"}));
  EXPECT_TRUE(has_parts(trained.errors, {"weft: warning: model = hf gives sizes alone", "--init-from hf"}));
  const std::string stored = read("again/config.toml");
  EXPECT_EQ(stored.substr(stored.find("[model]")), expected);
}

// Adapters trained on a grid and resumed on another: exported for PEFT, and merged into a model that evaluates alike.
TEST_P(ExportedFamily, AdaptersAreExportedAloneOrMerged) {
  train("base", {"--model.family", GetParam()});
  train("adapted", {"--init-from", "base", "--lora", "rank=3,on=qkv+mlp", "--lr", "0.05", "--grid", "x=2,y=2"});
  testing::succeeded(run({"train", "--resume", "adapted", "--steps", "3", "--grid", "z=2,data=2", "--ranks", "4",
                          "--threads", "1", "--quiet"}));

  const testing::CommandResult alone =
      testing::succeeded(run({"export", "adapted", "-o", "adapters", "--base", "their/base"}));
  EXPECT_TRUE(has_parts(alone.output, {"adapter_model.safetensors: ", "the adapters of adapted/", "step 3"}));
  EXPECT_EQ(files_of("adapters"), (std::vector<std::string>{"adapter_config.json", "adapter_model.safetensors",
                                                            "tokenizer.json", "tokenizer_config.json"}));
  EXPECT_TRUE(has_parts(read("adapters/adapter_config.json"), {R"("base_model_name_or_path": "their/base")"}));
  ASSERT_EQ(run({"export", "adapted", "-o", "merged", "--merge"}).exit_code, 0);
  // The base is known after a resume, and to a run that begins with the adapters.
  train("again", {"--init-from", "adapted"});
  for (const std::string name : {"adapted", "again"}) {
    ASSERT_EQ(run({"export", name, "-o", name + "-peft"}).exit_code, 0);
    EXPECT_TRUE(has_parts(read(name + "-peft/adapter_config.json"), {R"("base_model_name_or_path": "base")"}));
  }

  const auto loss = [&](const std::string& model) {
    const testing::CommandResult result =
        run({"eval", model, "--json", "--data", "text.txt", "--seq-len", "16", "--threads", "1"});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return nlohmann::json::parse(result.output).at("val_loss").get<double>();
  };
  const double adapted = loss("adapted");
  EXPECT_NEAR(loss("merged"), adapted, 1e-6 * adapted);
  EXPECT_GT(std::abs(loss("base") - adapted), 1e-3);

  expect_refusal({"export", "base", "-o", "out", "--merge"}, {"--merge, and base/", "has no adapters"});
  expect_refusal({"export", "adapted", "-o", "out", "--merge", "--base", "x"}, {"--base = x for a whole model"});
  expect_refusal({"export", "adapted", "-o", "adapters"}, {"adapter_model.safetensors' exists"});
}

// Moments and master weights of the adapters are in the checkpoint, and the base is as it was.
TEST_F(ExportCommand, AdaptersGoOnBitForBit) {
  train("base", {});
  const auto adapted = [&](const std::string& name, const std::string& steps) {
    train(name, {"--init-from", "base", "--lora", "rank=2", "--dtype", "bf16", "--grid", "x=2,data=2", "--zero-1",
                 "true", "--schedule", "constant", "--warmup", "0", "--dropout", "0.1", "--steps", steps});
  };
  adapted("straight", "3");
  adapted("broken", "1");
  testing::succeeded(run({"train", "--resume", "broken", "--steps", "3", "--quiet"}));
  for (const std::string name : {"straight", "broken"}) {
    ASSERT_EQ(run({"export", name, "-o", name + "-peft"}).exit_code, 0);
  }
  EXPECT_TRUE(read("straight-peft/adapter_model.safetensors") == read("broken-peft/adapter_model.safetensors"));
}

TEST_F(ExportCommand, AdaptersNeedAModel) {
  expect_refusal({"train", "--lora", "rank=2", "--data", "text.txt", "--run-dir", "run"}, {"lora without init-from"});
  EXPECT_FALSE(exists("run"));
}

TEST_F(ExportCommand, TakesARunsNewestCheckpointOrTheOneNamed) {
  train("run", {"--grid", "x=2,z=2"});
  const testing::CommandResult newest = run({"export", "run", "--output", "two"});
  EXPECT_TRUE(has_parts(newest.output, {", step 2, "})) << newest.output;
  const testing::CommandResult named = run({"export", "run/checkpoints/step_00000001", "-o", "one"});
  EXPECT_TRUE(has_parts(named.output, {", step 1, "})) << named.output;
  EXPECT_FALSE(read("one/model.safetensors") == read("two/model.safetensors"));
}

TEST_F(ExportCommand, RefusesAndWritesNothing) {
  train("run", {"--grid", "z=2"});
  expect_refusal({"export", "missing", "-o", "out"}, {"'missing' doesn't exist"});
  expect_refusal({"export", "text.txt", "-o", "out"}, {"config.json"});
  expect_refusal({"export", "run"}, {"--output"});
  expect_refusal({"export", "run", "-o", "text.txt/out"}, {"text.txt/out", "-o "});
  EXPECT_FALSE(exists("out"));

  // Nothing is overwritten, not even the half of a model.
  folder_.write("taken/config.json", "mine");
  expect_refusal({"export", "run", "-o", "taken"}, {"'taken/config.json' exists", "-o with another folder"});
  EXPECT_EQ(read("taken/config.json"), "mine");
  EXPECT_EQ(files_of("taken"), std::vector<std::string>{"config.json"});

  // A damaged or lost shard of any rank.
  const std::string shard = "run/checkpoints/step_00000002/model-00001.safetensors", good = read(shard);
  std::string bad = good;
  bad.back() = static_cast<char>(bad.back() ^ 1);
  folder_.write(shard, bad);
  expect_refusal({"export", "run/checkpoints/step_00000002", "-o", "out"},
                 {"model-00001.safetensors' has the checksum", "it was damaged"});
  fs::remove(folder_.path(shard));
  expect_refusal({"export", "run/checkpoints/step_00000002", "-o", "out"}, {"model-00001.safetensors' is missing"});
  EXPECT_FALSE(exists("out/model.safetensors"));
}

}  // namespace
}  // namespace weft::tools
