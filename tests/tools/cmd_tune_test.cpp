// `weft tune` as a process: its file, its use in training, and its refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace weft::tools {
namespace {

using nlohmann::json;

class TuneCommand : public ::testing::Test {
 protected:
  TuneCommand() {
    std::string text;
    for (int i = 0; text.size() < 4000; ++i) text += i % 3 == 0 ? "warp and weft\n" : "a loom of yarn ";
    folder_.write("text.txt", text);
  }
  testing::CommandResult weft(const std::string& command, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {command, "--model",         "custom", "--model.layers", "1", "--model.hidden",
                                      "64",    "--model.ffn",     "300",    "--model.heads",  "4", "--threads",
                                      "1",     "--model.context", "16",     "--global-batch", "2", "--micro-batch",
                                      "1"};
    if (command == "train") words.insert(words.end(), {"--data", "text.txt"});
    words.insert(words.end(), more.begin(), more.end());
    return testing::run_weft(words, folder_.path().string());
  }
  json tune(const std::string& output, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"-o", output, "--rounds", "1", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const testing::CommandResult result = weft("tune", words);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_EQ(result.errors, "");
    return json::parse(result.output);
  }
  std::string plan_fingerprint(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"--dry-run", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const testing::CommandResult result = weft("train", words);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return json::parse(result.output).at("plans").at("train").at("fingerprint").get<std::string>();
  }

  testing::TemporaryFolder folder_;
};

TEST_F(TuneCommand, WritesATableThatTrainingUses) {
  const json result = tune("tuned.json");
  EXPECT_EQ(result.at("file"), "tuned.json");
  EXPECT_EQ(result.at("threads"), 1);
  const json file = json::parse(testing::TemporaryFolder::read(folder_.path("tuned.json")));
  EXPECT_EQ(file.at("products").size(), result.at("products").size());
  // Forward, both gradients, of four matrices of a block and the head.
  EXPECT_GE(result.at("products").size(), 10U);
  for (const json& product : result.at("products")) {
    EXPECT_GT(product.at("default_ms").get<double>(), 0);
    const bool changed = product.at("chosen") != product.at("default");
    EXPECT_EQ(product.at("gain").get<double>() > 1.03, changed) << product;
    EXPECT_TRUE(std::ranges::any_of(file.at("products"), [&](const json& stored) {
      return stored.at("method") == product.at("chosen");
    })) << product;
  }
  EXPECT_NE(plan_fingerprint({"--gemm-tuning", "tuned.json"}), plan_fingerprint({}));
  EXPECT_EQ(plan_fingerprint({"--gemm-tuning", "none"}), plan_fingerprint({}));

  const testing::CommandResult trained =
      weft("train", {"--gemm-tuning", "tuned.json", "--steps", "2", "--ranks", "2", "--run-dir", "run", "--quiet"});
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  const std::string copy =
      testing::TemporaryFolder::read(folder_.path("run/checkpoints/step_00000002/gemm_tuning.json"));
  EXPECT_EQ(copy, testing::TemporaryFolder::read(folder_.path("tuned.json")));
  EXPECT_EQ(testing::run_weft({"eval", "run"}, folder_.path().string()).exit_code, 0);
  const std::vector<std::string> generate = {"generate", "run", "--max-tokens", "3", "--gemm-tuning", "tuned.json"};
  EXPECT_EQ(testing::run_weft(generate, folder_.path().string()).exit_code, 0);
}

// Two micro-batches of one layer: an evaluation's products don't count as a step's.
TEST_F(TuneCommand, TotalsAreThoseOfAStep) {
  const json result = tune("tuned.json");
  for (const char* const which : {"default_ms", "chosen_ms"}) {
    double step = 0, evaluation = 0;
    for (const json& product : result.at("products")) {
      step += product.at(which).get<double>() * product.at("tasks").get<double>();
      evaluation += product.at(which).get<double>() * product.at("evaluation_tasks").get<double>();
    }
    EXPECT_GT(evaluation, 0);
    EXPECT_NEAR(result.at("step").at(which).get<double>(), step, 1e-9 * step);
    EXPECT_NEAR(result.at("evaluation").at(which).get<double>(), evaluation, 1e-9 * evaluation);
  }
  std::int64_t steps = 0, evaluations = 0;
  for (const json& product : result.at("products")) {
    steps += product.at("tasks").get<std::int64_t>();
    evaluations += product.at("evaluation_tasks").get<std::int64_t>();
  }
  EXPECT_EQ(steps, 2 * 3 * 5) << "five matrices, forward and both gradients";
  EXPECT_EQ(evaluations, 5);
}

TEST_F(TuneCommand, PrintsATable) {
  const testing::CommandResult result = weft("tune", {"-o", "tuned.json", "--rounds", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(testing::has_parts(result.output, {"product", "default", "chosen", "gain", "16x300x64 NT f32, bias",
                                                 "get another", "--gemm-tuning tuned.json"}));
  EXPECT_TRUE(testing::has_parts(result.errors, {"[1/"}));
}

// Ranks of one machine: a single rank measures.
TEST_F(TuneCommand, SeveralRanksWriteOneTable) {
  const json result = tune("tuned.json", {"--ranks", "2"});
  EXPECT_EQ(result.at("file"), "tuned.json");
  EXPECT_TRUE(std::filesystem::exists(folder_.path("tuned.json")));
}

TEST_F(TuneCommand, RefusesWhatItCannotUse) {
  tune("tuned.json");
  std::string text = testing::TemporaryFolder::read(folder_.path("tuned.json"));
  const std::size_t isa = text.find("\"isa\": \"") + 8;
  folder_.write("altered.json", std::string(text).replace(isa, 1, "y"));
  folder_.write("binary.json", std::string(100, '\0'));
  struct Case {
    std::string file, part;
  };
  for (const auto& [file, part] : std::vector<Case>{{"altered.json", "altered"},
                                                    {"binary.json", "isn't valid JSON"},
                                                    {"text.txt", "isn't valid JSON"},
                                                    {"missing.json", "missing.json"}}) {
    const testing::CommandResult result =
        weft("train", {"--gemm-tuning", file, "--run-dir", "refused", "--steps", "1"});
    EXPECT_EQ(result.exit_code, 2) << file << result.errors;
    EXPECT_TRUE(testing::has_parts(result.errors, {part, "fix: "})) << file;
    EXPECT_FALSE(std::filesystem::exists(folder_.path("refused"))) << file;
  }
  EXPECT_EQ(weft("tune", {"-o", "no/such/folder.json"}).exit_code, 2);
  EXPECT_EQ(weft("tune", {"--rounds", "0"}).exit_code, 2);
}

}  // namespace
}  // namespace weft::tools
