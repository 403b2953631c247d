#include "study/axonn/axonn_study_output.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/cost/machine_files.h"

namespace weft::study {
namespace {

SimulatedPoint simulated(std::int64_t ranks, double published, double of_published, double efficiency) {
  SimulatedPoint point;
  point.published = {.machine = "frontier",
                     .model = "gpt-5b",
                     .ranks = ranks,
                     .sequences = 8192,
                     .petaflops = published,
                     .fitted = efficiency == 0,
                     .efficiency = efficiency};
  point.choice.grid = {.z = ranks};
  point.hardware_flops = 1e18;
  point.step_ns = point.published_ns() / of_published;
  point.left_out_ns = point.published_ns() / 0.5;
  point.switches = {{"axonn:oar=off,ors=off,oag=off", 2e9},
                    {"axonn:oar=on,ors=off,oag=off", 1.9e9},
                    {"axonn:oar=off,ors=on,oag=off", 1.8e9},
                    {"axonn:oar=off,ors=off,oag=on", 1.7e9},
                    {"axonn:oar=on,ors=on,oag=on", 1e9}};
  return point;
}

AxonnStudy study_of_two_runs() {
  AxonnStudy study;
  study.machines.push_back({.machine = cost::find_machine("frontier", cost::machine_folders()),
                            .constants = {0.5, 0.1},
                            .points = {simulated(512, 40, 1.0, 0), simulated(1024, 70, 1.1, 0.875)}});
  return study;
}

TEST(AxonnStudyOutput, ComparesRatesAndEfficiencies) {
  const std::vector<ComparedFigure> figures = compared_figures(study_of_two_runs());
  ASSERT_EQ(figures.size(), 3U);
  EXPECT_NEAR(figures[0].simulated, 40, 1e-9);
  EXPECT_TRUE(figures[0].fitted);
  EXPECT_NEAR(figures[1].error(), 0.1, 1e-9);
  EXPECT_NEAR(figures[1].left_out, 35, 1e-9);
  EXPECT_EQ(figures[2].unit, "%");
  EXPECT_NEAR(figures[2].published, 87.5, 1e-9);
  EXPECT_NEAR(figures[2].simulated, 100 * (77.0 / 1024) / (40.0 / 512), 1e-9);
  EXPECT_TRUE(figures[2].verified);
  EXPECT_FALSE(figures[2].fitted);
}

TEST(AxonnStudyOutput, JsonHasPointsAndMachines) {
  const nlohmann::json json = nlohmann::json::parse(axonn_study_json(study_of_two_runs()).text());
  ASSERT_EQ(json["points"].size(), 3U);
  for (const auto& point : json["points"]) {
    for (const char* key : {"name", "published", "simulated", "error", "fitted", "verified"}) {
      EXPECT_TRUE(point.contains(key)) << key;
    }
  }
  EXPECT_EQ(json["machines"][0]["efficiency"], 0.5);
  EXPECT_EQ(json["machines"][0]["runs"][0]["step_seconds_by_policy"].size(), 5U);
}

TEST(AxonnStudyOutput, TheTableTellsTheGainOfEachOverlap) {
  const std::string text = axonn_study_text(study_of_two_runs(), std::nullopt).plain();
  for (const char* part : {"-5.0 %", "-10.0 %", "-15.0 %", "-50.0 %", "fitted", "verified"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
}

TEST(AxonnStudyOutput, ThePictureHasPublishedAndSimulatedRates) {
  const std::string svg = axonn_picture(study_of_two_runs()).svg();
  EXPECT_NE(svg.find("frontier, published"), std::string::npos);
  EXPECT_NE(svg.find("frontier, simulated"), std::string::npos);
  EXPECT_NE(svg.find("70.0 PFLOP/s published, 77.0 simulated"), std::string::npos);
}

}  // namespace
}  // namespace weft::study
