#include "study/scaling/scaling.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/study/scaling/small_study.h"
#include "train/config/resolved_run.h"
#include "train/step/planning.h"

namespace weft::study {
namespace {

using testing::rows_of;
using testing::small_study;

std::string refusal(const ScalingStudy& study) {
  return testing::message_of<UserError>([&] { check_scaling(study); });
}

/// The step of a row's configuration, planned anew.
simulate::Report planned(const ScalingStudy& study, const ScalingRow& row) {
  train::RunConfig config = study.base;
  train::apply_settings(config, study.settings);
  config.global_batch = row.global_batch;
  config = with_choice(config, row.choice);
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
  EXPECT_EQ(series_count(study), 1U);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ScalingRow& row = rows[i];
    ASSERT_TRUE(row.possible()) << row.reason;
    EXPECT_EQ(row.ranks, study.points[i].ranks);
    EXPECT_EQ(row.choice.grid.ranks(), row.ranks);
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
  EXPECT_EQ(graph::to_string(row.choice.grid), "x=1,y=2,z=1,data=2");
  EXPECT_EQ(row.choice.micro_batch, 2);
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

TEST(Scaling, RefusesContradictions) {
  const auto changed = [](const auto& change) {
    ScalingStudy study = small_study();
    change(study);
    return refusal(study);
  };
  EXPECT_NE(changed([](auto& s) {
              s.settings.push_back({"ranks", "2", "--ranks"});
            }).find("--ranks"),
            std::string::npos);
  EXPECT_NE(changed([](auto& s) { s.seeds = 2; }).find("noise"), std::string::npos);
  EXPECT_NE(changed([](auto& s) { s.points.push_back({2}); }).find("twice"), std::string::npos);
  EXPECT_NE(changed([](auto& s) { s.points.push_back({8, "tiny"}); }).find("no model"), std::string::npos);
  EXPECT_NE(changed([](auto& s) {
              s.points = {{1, "tiny"}};
              s.models = {"small"};
            }).find("--models"),
            std::string::npos);
  EXPECT_NE(changed([](auto& s) {
              s.kind = ScalingKind::weak;
              s.points = {{3}, {4}};
            }).find("whole number"),
            std::string::npos);
  EXPECT_NE(changed([](auto& s) { s.machines = {"perlmuter"}; }), "");
  EXPECT_NE(changed([](auto& s) { s.models = {"tinny"}; }), "");
  EXPECT_NE(changed([](auto& s) { s.points.push_back({2, "", "missing.toml"}); }), "");
}

}  // namespace
}  // namespace weft::study
