// Charts over steps: the places of points, and the values that are left out.
#include "inspect/report/step_chart.h"

#include <gtest/gtest.h>

#include <regex>

#include "tests/base/messages.h"

namespace weft::inspect {
namespace {

StepChart rising(int steps) {
  StepChart chart{.title = "tokens/s", .curves = {{.name = "tokens/s"}}};
  for (int i = 0; i < steps; ++i) chart.curves[0].points.push_back({i, 100.0 + i});
  return chart;
}

/// The first curve's points, as x and y.
std::vector<std::pair<double, double>> points_of(const std::string& svg) {
  std::smatch curve;
  if (!std::regex_search(svg, curve, std::regex("class=\"c0\" points=\"([^\"]*)\""))) return {};
  const std::string list = curve[1];
  static const std::regex point("([-0-9.]+),([-0-9.]+)");
  std::vector<std::pair<double, double>> points;
  for (std::sregex_iterator it(list.begin(), list.end(), point), end; it != end; ++it) {
    points.emplace_back(std::stod((*it)[1]), std::stod((*it)[2]));
  }
  return points;
}

TEST(StepChart, RisesFromTheLeft) {
  const auto points = points_of(chart_svg(rising(11)));
  ASSERT_EQ(points.size(), 11U);
  for (std::size_t i = 1; i < points.size(); ++i) {
    EXPECT_NEAR(points[i].first - points[i - 1].first, 37.6, 0.11);
    EXPECT_LT(points[i].second, points[i - 1].second);
  }
}

TEST(StepChart, ManyStepsBecomeMeans) {
  const std::string svg = chart_svg(rising(20'000));
  EXPECT_EQ(points_of(svg).size(), 500U);
  EXPECT_NE(svg.find("tokens/s, means of 40 steps"), std::string::npos);
}

TEST(StepChart, ValuesFarAboveAreCountedAtTheEdge) {
  StepChart chart = rising(100);
  chart.curves[0].points[0].value = 100'000;
  const std::string svg = chart_svg(chart);
  const auto points = points_of(svg);
  EXPECT_NE(svg.find("1 above the frame, up to 100K"), std::string::npos) << svg;
  EXPECT_EQ(points[0].second, 24);
  EXPECT_GT(points[1].second - points[99].second, 30);  // and the others still differ
  chart.from_zero = false;
  EXPECT_EQ(chart_svg(chart).find("above"), std::string::npos);
}

TEST(StepChart, DotsAndSeveralCurves) {
  StepChart chart = rising(3);
  chart.curves.push_back({"<other>", {{0, 90}, {2, 90}}});
  chart.dots_name = "held out";
  chart.dots = {{1, 101.5}};
  const std::string svg = chart_svg(chart);
  EXPECT_TRUE(has_parts(svg, {"class=\"c1\"", "&lt;other&gt;", "<title>step 1: 101.5000 held out</title>"}));
}

// What was measured before the first step lies left of the curves, and the legend shows a dot for dots.
TEST(StepChart, DotsBeforeTheFirstStep) {
  StepChart chart = rising(3);
  const double first = points_of(chart_svg(chart)).front().first;
  chart.dots_name = "held out";
  chart.dots = {{-1, 101}, {1, 101.5}};
  const std::string svg = chart_svg(chart);
  EXPECT_TRUE(has_parts(svg, {"<circle cx=\"50.0\"", "<title>before step 0: 101.0000 held out</title>",
                              "<title>step 1: 101.5000 held out</title>", "r=\"3\"/><text x="}));
  EXPECT_EQ(first, 50);
  EXPECT_NEAR(points_of(svg).front().first, 50 + 376.0 / 3, 0.06);
}

// The colours are used up after six curves; the page has one legend for all its charts.
TEST(StepChart, CurvesThatThePageNames) {
  StepChart chart = rising(20'000);
  while (chart.curves.size() < 8) chart.curves.push_back(chart.curves[0]);
  chart.named_apart = true;
  const std::string svg = chart_svg(chart);
  EXPECT_TRUE(has_parts(svg, {"class=\"c5\"", "class=\"c1 dashed\""}));
  EXPECT_EQ(svg.find("tokens/s, means"), std::string::npos);
  EXPECT_NE(svg.find(">means of 40 steps<"), std::string::npos);
}

TEST(StepChart, OnePointIsNoCurve) {
  EXPECT_EQ(chart_svg({}), "");
  EXPECT_EQ(chart_svg(rising(1)), "");
  StepChart flat = rising(2);
  flat.curves[0].points[1].value = flat.curves[0].points[0].value = 0;
  const std::string svg = chart_svg(flat);
  for (const char* none : {"nan", "inf", ">-0<"}) EXPECT_EQ(svg.find(none), std::string::npos) << svg;
}

}  // namespace
}  // namespace weft::inspect
