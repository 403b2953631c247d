// The fit of two constants to published rates, and the published figures' arithmetic.
#include "study/axonn/axonn_study.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "ops/model_config.h"
#include "runtime/cost/machine.h"

namespace weft::study {
namespace {

/// A step that computes for `compute` and sends for `sent` nanoseconds on `doublings` doublings of nodes, one after the
/// other: exactly what the surface assumes.
double step_of(double compute, double sent, double doublings, const FittedConstants& constants) {
  return compute / constants.efficiency + sent * (1 + constants.congestion * doublings);
}

StepSurface surface_of(double compute, double sent, double doublings) {
  std::vector<double> step_ns;
  for (const FittedConstants& place : StepSurface::places())
    step_ns.push_back(step_of(compute, sent, doublings, place));
  return StepSurface(step_ns);
}

TEST(AxonnStudy, SurfacesGiveTheStepsTheyAreMadeOf) {
  const StepSurface surface = surface_of(3e9, 1e9, 8);
  for (const FittedConstants& place : StepSurface::places()) {
    EXPECT_NEAR(surface.step_ns(place), step_of(3e9, 1e9, 8, place), 1);
  }
  const FittedConstants between{0.61, 0.11};
  EXPECT_NEAR(surface.step_ns(between), step_of(3e9, 1e9, 8, between), 1);
}

TEST(AxonnStudy, TheFitFindsTheConstantsThatMadeTheFigures) {
  const FittedConstants truth{1 / 1.45, 0.1};
  std::vector<std::vector<StepSurface>> surfaces;
  std::vector<double> published;
  for (const double doublings : {6.0, 7.0, 9.0}) {
    // The second configuration is always slower, and counts for nothing.
    surfaces.push_back({surface_of(3e9, 2e8 * doublings, doublings), surface_of(6e9, 2e8 * doublings, doublings)});
    published.push_back(step_of(3e9, 2e8 * doublings, doublings, truth));
  }
  const FittedConstants found = fit_constants(surfaces, published);
  EXPECT_NEAR(found.efficiency, truth.efficiency, 0.01);
  EXPECT_NEAR(found.congestion, truth.congestion, 0.005);
}

TEST(AxonnStudy, CongestionGrowsWithEachDoublingOfNodes) {
  const cost::Machine machine = with_constants(cost::find_machine("frontier", cost::machine_folders()), {0.5, 0.1});
  EXPECT_EQ(machine.efficiency, 0.5);
  EXPECT_NEAR(machine.congestion_of(1), 1.0, 1e-12);
  EXPECT_NEAR(machine.congestion_of(64), 1.6, 1e-12);
  EXPECT_NEAR(machine.congestion_of(4096), 2.2, 1e-12);
}

TEST(AxonnStudy, HardwareFlopsGiveThePapersSteps) {
  // Table 5 of the reference: sustained rate and step belong together at 8192 sequences.
  const double flops = hardware_flops(ops::model_by_name("gpt-40b"), 8192, 2048);
  EXPECT_NEAR(flops / 620.1e15, 8.8, 0.05);
  EXPECT_NEAR(hardware_flops(ops::model_by_name("gpt-320b"), 8192, 2048) / 1381e15, 30.7, 0.1);
}

TEST(AxonnStudy, EfficienciesFollowFromThePublishedRates) {
  const PublishedPoint* first = nullptr;
  for (const PublishedPoint& point : published_points()) {
    if (point.machine != "frontier") continue;
    if (first == nullptr) first = &point;
    const double share =
        point.petaflops / static_cast<double>(point.ranks) / (first->petaflops / static_cast<double>(first->ranks));
    if (point.efficiency > 0) {
      EXPECT_NEAR(share, point.efficiency, 0.003) << to_string(point);
    }
  }
}

TEST(AxonnStudy, FittedRunsAreSmallerThanAllThatArePredicted) {
  for (const PublishedPoint& one : published_points()) {
    for (const PublishedPoint& other : published_points()) {
      if (one.machine == other.machine && one.fitted && !other.fitted) {
        EXPECT_LT(one.ranks, other.ranks);
      }
    }
  }
}

SimulatedPoint simulated(std::int64_t ranks, double published, double of_published, double efficiency) {
  SimulatedPoint point;
  point.published = {.machine = "frontier",
                     .model = "gpt-5b",
                     .ranks = ranks,
                     .sequences = 8192,
                     .petaflops = published,
                     .fitted = efficiency == 0,
                     .efficiency = efficiency};
  point.setup.grid = {.z = ranks};
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

class AxonnStudyOutput : public ::testing::Test {
 protected:
  const AxonnStudy study_ = study_of_two_runs();
};

TEST_F(AxonnStudyOutput, ComparesRatesAndEfficiencies) {
  const std::vector<ComparedFigure> figures = compared_figures(study_);
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

TEST_F(AxonnStudyOutput, JsonHasPointsAndMachines) {
  const nlohmann::json json = nlohmann::json::parse(results_of(study_).json().text());
  ASSERT_EQ(json["points"].size(), 3U);
  for (const auto& point : json["points"]) {
    for (const char* key : {"name", "published", "simulated", "error", "fitted", "verified"}) {
      EXPECT_TRUE(point.contains(key)) << key;
    }
  }
  EXPECT_EQ(json["machines"][0]["efficiency"], 0.5);
  EXPECT_EQ(json["machines"][0]["runs"][0]["step_seconds_by_policy"].size(), 5U);
}

TEST_F(AxonnStudyOutput, TheTableTellsTheGainOfEachOverlap) {
  const std::string text = results_of(study_).text({}).plain();
  for (const char* part : {"-5.0 %", "-10.0 %", "-15.0 %", "-50.0 %", "fitted", "verified"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
}

TEST_F(AxonnStudyOutput, ThePictureHasPublishedAndSimulatedRates) {
  const std::string svg = results_of(study_).picture().svg();
  EXPECT_NE(svg.find("frontier, published"), std::string::npos);
  EXPECT_NE(svg.find("frontier, simulated"), std::string::npos);
  EXPECT_NE(svg.find("70.0 PFLOP/s published, 77.0 simulated"), std::string::npos);
}

}  // namespace
}  // namespace weft::study
