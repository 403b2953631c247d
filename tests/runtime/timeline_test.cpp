// The terminal timeline character by character, and what an SVG timeline must hold.
#include "runtime/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <stdexcept>

#include "graph/colors.h"
#include "tests/runtime/trace_sample.h"

namespace weft {
namespace {

using testing_sample::sample_plan;
using testing_sample::sample_step;

TEST(TimelineText, OneCharacterForTwoPercent) {
  // 8 for the name, 9 for the frame, 50 cells of 2 units.
  const std::string text = timeline_text(sample_plan(), sample_step(0, 5000, 1'000'000), 67);
  EXPECT_EQ(text,
            "compute0 |####################..........##########..........|  60 %\n"
            "compute1 |...............##########.........................|  20 %\n"
            "data     |....................=====!!!!!=====..===!!!!!!!!!!|  55 %\n"
            "step 100.00 ms: computing 70.00 ms, communicating 55.00 ms, of which exposed 30.00 ms\n"
            "(# computing, = communicating, ! exposed, + busy for less than half of the time, . idle)\n");
}

TEST(TimelineText, ShortTasksStayVisible) {
  StepTrace trace = sample_step(0, 0, 1'000'000);
  trace.times[1][0] = {0, 1000};
  const std::string text = timeline_text(sample_plan(), trace, 67);
  EXPECT_NE(text.find("compute1 |+................................................."), std::string::npos) << text;
}

TEST(TimelineText, IsNeverNarrowerThanReadable) {
  const std::string text = timeline_text(sample_plan(), sample_step(0, 0, 1), 3);
  EXPECT_EQ(text.find('\n'), 40U);
}

TEST(TimelineText, AStepWithoutTimeIsIdle) {
  const std::string text = timeline_text(sample_plan(), sample_step(0, 0, 0), 50);
  EXPECT_NE(text.find("|....."), std::string::npos);
  EXPECT_EQ(text.find("|#"), std::string::npos);
}

std::size_t count(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return static_cast<std::size_t>(
      std::distance(std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator()));
}

TEST(TimelineSvg, HoldsEveryTaskOfEveryRankAndItsExposedTimes) {
  const Plan plan = sample_plan();
  const std::vector<StepTrace> ranks = {sample_step(3, 1000, 1000), sample_step(3, 2000, 1000)};
  const std::string svg = timeline_svg(plan, ranks);
  EXPECT_EQ(count(svg, "<g><title>"), 2 * 5U);
  EXPECT_EQ(count(svg, "<title>exposed"), 2 * 2U);
  EXPECT_EQ(count(svg, "<title>exposed 0.020 ms</title>"), 2U);  // [80, 100)
  EXPECT_NE(svg.find("rank 1"), std::string::npos);
  EXPECT_NE(svg.find("Step 3, policy by &lt;hand&gt;"), std::string::npos);
  EXPECT_NE(svg.find("<title>mb0.L1.a &quot;&lt;&amp;&gt;&quot;\n0.000 to 0.040 ms, 0.040 ms</title>"),
            std::string::npos)
      << svg;
  // The first task of rank 1 begins 1 of 101 units to the right.
  EXPECT_NE(svg.find("\n0.001 to 0.041 ms, 0.040 ms</title><rect x=\"141.88\" y=\"156.0\" width=\"475.25\""),
            std::string::npos)
      << svg;
  EXPECT_NE(svg.find(style_of(KindClass::gemm).fill), std::string::npos);
  EXPECT_EQ(count(svg, "<(g|svg|text|title)[ >]"), count(svg, "</(g|svg|text|title)>"));
  EXPECT_EQ(svg, timeline_svg(plan, ranks));
}

TEST(TimelineSvg, NoRanksAndNoTimeAreStillPictures) {
  EXPECT_TRUE(timeline_svg(sample_plan(), {}).ends_with("</svg>\n"));
  const std::vector<StepTrace> instant = {sample_step(0, 0, 0)};
  const std::string svg = timeline_svg(sample_plan(), instant);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

TEST(TimelineSvg, RefusesATraceOfAnotherPlan) {
  std::vector<StepTrace> ranks = {sample_step(0, 0, 1)};
  ranks[0].times.pop_back();
  EXPECT_THROW(timeline_svg(sample_plan(), ranks), std::logic_error);
}

}  // namespace
}  // namespace weft
