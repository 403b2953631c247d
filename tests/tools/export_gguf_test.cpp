// `weft eval`, `generate`, `export` and `train --init-from` on a GGUF file that the package gguf wrote (see
// ../reference/make_gguf).
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/files/gguf_file.h"
#include "tests/tools/weft_folder.h"

namespace weft::tools {
namespace {

class GgufCommands : public testing::WeftFolder {
 protected:
  GgufCommands() { std::filesystem::copy(golden(), folder_.path("given")); }
  static std::string golden() { return std::string(WEFT_SOURCE_DIR) + "/tests/reference/golden/gguf"; }
  double expected_loss() const { return read_json("given/expected.json").at("loss"); }
  double loss(const std::string& model) const {
    return object_of({"eval", model, "--val-data", "given/tokens.bin", "--seq-len", "512", "--threads", "1", "--accept",
                      "tokenizer"})
        .at("val_loss");
  }
  nlohmann::json written(const std::string& model) const {
    return object_of(
        {"generate", model, "--prompt", "This", "--temperature", "0", "--max-tokens", "5", "--threads", "1"});
  }
};

TEST_F(GgufCommands, AFileHasTheLossOfTransformers) {
  EXPECT_NEAR(loss("given/model.gguf"), expected_loss(), 2e-6);
}

TEST_F(GgufCommands, ExportedItHasTheSameLossAndWritesTheSame) {
  ASSERT_EQ(run({"export", "given/model.gguf", "-o", "folder"}).exit_code, 0);
  EXPECT_TRUE(exists("folder/chat_template.jinja"));
  EXPECT_EQ(loss("folder"), loss("given/model.gguf"));
  const auto ids = written("given/model.gguf").at("ids");
  EXPECT_EQ(written("folder").at("ids"), ids);
  for (const char* type : {"f32", "f16", "bf16", "q8_0"}) {
    const std::string name = std::string("deep/") + type + ".gguf";
    const auto result = object_of({"export", "folder", "--format", "gguf", "--gguf-type", type, "-o", name});
    EXPECT_EQ(result.at("files_bytes").get<std::uint64_t>(), std::filesystem::file_size(folder_.path(name)));
    EXPECT_EQ(result.at("dtype"), type);
    const double tolerance = std::string(type) == "f32" ? 0 : 0.05;
    EXPECT_NEAR(loss(name), expected_loss(), tolerance == 0 ? 2e-6 : tolerance) << type;
  }
  EXPECT_EQ(loss("deep/f32.gguf"), loss("folder"));
  EXPECT_EQ(written("deep/f32.gguf").at("ids"), ids);
  EXPECT_EQ(GgufFile(folder_.path("deep/f32.gguf")).text("tokenizer.ggml.pre"), "qwen2");
}

TEST_F(GgufCommands, ATrainingBeginsThereAndCarriesTheTokenizer) {
  write_text();
  ASSERT_EQ(run({"train", "--init-from", "given/model.gguf", "--data", "text.txt", "--steps", "2", "--seq-len", "32",
                 "--global-batch", "2", "--eval-sequences", "2", "--run-dir", "run", "--threads", "1", "--lr", "0"})
                .exit_code,
            0);
  EXPECT_NEAR(loss("run"), loss("given/model.gguf"), 1e-6);
  EXPECT_EQ(written("run").at("ids"), written("given/model.gguf").at("ids"));
  ASSERT_EQ(run({"export", "run", "--format", "gguf", "-o", "run.gguf"}).exit_code, 0);
  EXPECT_EQ(loss("run.gguf"), loss("given/model.gguf"));
  expect_refusal({"train", "--init-from", "given/model.gguf", "--data", "text.txt", "--model.heads", "2"},
                 {"model.heads = 2", "has 4"});
}

TEST_F(GgufCommands, FilesBesideItDontCount) {
  folder_.write("given/config.json", "not json");
  folder_.write("given/tokenizer.json", "not json");
  folder_.write("given/generation_config.json", "not json");
  EXPECT_EQ(written("given/model.gguf").at("ids").size(), 5U);
}

TEST_F(GgufCommands, RefusesWithoutAFile) {
  const auto refused = [&](const Words& more, const Words& parts) {
    expect_refusal(testing::joined({"export", "given/model.gguf", "--format", "gguf"}, more), parts);
  };
  refused({"-o", "given/model.gguf"}, {"exists", "nothing is overwritten"});
  refused({"-o", "given"}, {"is a folder"});
  refused({"-o", "new.gguf", "--merge"}, {"has no adapters"});
  refused({"-o", "new.gguf", "--gguf-type", "q4_0"}, {"q4_0"});
  expect_refusal({"export", "given/model.gguf", "-o", "new", "--gguf-type", "f16"}, {"--gguf-type with --format hf"});
  expect_refusal({"export", "given/model.gguf", "-o", "new.gguf"}, {"new.gguf with --format hf", "--format gguf"});
  EXPECT_FALSE(exists("new.gguf"));
  EXPECT_FALSE(exists("new"));
  std::string bytes = read("given/model.gguf");
  folder_.write("short.gguf", bytes.substr(0, bytes.size() - 100));
  expect_refusal({"eval", "short.gguf", "--val-data", "given/tokens.bin"}, {"short.gguf", "is it complete?"});
  expect_refusal({"eval", "given/pieces.gguf", "--val-data", "given/tokens.bin"}, {"no matrix 'token_embd.weight'"});
}

}  // namespace
}  // namespace weft::tools
