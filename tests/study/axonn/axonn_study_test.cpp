// The fit of two constants to published rates, and the published figures' arithmetic.
#include "study/axonn/axonn_study.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ops/model_config.h"
#include "runtime/cost/machine_files.h"

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

}  // namespace
}  // namespace weft::study
