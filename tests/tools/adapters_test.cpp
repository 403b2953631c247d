// Adapters that PEFT saved (see ../reference/make_adapters) over models that transformers saved: the losses are PEFT's,
// on several grids and merged, and what a training of no steps exports is what PEFT wrote.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tools/weft_folder.h"
#include "train/checkpoint/safetensors.h"

namespace weft::tools {
namespace {

class PeftFolder : public testing::WeftFolder, public ::testing::WithParamInterface<const char*> {
 protected:
  PeftFolder() {
    std::filesystem::copy(golden(GetParam()), folder_.path("adapters"));
    std::filesystem::copy(golden(expected().at("base")), folder_.path("base"));
  }
  static std::string golden(const std::string& name) {
    return std::string(WEFT_SOURCE_DIR) + "/tests/reference/golden/" + name;
  }
  static nlohmann::json expected() {
    return nlohmann::json::parse(testing::TemporaryFolder::read(golden(GetParam()) + "/expected.json"));
  }
  double loss(const Words& model) const {
    return object_of(testing::joined(testing::joined({"eval"}, model), {"--val-data", "base/tokens.bin"}))
        .at("val_loss")
        .get<double>();
  }
  nlohmann::json trained(const std::string& run, const Words& more) const {
    return object_of(
        testing::joined(testing::words_in("train --init-from base --data base/tokens.bin --val-data base/tokens.bin "
                                          "--eval-sequences 0 --global-batch 4 --threads 1 --trace-steps 0 --run-dir " +
                                          run),
                        more));
  }
  /// The tensors of a folder of adapters by name.
  std::map<std::string, std::vector<float>> tensors(const std::string& folder) const {
    const train::SafetensorsFile file(folder_.path(folder + "/adapter_model.safetensors"));
    std::map<std::string, std::vector<float>> found;
    for (const train::StoredTensorInfo& info : file.tensors()) found[info.name] = file.read(info);
    return found;
  }
};

INSTANTIATE_TEST_SUITE_P(Adapters, PeftFolder,
                         ::testing::Values("peft_llama", "peft_gpt2", "peft_mistral", "peft_qwen3"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(PeftFolder, HasTheLossOfPeft) {
  const double of_peft = expected().at("loss").get<double>();
  EXPECT_NEAR(loss({"base", "--adapter", "adapters"}), of_peft, 1e-6 * of_peft);
  EXPECT_GT(std::abs(loss({"base"}) - of_peft), 1e-3);
  output({"export", "base", "--adapter", "adapters", "--merge", "-o", "merged"});
  EXPECT_NEAR(loss({"merged"}), of_peft, 1e-6 * of_peft);
  for (const char* grid : {"x=2,data=2", "z=2,data=2", "x=4"}) {
    EXPECT_NEAR(loss({"base", "--adapter", "adapters", "--grid", grid, "--threads", "1"}), of_peft, 1e-6 * of_peft)
        << grid;
  }
}

// A training begins with these adapters on any grid, and its own export is PEFT's, to the bit.
TEST_P(PeftFolder, ComesBackFromATraining) {
  const double of_peft = expected().at("loss").get<double>();
  const auto saved = tensors("adapters");
  for (const std::string grid : {"data=1", "x=2,data=2", "z=2,data=2"}) {
    const std::string run = "run-" + grid;
    const nlohmann::json result = trained(run, {"--adapter", "adapters", "--steps", "1", "--lr", "0", "--grid", grid});
    EXPECT_NEAR(result.at("first_val_loss").get<double>(), of_peft, 1e-6 * of_peft) << grid;
    output({"export", run, "-o", run + "-out"});
    EXPECT_EQ(tensors(run + "-out"), saved) << grid;
    const auto config = read_json(run + "-out/adapter_config.json"), before = read_json("adapters/adapter_config.json");
    for (const char* key : {"r", "lora_alpha", "use_rslora", "fan_in_fan_out"}) {
      EXPECT_EQ(config.at(key), before.at(key)) << key;
    }
    EXPECT_EQ(config.at("base_model_name_or_path"), "base");
    // It is read again.
    EXPECT_EQ(loss({"base", "--adapter", run + "-out"}), loss({"base", "--adapter", "adapters"}));
  }
}

// Steps lower the loss, a grid takes the same ones as one rank, and a run goes on without the folder.
TEST_P(PeftFolder, IsTrainedOn) {
  const Words steps = {"--adapter", "adapters", "--steps", "4", "--lr", "0.01", "--warmup", "0"};
  const nlohmann::json one = trained("one", steps);
  const double last = one.at("val_loss").get<double>();
  EXPECT_LT(last, one.at("first_val_loss").get<double>());
  const nlohmann::json grid = trained("grid", testing::joined(steps, {"--grid", "x=2,z=2"}));
  EXPECT_NEAR(grid.at("val_loss").get<double>(), last, 1e-5 * last);
  std::filesystem::remove_all(folder_.path("adapters"));
  output(testing::words_in("train --resume grid --steps 5 --quiet --threads 1"));
  EXPECT_EQ(loss({"one"}), last);
}

TEST_P(PeftFolder, IsWrittenWithText) {
  const Words words = testing::words_in("generate base --prompt-ids 5,7 --max-tokens 12 --temperature 0");
  const nlohmann::json with = object_of(testing::joined(words, {"--adapter", "adapters"}));
  output({"export", "base", "--adapter", "adapters", "--merge", "-o", "merged"});
  const nlohmann::json merged =
      object_of(testing::words_in("generate merged --prompt-ids 5,7 --max-tokens 12 --temperature 0"));
  EXPECT_EQ(with.at("ids"), merged.at("ids"));
  EXPECT_NE(with.at("ids"), object_of(words).at("ids"));
}

TEST_P(PeftFolder, IsRefusedWhereItHasNoPlace) {
  expect_refusal({"export", "base", "--adapter", "adapters", "-o", "out"}, {"--adapter without --merge"});
  expect_refusal({"eval", "adapters", "--val-data", "base/tokens.bin"}, {"holds an adapter", "--adapter adapters"});
  expect_refusal({"eval", "base", "--adapter", "base", "--val-data", "base/tokens.bin"}, {"no adapter_config.json"});
  const Words train = testing::words_in("train --data base/tokens.bin --run-dir run --steps 1");
  expect_refusal(testing::joined(train, {"--adapter", "adapters"}), {"adapter = adapters without init-from"});
  expect_refusal(testing::joined(train, {"--init-from", "base", "--adapter", "adapters", "--lora", "rank=7"}),
                 {"lora = rank=7", "leave lora out"});
  auto config = read_json("adapters/adapter_config.json");
  config["use_dora"] = true;
  folder_.write("adapters/adapter_config.json", config.dump());
  expect_refusal(testing::joined(train, {"--init-from", "base", "--adapter", "adapters"}), {"use_dora", "DoRA"});
  EXPECT_FALSE(exists("run"));
  EXPECT_FALSE(exists("out"));
}

}  // namespace
}  // namespace weft::tools
