// A machine's model against the measurements in its own file, and numbers that can't be measured by themselves, fitted
// to measurements.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/cost/cost_model.h"
#include "runtime/cost/machine.h"

namespace weft::cost {

/// Large collectives on all groups at once, in a job of `job_ranks` ranks.
struct GroupedPoints {
  RankGroups groups;
  std::int64_t job_ranks = 1;
  std::span<const CalibrationPoint> points;
};

/// The latency and bandwidth with which the model of collectives comes closest to the points: the least sum of squares
/// of log(predicted / measured), the bandwidth over messages of whose time bytes take nine tenths or more, the latency
/// over the others. `neighbours`: more messages for the bandwidth, of groups that share the link. The machine's other
/// numbers stay. Needs a point of at least two ranks.
void fit_link(Machine& machine, Link Machine::*link, std::span<const CalibrationPoint> points,
              const GroupedPoints& neighbours = {});

/// Adds the groups to Machine::node_groups, with the bandwidth that comes closest to the points in the same sense.
void fit_node_group(Machine& machine, const GroupedPoints& measured);

/// The gemm-half that comes closest to the machine's measured products in the same sense, at its present rates.
double fitted_gemm_half(const Machine& machine);

/// A measurement beside the model's prediction of it, both in seconds.
struct CheckedPoint {
  std::string what;  // point_text()
  double measured = 0, predicted = 0;
  double allowed = 0;  // relative error that the file allows

  double error() const { return predicted / measured - 1; }
  bool holds() const { return error() <= allowed && error() >= -allowed; }
};

/// Calibration points, then products and attention. A product or attention is predicted without its own point, from the
/// others: what the model is worth where nothing was measured.
std::vector<CheckedPoint> check_points(const Machine& machine);

/// Gives each point the relative error that the model shows at it now (check_points()), with a quarter more, rounded up
/// to a multiple of 5 %: at least 10 % and at most 10.
void note_errors(Machine& machine);

}  // namespace weft::cost
