#include "inspect/drawing/pipeline_chart.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/inspect/drawing/count_matches.h"
#include "tests/runtime/pipeline_toy.h"
#include "tests/runtime/simulate/unit_policy.h"

namespace weft::inspect {
namespace {

using testing::count_matches;
using testing::joint_problem;
using testing::PipelineToy;
using testing::unit_policy;
using Works = PipelineWork;

simulate::Report report_by(const PipelineToy& toy, const testing::UnitPolicy::Units& units) {
  simulate::Report report = simulate::report_plan(joint_problem(toy), unit_policy(toy, units));
  EXPECT_EQ(report.refusal, "");
  return report;
}

const auto kGPipeUnits = [](const PipelineToy& toy, std::int64_t rank) { return units_of_gpipe(toy, rank); };
const auto kProgramUnits = [](const PipelineToy& toy, std::int64_t rank) { return units_in_program_order(toy, rank); };

TEST(PipelineChart, BoxesAreTheWorkOfAStageOnAMicroBatch) {
  const PipelineToy toy({.stages = 2, .micro_batches = 1, .update = 100, .pieces = 2});
  const simulate::Report report = report_by(toy, kGPipeUnits);
  const std::vector<std::vector<PipelineBox>> rows = pipeline_boxes(pipeline_chart(report));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1], (std::vector<PipelineBox>{{Works::forward, 0, 1, 1000, 2000},
                                               {Works::input, 0, 1, 2000, 3000},
                                               {Works::weight, 0, 1, 3000, 4000},
                                               {Works::other, -1, -1, 4000, 4100}}));
  // No gradient leaves the first stage.
  EXPECT_EQ(rows[0], (std::vector<PipelineBox>{{Works::forward, 0, 0, 0, 1000},
                                               {Works::backward, 0, 0, 3000, 5000},
                                               {Works::other, -1, -1, 5000, 5100}}));
}

TEST(PipelineChart, TextShowsBubblesAndMemory) {
  const PipelineToy toy({.stages = 2, .micro_batches = 2, .saved = 1024});
  const simulate::Report report = report_by(toy, kGPipeUnits);
  PipelineChart chart = pipeline_chart(report);
  EXPECT_EQ(chart.title, "by units: step 8.0 us, 25.0 % bubble");
  chart.title = "";
  chart.memory_bytes = {1 << 20, 1 << 21};
  // 40 characters of 200 each.
  EXPECT_EQ(pipeline_text(chart, 65),
            "stage 0 |FFFFFfffff..........BBBBBBBBBBbbbbbbbbbb|  25 %  1.0 MiB\n"
            "stage 1 |.....FFFFFfffffBBBBBWWWWWbbbbbwwwww.....|  25 %  2.0 MiB\n"
            "(F forward, B backward, W its weights, U other; small letters: every other micro-batch; . bubble)\n");
  EXPECT_EQ(pipeline_text({}),
            "(F forward, B backward, W its weights, U other; small letters: every other micro-batch; "
            ". bubble)\n");
}

TEST(PipelineChart, PicturesHaveABoxForEachPieceOfWork) {
  const PipelineToy toy({.stages = 3, .micro_batches = 4, .update = 50});
  const simulate::Report report = report_by(toy, kGPipeUnits);
  const PipelineChart chart = pipeline_chart(report);
  const std::string svg = pipeline_picture(std::vector{chart}).svg();
  EXPECT_EQ(count_matches(svg, "<title>forward of micro-batch"), 12U);
  EXPECT_EQ(count_matches(svg, "<title>backward of micro-batch"), 4U);
  EXPECT_EQ(count_matches(svg, R"(<title>backward \(input\) of micro-batch)"), 8U);
  EXPECT_EQ(count_matches(svg, R"(<title>backward \(weights\) of micro-batch)"), 8U);
  EXPECT_EQ(count_matches(svg, "<title>other"), 3U);
  EXPECT_EQ(count_matches(svg, ">3</text>"), 8U);
  EXPECT_EQ(count_matches(svg, "lower bound"), 1U);
  EXPECT_EQ(count_matches(svg, ">stage [012]</text>"), 3U);
  EXPECT_EQ(count_matches(svg, "forward of micro-batch 1, virtual stage 2\n3.0 us to 4.0 us, 1.0 us"), 1U);
  EXPECT_EQ(svg, pipeline_picture(std::vector{chart}).svg());
  const std::string named = pipeline_picture(std::vector{pipeline_chart(report, {.data = 2, .pipe = 3})}).svg();
  EXPECT_EQ(count_matches(named, ">stage 1, ranks 1, 4</text>"), 1U);
}

// Letters of 11 pixels are at least 9 high on a page of 880 pixels, and no two kinds of work look alike.
TEST(PipelineChart, LegendsTellKindsApart) {
  const PipelineToy toy({.stages = 3, .micro_batches = 4, .update = 50});
  const Picture picture = pipeline_picture(std::vector{pipeline_chart(report_by(toy, kGPipeUnits))});
  EXPECT_GE(11 * 880 / picture.width(), 9);
  const std::string svg = picture.svg();
  const std::regex entry("height=\"10\" fill=\"(#[0-9A-F]{6})\"");
  std::vector<std::string> fills;
  for (std::sregex_iterator found(svg.begin(), svg.end(), entry), end; found != end; ++found)
    fills.push_back((*found)[1]);
  EXPECT_EQ(fills.size(), 5U);  // forward, backward, its two halves and other
  EXPECT_EQ(std::set<std::string>(fills.begin(), fills.end()).size(), fills.size());
}

TEST(PipelineChart, ChunksHaveShades) {
  const PipelineToy toy({.stages = 2, .micro_batches = 2, .chunks = {2, graph::ChunkPlacement::v}});
  const simulate::Report report = report_by(toy, kProgramUnits);
  const std::string svg = pipeline_picture(std::vector{pipeline_chart(report)}).svg();
  EXPECT_EQ(count_matches(svg, ">forward</text>"), 1U);
  EXPECT_EQ(count_matches(svg, ">forward, chunk 1</text>"), 1U);
  EXPECT_EQ(count_matches(svg, "#56B4E9"), 2U * 2 + 1);  // boxes and the legend
  EXPECT_EQ(count_matches(svg, "#3E82A8"), 2U * 2 + 1);
}

TEST(PipelineChart, ChartsShareOneAxis) {
  const PipelineToy toy({.stages = 2, .micro_batches = 4});
  const simulate::Report a = report_by(toy, kGPipeUnits), b = report_by(toy, kProgramUnits);
  const std::vector<PipelineChart> charts = {pipeline_chart(a), pipeline_chart(b)};
  const Picture one = pipeline_picture(std::vector{charts[0]}), both = pipeline_picture(charts);
  EXPECT_EQ(both.width(), one.width());
  EXPECT_GT(both.height(), one.height());
  EXPECT_EQ(count_matches(both.svg(), "<title>forward of micro-batch"), 16U);
  EXPECT_EQ(count_matches(pipeline_picture({}).svg(), "nan|inf"), 0U);
}

}  // namespace
}  // namespace weft::inspect
