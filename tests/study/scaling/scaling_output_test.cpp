#include "study/scaling/scaling_output.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/csv.h"
#include "tests/inspect/drawing/count_matches.h"
#include "tests/study/scaling/small_study.h"

namespace weft::study {
namespace {

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
        row.choice.grid.data = row.ranks;
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

  ScalingStudy study_ = testing::small_study();
  std::vector<ScalingRow> rows_;
};

TEST_F(ScalingOutput, CsvAndJsonHaveTheFigures) {
  const auto table = read_csv(scaling_csv(study_, rows_));
  ASSERT_TRUE(table);
  ASSERT_EQ(table->size(), 7U);
  const auto json = nlohmann::json::parse(scaling_json(study_, rows_).text());
  EXPECT_EQ(json.at("kind"), "strong");
  EXPECT_EQ(json.at("rows")[1].at("flops_per_s"), 2e15);
  EXPECT_EQ(json.at("rows")[1].at("grid"), "x=1,y=1,z=1,data=2");
  EXPECT_EQ(json.at("rows")[1].at("zero_1"), false);
  EXPECT_TRUE(json.at("rows")[5].at("step_ms").is_null());
  EXPECT_EQ(json.at("rows")[5].at("reason"), "too large");
  EXPECT_EQ(json.at("rows")[0].at("reason"), "");
}

TEST_F(ScalingOutput, TableTellsMachinesWhereTheyDiffer) {
  const std::string text = scaling_text(study_, rows_, std::nullopt).plain();
  EXPECT_EQ(count_matches(text, "perlmutter"), 3U) << text;
  EXPECT_EQ(count_matches(text, "tiny"), 0U) << text;
  EXPECT_EQ(count_matches(text, "too large"), 1U) << text;
  EXPECT_EQ(count_matches(text, "2 Pflop/s"), 2U) << text;
}

TEST_F(ScalingOutput, PictureHasIntervalsAndIdealLines) {
  const std::string svg = scaling_picture(study_, rows_).svg();
  EXPECT_EQ(count_matches(svg, ">strong scaling of tiny<"), 1U);
  EXPECT_EQ(count_matches(svg, ">perlmutter<|>alps<"), 2U) << svg;
  EXPECT_EQ(count_matches(svg, "<title>tiny on"), 5U);
  EXPECT_EQ(count_matches(svg, "stroke-dasharray"), 3U);  // one for each series, and the legend's
}

TEST_F(ScalingOutput, FilesFollowTheirEndings) {
  EXPECT_EQ(scaling_file("a.csv", study_, rows_), scaling_csv(study_, rows_));
  EXPECT_EQ(scaling_file("a.svg", study_, rows_), scaling_picture(study_, rows_).svg());
  EXPECT_EQ(nlohmann::json::parse(scaling_file("a.json", study_, rows_)),
            nlohmann::json::parse(scaling_json(study_, rows_).text()));
  expect_scaling_file("a/b.svg");
  EXPECT_THROW(expect_scaling_file("a.png"), UserError);
  EXPECT_THROW(expect_scaling_file("a"), UserError);
}

}  // namespace
}  // namespace weft::study
