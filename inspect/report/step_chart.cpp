#include "inspect/report/step_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text/escape.h"
#include "base/text/text_writer.h"
#include "base/units.h"

namespace weft::inspect {
namespace {

constexpr double kPlotLeft = 50, kPlotWidth = 376, kPlotTop = 24, kPlotHeight = 130, kBelow = 26, kPlotMargin = 14;
constexpr double kLetter = 6.2, kLabelGap = 38;
constexpr std::size_t kMostPoints = 500;

struct Range {
  double low = 0, high = 1;
  double share(double value) const { return high > low ? (value - low) / (high - low) : 0; }
};

/// A multiple of 1, 2 or 5 times a power of ten.
double tick_of(double length, double wanted) {
  const double power = std::pow(10.0, std::floor(std::log10(length / wanted)));
  const double share = length / wanted / power;
  return power * (share > 5 ? 10 : share > 2 ? 5 : share > 1 ? 2 : 1);
}

std::string axis_number(double value) {
  if (std::abs(value) >= 10'000) return human_count(value);
  return fmt::format("{:g}", value == 0 ? 0.0 : value);  // not -0
}

std::vector<double> sorted_values(const StepChart& chart) {
  std::vector<double> values;
  for (const StepCurve& curve : chart.curves) {
    for (const StepPoint& point : curve.points) values.push_back(point.value);
  }
  for (const StepPoint& point : chart.dots) values.push_back(point.value);
  std::ranges::sort(values);
  return values;
}

/// Of the first step, which warms up, and of others like it.
constexpr double kOutlier = 3, kUsualShare = 0.96;

Range values_range(const StepChart& chart, const std::vector<double>& values) {
  const double usual = values[static_cast<std::size_t>(kUsualShare * static_cast<double>(values.size() - 1))];
  double low = values.front(), high = values.back();
  if (chart.from_zero) low = std::min(0.0, low);
  if (chart.from_zero && usual > 0 && high > kOutlier * usual) high = 1.3 * usual;
  if (high <= low) high = low + 1;
  const double length = high - low;
  return {chart.from_zero ? low : low - 0.06 * length, high + 0.04 * length};
}

class Chart {
 public:
  Chart(Range x, Range y, const std::string& title) : x_(x), y_(y) {
    out.put("<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" ",
            kPlotLeft + kPlotWidth + kPlotMargin, kPlotTop + kPlotHeight + kBelow);
    out.put("data-left=\"{:.0f}\" data-width=\"{:.0f}\" ", kPlotLeft, kPlotWidth);
    out.put("role=\"img\" aria-label=\"{} by step\">\n", xml_escaped(title));
  }

  double x(double value) const { return kPlotLeft + kPlotWidth * x_.share(value); }
  double y(double value) const { return kPlotTop + kPlotHeight * (1 - std::clamp(y_.share(value), 0.0, 1.0)); }

  void grid() {
    const double tick_y = tick_of(y_.high - y_.low, 4);
    for (double i = std::ceil(y_.low / tick_y - 1e-9); i * tick_y <= y_.high * (1 + 1e-9); ++i) {
      out.put("<line class=\"grid\" x1=\"{0:.0f}\" x2=\"{1:.0f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>", kPlotLeft,
              kPlotLeft + kPlotWidth, y(i * tick_y));
      out.put("<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kPlotLeft - 6, y(i * tick_y) + 4,
              axis_number(i * tick_y));
    }
    const double tick_x = std::max(1.0, tick_of(std::max(1.0, x_.high - x_.low), 6));
    for (double i = std::ceil(x_.low / tick_x - 1e-9); i * tick_x <= x_.high * (1 + 1e-9); ++i) {
      out.put("<line class=\"grid\" y1=\"{0:.0f}\" y2=\"{1:.0f}\" x1=\"{2:.1f}\" x2=\"{2:.1f}\"/>", kPlotTop,
              kPlotTop + kPlotHeight, x(i * tick_x));
      out.put("<text x=\"{:.1f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>\n", x(i * tick_x),
              kPlotTop + kPlotHeight + 18, axis_number(i * tick_x));
    }
  }

  /// Of several steps on one place the mean.
  void curve(const std::vector<StepPoint>& points, std::size_t together, std::size_t color) {
    out.put("<polyline class=\"c{}{}\" points=\"", color % kCurveColors, color < kCurveColors ? "" : " dashed");
    for (std::size_t i = 0; i < points.size(); i += together) {
      const std::size_t end = std::min(points.size(), i + together);
      double sum = 0;
      for (std::size_t k = i; k < end; ++k) sum += points[k].value;
      const StepPoint& middle = points[(i + end - 1) / 2];
      out.put("{:.1f},{:.1f} ", x(static_cast<double>(middle.step)), y(sum / static_cast<double>(end - i)));
    }
    out.put("\"/>\n");
  }

  /// Before the first step of the curves a dot is of the state that they begin with.
  void dot(const StepPoint& point, std::int64_t first, const std::string& name) {
    out.put("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{} {}: {:.4f} {}</title></circle>\n",
            x(static_cast<double>(point.step)), y(point.value), point.step < first ? "before step" : "step",
            std::max(point.step, first), point.value, xml_escaped(name));
  }

  /// Labels follow each other above the frame, each behind the mark that it names.
  void label(std::size_t color, const std::string& text) {
    out.put("<polyline class=\"c{}{}\" points=\"{:.0f},10 {:.0f},10\"/>", color % kCurveColors,
            color < kCurveColors ? "" : " dashed", kPlotLeft + next_label_, kPlotLeft + next_label_ + 14);
    label_text(text);
  }

  void dots_label(const std::string& text) {
    out.put("<circle cx=\"{:.0f}\" cy=\"10\" r=\"3\"/>", kPlotLeft + next_label_ + 7);
    label_text(text);
  }

  void label_text(const std::string& text) {
    out.put("<text x=\"{:.0f}\" y=\"14\">{}</text>\n", kPlotLeft + next_label_ + 20, xml_escaped(text));
    next_label_ += kLabelGap + kLetter * static_cast<double>(text.size());
  }

  std::string end() && {
    out.add("</svg>\n");
    return std::move(out).text();
  }

  TextWriter out;

 private:
  Range x_, y_;
  double next_label_ = 0;
};

}  // namespace

std::string chart_svg(const StepChart& chart) {
  std::size_t longest = 0;
  Range x{INFINITY, -INFINITY};
  for (const StepCurve& curve : chart.curves) {
    longest = std::max(longest, curve.points.size());
    if (curve.points.empty()) continue;
    x.low = std::min(x.low, static_cast<double>(curve.points.front().step));
    x.high = std::max(x.high, static_cast<double>(curve.points.back().step));
  }
  if (longest < 2) return "";
  const auto first = static_cast<std::int64_t>(x.low);
  for (const StepPoint& point : chart.dots) {
    x.low = std::min(x.low, static_cast<double>(point.step));
    x.high = std::max(x.high, static_cast<double>(point.step));
  }
  const std::vector<double> values = sorted_values(chart);
  const Range y = values_range(chart, values);
  const std::size_t together = (longest - 1) / kMostPoints + 1;
  Chart svg(x, y, chart.title);
  svg.grid();
  for (std::size_t i = 0; i < chart.curves.size(); ++i) {
    const StepCurve& curve = chart.curves[i];
    svg.curve(curve.points, together, i);
    if (chart.named_apart) continue;
    if (together > 1) {
      svg.label(i, fmt::format("{}, means of {} steps", curve.name, together));
    } else if (chart.curves.size() > 1 || !chart.dots.empty()) {  // else the title says it
      svg.label(i, curve.name);
    }
  }
  for (const StepPoint& point : chart.dots) svg.dot(point, first, chart.dots_name);
  if (!chart.dots.empty()) svg.dots_label(chart.dots_name);
  if (chart.named_apart && together > 1) {
    svg.out.put("<text x=\"{:.0f}\" y=\"14\">means of {} steps</text>\n", kPlotLeft, together);
  }
  const auto above = std::ranges::count_if(values, [&](double value) { return value > y.high; });
  if (above > 0) {
    svg.out.put("<text x=\"{:.0f}\" y=\"14\" text-anchor=\"end\">{} above the frame, up to {}</text>\n",
                kPlotLeft + kPlotWidth, above, axis_number(values.back()));
  }
  return std::move(svg).end();
}

}  // namespace weft::inspect
