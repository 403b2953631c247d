// `weft tune` as a process: its file, its use in training, and its refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tools/weft_folder.h"

namespace weft::tools {
namespace {

using nlohmann::json;

class TuneCommand : public testing::WeftFolder {
 protected:
  TuneCommand() { write_text(); }

  // An MLP as wide as the model has the products of attention's output, and so fewer are measured.
  static Words words_of(const std::string& command, const Words& more) {
    Words words = testing::words_in(command +
                                    " --model custom --model.layers 1 --model.hidden 64 --model.ffn 64 "
                                    "--model.heads 4 --threads 1 --model.context 16 --global-batch 2 --micro-batch 1");
    if (command == "train") words.insert(words.end(), {"--data", "text.txt"});
    return testing::joined(words, more);
  }
  testing::CommandResult weft(const std::string& command, const Words& more) const {
    return run(words_of(command, more));
  }
  json plan_fingerprint(const Words& more) const {
    return object_of(words_of("train", testing::joined({"--dry-run"}, more))).at("plans").at("train").at("fingerprint");
  }
};

// Two micro-batches of one layer: an evaluation's products don't count as a step's.
void expect_totals_of_a_step(const json& result) {
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

TEST_F(TuneCommand, WritesATableThatTrainingUses) {
  const json result = object_of(words_of("tune", {"-o", "tuned.json", "--rounds", "1"}));
  expect_totals_of_a_step(result);
  EXPECT_EQ(result.at("file"), "tuned.json");
  EXPECT_EQ(result.at("threads"), 1);
  const json file = read_json("tuned.json");
  EXPECT_EQ(file.at("products").size(), result.at("products").size());
  // Forward, both gradients, of matrices of three sizes.
  EXPECT_GE(result.at("products").size(), 9U);
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

  testing::succeeded(
      weft("train", {"--gemm-tuning", "tuned.json", "--steps", "2", "--ranks", "2", "--run-dir", "run", "--quiet"}));
  const std::string copy = read("run/checkpoints/step_00000002/gemm_tuning.json");
  EXPECT_EQ(copy, read("tuned.json"));
  EXPECT_EQ(run({"eval", "run"}).exit_code, 0);
  const std::vector<std::string> generate = {"generate", "run", "--max-tokens", "3", "--gemm-tuning", "tuned.json"};
  EXPECT_EQ(run(generate).exit_code, 0);
}

// Of several ranks of one machine, one measures.
TEST_F(TuneCommand, PrintsATableAndRefusesWhatItCannotUse) {
  const testing::CommandResult result =
      testing::succeeded(weft("tune", {"-o", "tuned.json", "--rounds", "1", "--ranks", "2"}));
  EXPECT_TRUE(has_parts(result.output, {"product", "default", "chosen", "gain", "16x192x64 NT f32, bias", "get another",
                                        "--gemm-tuning tuned.json"}));
  EXPECT_TRUE(has_parts(result.errors, {"[1/"}));
  std::string text = read("tuned.json");
  const std::size_t isa = text.find("\"isa\": \"") + 8;
  folder_.write("altered.json", std::string(text).replace(isa, 1, "y"));
  folder_.write("binary.json", std::string(100, '\0'));
  for (const auto& [file, part] : std::map<std::string, std::string>{{"altered.json", "altered"},
                                                                     {"binary.json", "isn't valid JSON"},
                                                                     {"text.txt", "isn't valid JSON"},
                                                                     {"missing.json", "missing.json"}}) {
    expect_refusal(words_of("train", {"--gemm-tuning", file, "--run-dir", "refused", "--steps", "1"}), {part});
    EXPECT_FALSE(exists("refused")) << file;
  }
  EXPECT_EQ(weft("tune", {"-o", "no/such/folder.json"}).exit_code, 2);
  EXPECT_EQ(weft("tune", {"--rounds", "0"}).exit_code, 2);
}

}  // namespace
}  // namespace weft::tools
