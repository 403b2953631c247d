#include "inspect/report/loss_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/text/escape.h"

namespace weft::inspect {
namespace {

constexpr double kLeft = 70, kWidth = 1000, kTop = 24, kHeight = 170, kBelow = 34, kMargin = 30;
constexpr std::size_t kMostPoints = 1000;

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

class Chart {
 public:
  Chart(Range x, Range y, const std::string& title) : x_(x), y_(y) {
    append(
        "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" ",
        kLeft + kWidth + kMargin, kTop + kHeight + kBelow);
    append("height=\"{:.0f}\" role=\"img\" aria-label=\"{}\">\n", kTop + kHeight + kBelow, xml_escaped(title));
  }

  template <class... T>
  void append(fmt::format_string<T...> format, T&&... arguments) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<T>(arguments)...);
  }

  double x(double value) const { return kLeft + kWidth * x_.share(value); }
  double y(double value) const { return kTop + kHeight * (1 - y_.share(value)); }

  template <class Text>
  void grid_y(double tick, Text text) {
    for (double at = std::ceil(y_.low / tick - 1e-9) * tick; at <= y_.high * (1 + 1e-9); at += tick) {
      append("<line class=\"grid\" x1=\"{0:.0f}\" x2=\"{1:.0f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>", kLeft,
             kLeft + kWidth, y(at));
      append("<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kLeft - 8, y(at) + 4,
             text(at + 0.0));  // not -0
    }
  }
  template <class Text>
  void grid_x(double tick, Text text) {
    for (double at = std::ceil(x_.low / tick - 1e-9) * tick; at <= x_.high * (1 + 1e-9); at += tick) {
      append("<line class=\"grid\" y1=\"{0:.0f}\" y2=\"{1:.0f}\" x1=\"{2:.1f}\" x2=\"{2:.1f}\"/>", kTop, kTop + kHeight,
             x(at));
      append("<text x=\"{:.1f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>\n", x(at), kTop + kHeight + 18,
             text(at));
    }
  }
  void label(double at, std::size_t color, const std::string& text) {
    append("<polyline class=\"c{}\" points=\"{:.0f},10 {:.0f},10\"/><text x=\"{:.0f}\" y=\"14\">{}</text>\n", color % 6,
           kLeft + at, kLeft + at + 14, kLeft + at + 20, xml_escaped(text));
  }
  std::string end() && { return std::move(out_) + "</svg>\n"; }

 private:
  Range x_, y_;
  std::string out_;
};

std::string number(double value) {
  return fmt::format("{:g}", value);
}

}  // namespace

std::string loss_svg(std::span<const LossPoint> points) {
  std::vector<std::pair<double, double>> losses, held_out;
  for (const LossPoint& point : points) {
    if (point.loss) losses.emplace_back(point.step, *point.loss);
    if (point.val_loss) held_out.emplace_back(point.step, *point.val_loss);
  }
  if (losses.size() < 2) return "";
  Range x{losses.front().first, losses.back().first}, y{losses.front().second, losses.front().second};
  for (const auto* list : {&losses, &held_out}) {
    for (const auto& [step, loss] : *list) y = {std::min(y.low, loss), std::max(y.high, loss)};
  }
  if (y.high <= y.low) y.high = y.low + 1;
  y = {std::max(0.0, y.low - 0.06 * (y.high - y.low)), y.high + 0.04 * (y.high - y.low)};
  Chart chart(x, y, "loss by step");
  chart.grid_y(tick_of(y.high - y.low, 4), number);
  chart.grid_x(std::max(1.0, tick_of(std::max(1.0, x.high - x.low), 10)), number);
  // Of several steps on one pixel the mean.
  const std::size_t together = (losses.size() - 1) / kMostPoints + 1;
  chart.append("<polyline class=\"c0\" points=\"");
  for (std::size_t i = 0; i < losses.size(); i += together) {
    const std::size_t end = std::min(losses.size(), i + together);
    double sum = 0;
    for (std::size_t k = i; k < end; ++k) sum += losses[k].second;
    chart.append("{:.1f},{:.1f} ", chart.x(losses[(i + end - 1) / 2].first),
                 chart.y(sum / static_cast<double>(end - i)));
  }
  chart.append("\"/>\n");
  for (const auto& [step, loss] : held_out) {
    chart.append("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"><title>step {}: {:.4f} held out</title></circle>\n",
                 chart.x(step), chart.y(loss), number(step), loss);
  }
  chart.label(0, 0, together > 1 ? fmt::format("loss, means of {} steps", together) : "loss");
  if (!held_out.empty()) chart.label(220, 1, "held out (dots)");
  return std::move(chart).end();
}

}  // namespace weft::inspect
