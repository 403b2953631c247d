#include "inspect/drawing/expert_chart.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/base/messages.h"
#include "tests/inspect/drawing/count_matches.h"

namespace weft::inspect {
namespace {

TEST(ExpertChart, ColoursTellMoreAndFewerTokensThanTheMean) {
  EXPECT_EQ(load_color(1), load_color(1.1));
  EXPECT_NE(load_color(2), load_color(1));
  EXPECT_NE(load_color(0.5), load_color(2));
  EXPECT_EQ(load_color(4), load_color(100));
  EXPECT_EQ(load_color(0), load_color(0.25));
  EXPECT_NE(load_color(0.25), load_color(0.5));
}

TEST(ExpertChart, HasAFieldForEachLayerAndARowForEachExpert) {
  const ExpertChart chart{.steps = {9, 19},
                          .fields = {{.layer = 0, .loads = {{1, 1}, {2, 0}}}, {.layer = 4, .loads = {{1, 1}, {1, 1}}}}};
  const std::string svg = expert_picture(chart).svg();
  EXPECT_EQ(testing::count_matches(svg, "<g><title>layer 0, expert "), 2U);
  EXPECT_TRUE(testing::has_parts(svg, {"layer 0, expert 0: 2.00 times the mean at step 19, from 1.00 to 2.00 times",
                                       "layer 4, expert 1: 1.00 times", "2.00 times the mean<", "steps to 19"}));
  // The background, five in the legend, and where a colour changes: twice in layer 0.
  EXPECT_EQ(testing::count_matches(svg, "<rect"), 1U + 5 + 4 + 2);
}

TEST(ExpertChart, NeighbouringStepsShareAColumnWhereThereAreMany) {
  ExpertChart chart{.steps = {}, .fields = {{}}};
  for (int step = 0; step < 1000; ++step) {
    chart.steps.push_back(step);
    chart.fields.front().loads.push_back(step % 2 == 0 ? std::vector<double>{2, 0} : std::vector<double>{0, 2});
  }
  EXPECT_EQ(testing::count_matches(expert_picture(chart).svg(), "<rect"), 1U + 5 + 2);  // the means are equal
  EXPECT_EQ(expert_picture({}).width(), 1);
}

}  // namespace
}  // namespace weft::inspect
