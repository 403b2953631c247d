// The measurements of a run, step by step, as SVG that follows a report's colours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace weft::inspect {

struct StepPoint {
  std::int64_t step = 0;
  double value = 0;
};

struct StepCurve {
  std::string name = {};
  std::vector<StepPoint> points = {};  // by rising step
};

/// The colours of curves; later curves have the same ones, dashed.
inline constexpr std::size_t kCurveColors = 6;

struct StepChart {
  std::string title = {};              // "tokens/s"
  std::vector<StepCurve> curves = {};  // on one axis
  std::string dots_name = {};
  std::vector<StepPoint> dots = {};  // what only some steps measured: held-out losses
  bool from_zero = true;             // does the axis begin there, rather than at the least value?
  bool named_apart = false;          // the page names the curves, so the chart doesn't
};

/// A small chart; "" where no curve has two points. A few values far above all others are drawn at the upper edge, and
/// counted.
std::string chart_svg(const StepChart& chart);

}  // namespace weft::inspect
