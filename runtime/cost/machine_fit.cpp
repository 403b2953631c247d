#include "runtime/cost/machine_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "runtime/cost/cost_model.h"
#include "runtime/cost/machine_check.h"

namespace weft::cost {
namespace {

double squared_log(double ratio) {
  return std::log(ratio) * std::log(ratio);
}

/// From `least` to `most`, both included, in equal steps of their logarithms.
double on_scale(double least, double most, int step, int steps) {
  return least * std::pow(most / least, static_cast<double>(step) / steps);
}

struct Range {
  double least, most;

  /// A smaller range around a value.
  Range around(double value, int steps) const {
    const double step = std::pow(most / least, 2.0 / steps);
    return {value / step, value * step};
  }
};

}  // namespace

void fit_link(Machine& machine, Link Machine::*link, std::span<const CalibrationPoint> points) {
  constexpr int kSteps = 32, kRefinements = 5;
  Range latency{1e-9, 1e-1}, bandwidth{1e3, 1e14};
  Link best = machine.*link;
  for (int refinement = 0; refinement < kRefinements; ++refinement) {
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i <= kSteps; ++i) {
      for (int j = 0; j <= kSteps; ++j) {
        Link& tried = machine.*link;
        tried.latency = on_scale(latency.least, latency.most, i, kSteps);
        tried.bandwidth = on_scale(bandwidth.least, bandwidth.most, j, kSteps);
        double sum = 0;
        for (const CalibrationPoint& point : points) {
          if (point.ranks > 1) sum += squared_log(predicted_seconds(machine, point) / point.seconds);
        }
        if (sum >= least) continue;
        least = sum;
        best = tried;
      }
    }
    latency = latency.around(best.latency, kSteps);
    bandwidth = bandwidth.around(best.bandwidth, kSteps);
  }
  machine.*link = best;
}

double fitted_gemm_half(const Machine& machine) {
  constexpr int kSteps = 200;
  Machine tried = machine;
  tried.gemms.clear();
  double best = 0, least = std::numeric_limits<double>::infinity();
  for (int i = -1; i <= kSteps; ++i) {
    tried.gemm_half = i < 0 ? 0 : on_scale(1, 4096, i, kSteps);
    double sum = 0;
    for (const GemmPoint& point : machine.gemms) sum += squared_log(predicted_seconds(tried, point) / point.seconds);
    if (sum >= least) continue;
    least = sum;
    best = tried.gemm_half;
  }
  return best;
}

void note_errors(Machine& machine) {
  constexpr double kReserve = 1.25, kSteps = 20, kLeast = 0.1, kMost = 10;
  const auto noted = [&](const CheckedPoint& point) {
    return std::clamp(std::ceil(std::abs(point.error()) * kReserve * kSteps) / kSteps, kLeast, kMost);
  };
  const std::vector<CheckedPoint> checked = check_points(machine);
  std::size_t next = 0;  // in the order of check_points()
  for (CalibrationPoint& point : machine.calibration) point.error = noted(checked[next++]);
  for (GemmPoint& point : machine.gemms) point.error = noted(checked[next++]);
  for (AttentionPoint& point : machine.attention) point.error = noted(checked[next++]);
}

}  // namespace weft::cost
