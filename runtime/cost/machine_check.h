// A machine's model against the measurements in its own file.
#pragma once

#include <string>
#include <vector>

#include "runtime/cost/machine.h"

namespace weft::cost {

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

}  // namespace weft::cost
