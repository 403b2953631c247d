#include "inspect/drawing/chart.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/inspect/drawing/count_matches.h"

namespace weft::inspect {
namespace {

std::vector<std::string> texts(const ChartAxis& axis, double least, double most) {
  std::vector<std::string> all;
  for (const double tick : chart_ticks(axis, least, most)) all.push_back(chart_tick_text(axis, tick, most));
  return all;
}

using testing::count_matches;
using Texts = std::vector<std::string>;

TEST(Chart, LinearTicksAreRoundNumbers) {
  EXPECT_EQ(texts({}, 0, 10), (Texts{"0", "2", "4", "6", "8", "10"}));
  EXPECT_EQ(texts({}, 3.1, 4.4), (Texts{"3.25", "3.5", "3.75", "4", "4.25"}));
  EXPECT_EQ(texts({}, -1, 1), (Texts{"-1", "-0.5", "0", "0.5", "1"}));
  EXPECT_EQ(texts({.unit = ChartUnit::seconds}, 0.31, 1.6), (Texts{"0.5 s", "0.75 s", "1 s", "1.25 s", "1.5 s"}));
  EXPECT_EQ(texts({.unit = ChartUnit::seconds}, 0.012, 0.018),
            (Texts{"12 ms", "13 ms", "14 ms", "15 ms", "16 ms", "17 ms", "18 ms"}));
  const double gib = 1 << 30;
  EXPECT_EQ(texts({.unit = ChartUnit::bytes}, 1.1 * gib, 3.3 * gib), (Texts{"1.5 GiB", "2 GiB", "2.5 GiB", "3 GiB"}));
}

TEST(Chart, LogarithmicTicksHaveTheirOwnUnits) {
  const ChartAxis flops{.unit = ChartUnit::operations_a_second, .scale = ChartScale::logarithmic};
  EXPECT_EQ(texts(flops, 5e13, 2e17), (Texts{"100 Tflop/s", "1 Pflop/s", "10 Pflop/s", "100 Pflop/s"}));
  EXPECT_EQ(texts(flops, 4e14, 6e15), (Texts{"500 Tflop/s", "1 Pflop/s", "2 Pflop/s", "5 Pflop/s"}));
  EXPECT_EQ(texts({.scale = ChartScale::logarithmic}, 1, 1), (Texts{"1"}));
}

TEST(Chart, PlacesHaveNames) {
  const ChartAxis axis{.places = {"a", "b"}};
  EXPECT_EQ(chart_tick_text(axis, 1, 1), "b");
  EXPECT_EQ(chart_tick_text(axis, 2, 1), "");
}

SeriesChart two_series() {
  SeriesChart chart{.title = "Steps", .x = {.title = "ranks", .at_points = true}, .y = {.title = "step"}};
  chart.series = {{.name = "first", .points = {{1, 2, 1.5, 2.5, "one"}, {2, 3, {}, {}, "two"}}},
                  {.name = "ideal", .points = {{1, 2}, {2, 4}}, .dashed = true, .radius = 0}};
  return chart;
}

TEST(Chart, DrawsSeriesIntervalsLegendAndTooltips) {
  const std::string svg = chart_picture(two_series()).svg();
  for (const char* part : {">Steps<", ">ranks<", ">step<", ">first<", ">ideal<", "<title>one<", "<title>two<"}) {
    EXPECT_EQ(count_matches(svg, part), 1U) << part;
  }
  // Two in the plot and two in the legend, of which half are dashed.
  EXPECT_EQ(count_matches(svg, "stroke-dasharray"), 2U);
  EXPECT_EQ(count_matches(svg, "rx=\"3.5\""), 3U);
  // An interval is a line with two caps.
  const std::string group = svg.substr(svg.find("<title>one"), svg.find("</g>") - svg.find("<title>one"));
  EXPECT_EQ(count_matches(group, "<polyline"), 3U);
  EXPECT_EQ(svg, chart_picture(two_series()).svg());
}

TEST(Chart, LeavesOutWhatItsAxesCantShow) {
  SeriesChart chart = two_series();
  chart.y.scale = ChartScale::logarithmic;
  chart.series[0].points.push_back({3, 0, {}, {}, "zero"});
  chart.series[0].points.push_back({4, std::numeric_limits<double>::infinity(), {}, {}, "endless"});
  const std::string svg = chart_picture(chart).svg();
  EXPECT_EQ(count_matches(svg, "zero") + count_matches(svg, "endless") + count_matches(svg, "nan|inf"), 0U);
}

TEST(Chart, DrawsNothingAndOnePoint) {
  EXPECT_EQ(count_matches(chart_picture({}).svg(), "nan|inf"), 0U);
  SeriesChart chart;
  chart.series = {{.name = "one", .points = {{5, 0}}}};
  EXPECT_EQ(count_matches(chart_picture(chart).svg(), "nan|inf"), 0U);
}

TEST(Chart, WrapsALongLegend) {
  SeriesChart chart = two_series();
  const double before = chart_picture(chart).height();
  chart.series[0].name = std::string(150, 'x');
  EXPECT_GT(chart_picture(chart).height(), before);
}

}  // namespace
}  // namespace weft::inspect
