#include "runtime/cost/machine_check.h"

#include "runtime/cost/cost_model.h"
#include "runtime/cost/machine_numbers.h"

namespace weft::cost {
namespace {

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

std::vector<CheckedPoint> check_points(const Machine& machine) {
  std::vector<CheckedPoint> checked;
  for (const CalibrationPoint& point : machine.calibration) {
    checked.push_back({point_text(point), point.seconds, predicted_seconds(machine, point), point.error});
  }
  check_without_each(machine, &Machine::gemms, checked);
  check_without_each(machine, &Machine::attention, checked);
  return checked;
}

}  // namespace weft::cost
