// Lines as JSON parsers read them, and the lines that a continued run keeps.
#include "train/run/metrics.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"

namespace weft::train {
namespace {

StepMetrics example(std::int64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = 5.515625;
  metrics.grad_norm = 1.25;
  metrics.lr = 1e-5;
  metrics.step_ms = 120.5;
  metrics.tokens_per_s = 61234;
  metrics.model_tflops = 0.5;
  metrics.exposed_comm_ms = 0;
  metrics.peak_memory_bytes = 13'421'772'800;
  metrics.tokens_seen = 4096;
  metrics.wall_time = 1'790'000'000.25;
  return metrics;
}

std::vector<std::int64_t> steps_in(const std::filesystem::path& path) {
  std::istringstream stream(testing::TemporaryFolder::read(path));
  std::vector<std::int64_t> steps;
  for (std::string text; std::getline(stream, text);) steps.push_back(nlohmann::json::parse(text)["step"]);
  return steps;
}

TEST(Metrics, ANansSignIsNotPrinted) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double value : {nan, -nan}) EXPECT_EQ(fmt::format("{}", without_nan_sign(value)), "nan");
  EXPECT_EQ(without_nan_sign(-1.5), -1.5);
  EXPECT_EQ(without_nan_sign(-HUGE_VAL), -HUGE_VAL);
}

TEST(AppendJson, OneObjectALine) {
  EXPECT_EQ(json_line(example(3)),
            "{\"step\":3,\"loss\":5.515625,\"grad_norm\":1.25,\"lr\":1e-05,\"step_ms\":120.5,\"tokens_per_s\":61234,"
            "\"model_tflops\":0.5,\"exposed_comm_ms\":0,\"peak_memory_bytes\":13421772800,\"tokens_seen\":4096,"
            "\"wall_time\":1790000000.250}\n");
}

TEST(AppendJson, NumbersReadBackExactly) {
  StepMetrics metrics = example(1);
  metrics.loss = 0.1 + 0.2;
  metrics.val_loss = 1.0 / 3;
  metrics.lr = 5e-324;
  const auto json = nlohmann::json::parse(json_line(metrics));
  EXPECT_EQ(json["loss"].get<double>(), metrics.loss);
  EXPECT_EQ(json["val_loss"].get<double>(), 1.0 / 3);
  EXPECT_EQ(json["lr"].get<double>(), 5e-324);
  EXPECT_FALSE(json.contains("note"));
}

TEST(AppendJson, NanIsNullWithANote) {
  StepMetrics metrics = example(1);
  metrics.loss = std::numeric_limits<double>::quiet_NaN();
  metrics.grad_norm = std::numeric_limits<double>::infinity();
  const auto json = nlohmann::json::parse(json_line(metrics));
  EXPECT_TRUE(json["loss"].is_null());
  EXPECT_TRUE(json["grad_norm"].is_null());
  EXPECT_EQ(json["note"], "loss is nan, grad_norm is inf");
}

TEST(AppendJson, AStepThatLearntNothingHasNoLoss) {
  StepMetrics metrics = example(1);
  metrics.loss = std::numeric_limits<double>::quiet_NaN();
  metrics.learnt = false;
  const auto json = nlohmann::json::parse(json_line(metrics));
  EXPECT_TRUE(json.at("loss").is_null());
  EXPECT_EQ(json["note"], "no target of the step counts in the loss");
  EXPECT_EQ(json["grad_norm"], 1.25);
  EXPECT_TRUE(csv_line(metrics).starts_with("1,,,1.25,"));
  EXPECT_EQ(loss_text(metrics.loss, metrics.learnt), "none");
  EXPECT_EQ(loss_text(2.34561, true), "2.3456");
}

TEST(AppendCsv, AbsentNumbersAreEmpty) {
  EXPECT_EQ(csv_header(),
            "step,loss,val_loss,grad_norm,lr,step_ms,tokens_per_s,model_tflops,exposed_comm_ms,peak_memory_bytes,"
            "tokens_seen,wall_time\n");
  StepMetrics metrics = example(3);
  metrics.grad_norm = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(csv_line(metrics), "3,5.515625,,nan,1e-05,120.5,61234,0.5,0,13421772800,4096,1790000000.250\n");
}

TEST(MetricsFile, ACsvFileThatContinuesHasOneHeaderAndOneLineAStep) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path path = folder.path("metrics.csv");
  {
    MetricsFile file(path, 0, MetricsForm::csv);
    for (std::int64_t step = 0; step < 4; ++step) file.write(example(step));
  }
  const std::string whole = testing::TemporaryFolder::read(path);
  {
    MetricsFile file(path, 2, MetricsForm::csv);
    for (std::int64_t step = 2; step < 4; ++step) file.write(example(step));
  }
  EXPECT_EQ(testing::TemporaryFolder::read(path), whole);
}

TEST(MetricsFile, ACsvFileWithOtherColumnsIsRefused) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.write("metrics.csv", "step,loss\n0,5\n");
  EXPECT_THROW(MetricsFile(path, 1, MetricsForm::csv), UserError);
  EXPECT_EQ(testing::TemporaryFolder::read(path), "step,loss\n0,5\n");
}

TEST(MetricsFile, EachLineIsThereAtOnce) {
  const testing::TemporaryFolder folder;
  MetricsFile file(folder.path("metrics.jsonl"), 0);
  file.write(example(0));
  EXPECT_EQ(testing::TemporaryFolder::read(folder.path("metrics.jsonl")), json_line(example(0)));
  file.write(example(1));
  EXPECT_EQ(steps_in(folder.path("metrics.jsonl")), (std::vector<std::int64_t>{0, 1}));
}

TEST(MetricsFile, ARunThatContinuesDropsWhatItWillRepeat) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.write(
      "metrics.jsonl", json_line(example(0)) + json_line(example(1)) + json_line(example(2)) + "{\"step\":1,\"lo");
  MetricsFile file(path, 2);
  file.write(example(2));
  EXPECT_EQ(steps_in(path), (std::vector<std::int64_t>{0, 1, 2}));
}

// A run folder may be a stranger's.
TEST(MetricsFile, ALinkIsNotWrittenThrough) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path("metrics.jsonl").string(),
                    victim = folder.write("victim", json_line(example(0)));
  std::filesystem::create_symlink(victim, path);
  MetricsFile file(path, 1);
  file.write(example(1));
  EXPECT_EQ(testing::TemporaryFolder::read(victim), json_line(example(0)));
  EXPECT_EQ(steps_in(path), (std::vector<std::int64_t>{0, 1}));
  const std::string dangling = folder.path("dangling.jsonl").string(), absent = folder.path("absent").string();
  std::filesystem::create_symlink(absent, dangling);
  EXPECT_THROW(MetricsFile(dangling, 0), RuntimeFault);
  EXPECT_FALSE(std::filesystem::exists(absent));
}

TEST(MetricsFile, AFullDiskIsAFault) {
  const testing::TemporaryFolder folder;
  EXPECT_TRUE(
      refuses<RuntimeFault>([&] { MetricsFile(folder.path("none/m.jsonl"), 0); }, {"m.jsonl' can't be opened"}));
}

}  // namespace
}  // namespace weft::train
