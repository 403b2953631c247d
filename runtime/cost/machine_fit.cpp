#include "runtime/cost/machine_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>

#include "runtime/cost/machine_numbers.h"

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

constexpr double kRefined = 10;     // how far a number is from a first fit at most
constexpr double kOtherLink = 100;  // how far links of neighbours are from those of the whole node
constexpr double kLarge = 0.9;      // the share of a large message's time that its bytes take

double sum_of_squares(const Machine& machine, std::span<const CalibrationPoint> points) {
  double sum = 0;
  for (const CalibrationPoint& point : points) sum += squared_log(predicted_seconds(machine, point) / point.seconds);
  return sum;
}

double sum_of_squares(const Machine& machine, const GroupedPoints& measured) {
  double sum = 0;
  for (const CalibrationPoint& point : measured.points) {
    sum += squared_log(predicted_seconds(machine, point, measured.groups, measured.job_ranks) / point.seconds);
  }
  return sum;
}

void fit_both(Machine& machine, Link Machine::*link, std::span<const CalibrationPoint> points) {
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
        const double sum = sum_of_squares(machine, points);
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

/// Gives `number`, a part of what `loss` looks at, the value of least loss from `reach` times less to `reach` times
/// more than its present value.
template <class Loss>
void fit_number(double& number, double reach, const Loss& loss) {
  constexpr int kSteps = 2000;
  const double start = number;
  double best = start, least = loss();
  for (int i = 0; i <= kSteps; ++i) {
    number = on_scale(start / reach, start * reach, i, kSteps);
    const double tried = loss();
    if (tried >= least) continue;
    least = tried;
    best = number;
  }
  number = best;
}

template <class Point>
void check_without_each(const Machine& machine, std::vector<Point> Machine::*points,
                        std::vector<CheckedPoint>& checked) {
  const std::vector<Point>& all = machine.*points;
  for (std::size_t i = 0; i < all.size(); ++i) {
    Machine others = machine;
    (others.*points).erase((others.*points).begin() + static_cast<std::ptrdiff_t>(i));
    checked.push_back({point_text(all[i]), all[i].seconds, predicted_seconds(others, all[i]), all[i].error});
  }
}

}  // namespace

void fit_link(Machine& machine, Link Machine::*link, std::span<const CalibrationPoint> points,
              const GroupedPoints& neighbours) {
  std::vector<CalibrationPoint> all;
  std::ranges::copy_if(points, std::back_inserter(all), [](const CalibrationPoint& point) { return point.ranks > 1; });
  fit_both(machine, link, all);
  // Of a large message the bandwidth alone tells, of a small one the latency: no error of one may bend the other.
  const auto is_large = [&](const CalibrationPoint& point) {
    Machine without = machine;
    (without.*link).latency = 0;
    return predicted_seconds(without, point) > kLarge * predicted_seconds(machine, point);
  };
  const auto large = static_cast<std::size_t>(std::partition(all.begin(), all.end(), is_large) - all.begin());
  const std::span<const CalibrationPoint> points_of_bytes = std::span(all).first(large);
  fit_number((machine.*link).bandwidth, kRefined,
             [&] { return sum_of_squares(machine, points_of_bytes) + sum_of_squares(machine, neighbours); });
  const std::span<const CalibrationPoint> points_of_latency = std::span(all).subspan(large);
  fit_number((machine.*link).latency, kRefined, [&] { return sum_of_squares(machine, points_of_latency); });
}

void fit_node_group(Machine& machine, const GroupedPoints& measured) {
  machine.node_groups.push_back({measured.groups.ranks, measured.groups.stride, machine.node.bandwidth});
  fit_number(machine.node_groups.back().bandwidth, kOtherLink, [&] { return sum_of_squares(machine, measured); });
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

std::vector<CheckedPoint> check_points(const Machine& machine) {
  std::vector<CheckedPoint> checked;
  for (const CalibrationPoint& point : machine.calibration) {
    checked.push_back({point_text(point), point.seconds, predicted_seconds(machine, point), point.error});
  }
  check_without_each(machine, &Machine::gemms, checked);
  check_without_each(machine, &Machine::attention, checked);
  return checked;
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
