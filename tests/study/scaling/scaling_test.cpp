#include "study/scaling/scaling.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/escape.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/inspect/drawing/count_matches.h"
#include "train/config/resolved_run.h"
#include "train/step/planning.h"

namespace weft::study {
namespace {

/// Strong scaling of a small model on one, two and four ranks.
ScalingStudy small_study() {
  ScalingStudy study;
  study.settings = {{"model", "tiny", "--model"},
                    {"machine", "perlmutter", "--machine"},
                    {"seq-len", "32", "--seq-len"},
                    {"global-batch", "8", "--global-batch"}};
  study.points = {{1}, {2}, {4}};
  study.search.policies = {policy::named_policy("lhs")};
  study.search.finalists = 2;
  study.search.threads = 2;
  return study;
}

std::vector<ScalingRow> rows_of(const ScalingStudy& study) {
  return run_scaling(study, [](const Status&) {});
}

std::string refusal(const ScalingStudy& study) {
  return testing::message_of<UserError>([&] { check_scaling(study); });
}

/// The step of a row's configuration, planned anew.
simulate::Report planned(const ScalingStudy& study, const ScalingRow& row) {
  train::RunConfig config = study.base;
  train::apply_settings(config, study.settings);
  config.global_batch = row.global_batch;
  config = with_setup(config, row.setup);
  config.policy = row.policy;
  const train::ResolvedRun run = train::resolve(config, 0);
  return simulate::report_plan(train::planning_problem(run), run.policy);
}

TEST(Scaling, PointsAreRanksModelsAndFiles) {
  EXPECT_EQ(scaling_point("512"), (ScalingPoint{.ranks = 512}));
  EXPECT_EQ(scaling_point("8:gpt-5b"), (ScalingPoint{.ranks = 8, .model = "gpt-5b"}));
  EXPECT_EQ(scaling_point("8:a/b:c.toml"), (ScalingPoint{.ranks = 8, .file = "a/b:c.toml"}));
  for (const char* wrong : {"", "x", "0", "-1", "8:", "8.5", "1e3", ":gpt-5b"}) {
    EXPECT_THROW(scaling_point(wrong), UserError) << wrong;
  }
}

TEST(Scaling, StrongKeepsTheBatch) {
  const ScalingStudy study = small_study();
  check_scaling(study);
  const std::vector<ScalingRow> rows = rows_of(study);
  ASSERT_EQ(rows.size(), 3U);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ScalingRow& row = rows[i];
    ASSERT_TRUE(row.possible()) << row.reason;
    EXPECT_EQ(row.ranks, study.points[i].ranks);
    EXPECT_EQ(row.setup.grid.ranks(), row.ranks);
    EXPECT_EQ(row.global_batch, 8);
    // With the same work, efficiency is the first time over the time × ranks.
    EXPECT_NEAR(row.efficiency, rows[0].step_ms / row.step_ms / static_cast<double>(row.ranks), 1e-12);
    EXPECT_EQ(row.step_ms, planned(study, row).step_ns() * 1e-6);
    EXPECT_EQ(row.memory_bytes, planned(study, row).memory_bytes());
    EXPECT_EQ(row.low_ms, row.step_ms);
  }
  EXPECT_EQ(rows[0].efficiency, 1);
}

TEST(Scaling, WeakGrowsTheBatchWithTheRanks) {
  ScalingStudy study = small_study();
  study.kind = ScalingKind::weak;
  study.points = {{2}, {4}};
  check_scaling(study);
  const std::vector<ScalingRow> rows = rows_of(study);
  EXPECT_EQ(rows[0].global_batch, 8);
  EXPECT_EQ(rows[1].global_batch, 16);
  EXPECT_NEAR(rows[1].efficiency, rows[0].step_ms / rows[1].step_ms, 1e-12);
}

TEST(Scaling, ModelsOfPointsKeepTheBatch) {
  ScalingStudy study = small_study();
  study.kind = ScalingKind::weak;
  study.points = {{1, "tiny"}, {2, "small"}};
  check_scaling(study);
  const std::vector<ScalingRow> rows = rows_of(study);
  EXPECT_EQ(rows[1].model, "small");
  EXPECT_EQ(rows[1].global_batch, 8);
  EXPECT_NEAR(rows[1].efficiency, rows[1].flops / 2 / rows[0].flops, 1e-12);
}

TEST(Scaling, HasASeriesForEachModelMachineAndPolicy) {
  ScalingStudy study = small_study();
  study.points = {{1}, {2}};
  study.models = {"tiny"};
  study.machines = {"perlmutter", "alps"};
  study.policies = {policy::named_policy("serial"), policy::named_policy("lhs")};
  check_scaling(study);
  const std::vector<ScalingRow> rows = rows_of(study);
  ASSERT_EQ(rows.size(), 8U);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].series, i / 2);
    EXPECT_EQ(rows[i].machine, i < 4 ? "perlmutter" : "alps");
    EXPECT_EQ(rows[i].policy, i / 2 % 2 == 0 ? "serial" : "lhs");
    if (i % 2 == 0) {
      EXPECT_EQ(rows[i].efficiency, 1);
    }
  }
}

TEST(Scaling, RunsTheConfigurationOfAFile) {
  const testing::TemporaryFolder folder;
  ScalingStudy study = small_study();
  study.points = {{1},
                  {4, "", folder.write("four.toml", "grid = \"y=2,data=2\"\nmicro-batch = 2\npolicy = \"axonn\"\n")}};
  check_scaling(study);
  const ScalingRow row = rows_of(study)[1];
  ASSERT_TRUE(row.possible()) << row.reason;
  EXPECT_EQ(graph::to_string(row.setup.grid), "x=1,y=2,z=1,data=2");
  EXPECT_EQ(row.setup.micro_batch, 2);
  EXPECT_EQ(row.policy, "axonn");
  EXPECT_EQ(row.step_ms, planned(study, row).step_ns() * 1e-6);
  study.points[1].ranks = 8;
  EXPECT_NE(refusal(study).find("has 4 ranks"), std::string::npos) << refusal(study);
}

TEST(Scaling, SeedsOfNoiseMakeAnInterval) {
  ScalingStudy study = small_study();
  study.points = {{2}};
  study.noise = 0.2;
  study.seeds = 5;
  const ScalingRow row = rows_of(study).front();
  EXPECT_LT(row.low_ms, row.step_ms);
  EXPECT_LT(row.step_ms, row.high_ms);
  EXPECT_EQ(rows_of(study).front().step_ms, row.step_ms);
}

TEST(Scaling, PointsWithoutAConfigurationBecomeRows) {
  ScalingStudy study = small_study();
  study.points = {{7}, {1}, {2}};
  check_scaling(study);
  const std::vector<ScalingRow> rows = rows_of(study);
  EXPECT_NE(rows[0].reason.find("no grid of 7 ranks"), std::string::npos) << rows[0].reason;
  EXPECT_EQ(rows[1].efficiency, 1);
}

using testing::count_matches;

/// Two machines on one, two and four ranks; the last point is impossible.
class ScalingOutput : public ::testing::Test {
 protected:
  ScalingOutput() {
    study_.noise = 0.1;
    study_.seeds = 3;
    study_.machines = {"perlmutter", "alps"};
    for (std::size_t i = 0; i < 6; ++i) {
      ScalingRow row;
      row.series = i / 3;
      row.ranks = std::int64_t{1} << i % 3;
      row.model = "tiny";
      row.machine = study_.machines[i / 3];
      if (i == 5) {
        row.reason = "too large";
      } else {
        row.policy = "lhs";
        row.setup.grid.data = row.ranks;
        row.global_batch = 8;
        row.step_ms = 40.0 / static_cast<double>(row.ranks);
        row.low_ms = 0.8 * row.step_ms, row.high_ms = 1.25 * row.step_ms;
        row.flops = 1e15 * static_cast<double>(row.ranks);
        row.efficiency = 1;
        row.mfu = 0.5;
        row.memory_bytes = std::int64_t{1} << 30;
      }
      rows_.push_back(row);
    }
  }

  ScalingStudy study_ = small_study();
  std::vector<ScalingRow> rows_;
};

TEST_F(ScalingOutput, CsvAndJsonHaveTheFigures) {
  const auto table = read_csv(results_of(study_, rows_).csv());
  ASSERT_TRUE(table);
  ASSERT_EQ(table->size(), 7U);
  const auto json = nlohmann::json::parse(results_of(study_, rows_).json().text());
  EXPECT_EQ(json.at("kind"), "strong");
  EXPECT_EQ(json.at("rows")[1].at("flops_per_s"), 2e15);
  EXPECT_EQ(json.at("rows")[1].at("grid"), "x=1,y=1,z=1,data=2");
  EXPECT_EQ(json.at("rows")[1].at("zero_1"), false);
  EXPECT_TRUE(json.at("rows")[5].at("step_ms").is_null());
  EXPECT_EQ(json.at("rows")[5].at("reason"), "too large");
  EXPECT_EQ(json.at("rows")[0].at("reason"), "");
}

TEST_F(ScalingOutput, TableTellsMachinesWhereTheyDiffer) {
  const std::string text = results_of(study_, rows_).text({}).plain();
  EXPECT_EQ(count_matches(text, "perlmutter"), 3U) << text;
  EXPECT_EQ(count_matches(text, "tiny"), 0U) << text;
  EXPECT_EQ(count_matches(text, "too large"), 1U) << text;
  EXPECT_EQ(count_matches(text, "2 Pflop/s"), 2U) << text;
}

TEST_F(ScalingOutput, PictureHasIntervalsAndIdealLines) {
  const std::string svg = results_of(study_, rows_).picture().svg();
  EXPECT_EQ(count_matches(svg, ">strong scaling of tiny<"), 1U);
  EXPECT_EQ(count_matches(svg, ">perlmutter<|>alps<"), 2U) << svg;
  EXPECT_EQ(count_matches(svg, "<title>tiny on"), 5U);
  EXPECT_EQ(count_matches(svg, "stroke-dasharray"), 3U);  // one for each series, and the legend's
}

}  // namespace
}  // namespace weft::study
