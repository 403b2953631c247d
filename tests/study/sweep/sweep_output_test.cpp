#include "study/sweep/sweep_output.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/inspect/drawing/count_matches.h"
#include "tests/study/sweep/tiny_sweep.h"

namespace weft::study {
namespace {

using testing::count_matches;

/// Two seeds of four combinations under two policies; the last combination is impossible.
class SweepOutput : public ::testing::Test {
 protected:
  SweepOutput() {
    sweep_.noise = 0.1;
    sweep_.seeds = 2;
    for (std::size_t i = 0; i < 16; ++i) {
      SweepRow row;
      row.values = {i < 8 ? "1" : "2", i / 4 % 2 == 0 ? "1e-6" : "1e-3"};
      row.policy = i / 2 % 2 == 0 ? "serial" : "program";
      row.seed = 42 + i % 2;
      if (i >= 12) {
        row.reason = "too large, \"far\" too large";
      } else {
        row.step_ms = 10 + static_cast<double>(i);
        row.tokens_per_s = 1e5;
        row.mfu = 0.25;
        row.memory_bytes = std::int64_t{1} << 30;
        row.fits = i < 8;
        row.bound_ms = 1.0 / 3;
      }
      rows_.push_back(row);
    }
  }

  Sweep sweep_ = testing::tiny_sweep();
  std::vector<SweepRow> rows_;
};

TEST_F(SweepOutput, CsvIsReadBackAsTheRows) {
  const Columns<SweepRow> columns = sweep_columns(sweep_);
  EXPECT_EQ(columns.read(columns.csv(rows_), "results.csv", ""), rows_);
}

TEST_F(SweepOutput, JsonHasAllRows) {
  const auto rows = nlohmann::json::parse(sweep_json(sweep_, rows_).text()).at("rows");
  ASSERT_EQ(rows.size(), 16U);
  EXPECT_EQ(rows[0].at("model.layers"), 1);
  EXPECT_EQ(rows[0].at("machine.network.latency"), 1e-6);
  EXPECT_EQ(rows[1].at("seed"), 43);
  EXPECT_EQ(rows[0].at("bound_ms"), 1.0 / 3);
  EXPECT_TRUE(rows[15].at("step_ms").is_null() && rows[15].at("memory_bytes").is_null());
  EXPECT_EQ(rows[15].at("reason"), rows_[15].reason);
}

TEST_F(SweepOutput, TableHasALineForEachCombinationAndPolicy) {
  const std::string text = sweep_text(sweep_, rows_, std::nullopt).plain();
  EXPECT_EQ(count_matches(text, "\n"), 9U) << text;
  EXPECT_EQ(count_matches(text, "10.50 ms  10.0. ms … 10.9. ms"), 1U) << text;
  EXPECT_EQ(count_matches(text, "doesn't fit"), 2U) << text;
  EXPECT_EQ(count_matches(text, "far"), 2U) << text;
}

TEST_F(SweepOutput, PictureHasASeriesForTheOtherKeysAndPolicies) {
  const std::string svg = sweep_picture(sweep_, rows_).svg();
  // The legend names four series; three have the first layer's point, two the second's.
  EXPECT_EQ(count_matches(svg, ">machine.network.latency=1e-[36], (serial|program)<"), 4U) << svg;
  EXPECT_EQ(count_matches(svg, "<title>model.layers=1,"), 4U);
  EXPECT_EQ(count_matches(svg, "<title>model.layers=2,"), 2U);
  EXPECT_EQ(count_matches(svg, ">step over model.layers<"), 1U);
}

TEST_F(SweepOutput, PictureNamesValuesThatAreNoNumbers) {
  sweep_.keys[0] = {"grid", {"data=2", "y=2"}};
  for (SweepRow& row : rows_) row.values[0] = row.values[0] == "1" ? "data=2" : "y=2";
  const std::string svg = sweep_picture(sweep_, rows_).svg();
  EXPECT_EQ(count_matches(svg, ">data=2<|>y=2<"), 2U) << svg;
}

}  // namespace
}  // namespace weft::study
