#include "runtime/report_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "graph/colors.h"
#include "graph/text.h"

namespace weft {
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

/// How long each kind is busy in each of the picture's columns.
class Columns {
 public:
  Columns(std::int64_t begin, double ns_a_column) : begin_(begin), width_(ns_a_column) {}

  void add(const TaskTime& time, KindClass kind) {
    const double from = static_cast<double>(time.begin - begin_) / width_;
    const double to = static_cast<double>(time.end - begin_) / width_;
    for (std::size_t at = index(from); at <= index(to); ++at) {
      const auto left = static_cast<double>(at);
      busy_[at][static_cast<std::size_t>(kind)] += std::max(1e-9, std::min(to, left + 1) - std::max(from, left));
    }
  }

  /// Neighbours that look alike are one rectangle: draw(first, last behind, style, opacity).
  template <class Draw>
  void each_run(Draw draw) const {
    const auto look = [&](std::size_t at) {
      const auto& by = busy_[at];
      const auto most = std::ranges::max_element(by);
      double sum = 0;
      for (const double one : by) sum += one;
      const double level = sum > 0 ? 0.3 + 0.14 * std::min(5.0, std::ceil(sum * 5)) : 0;
      return std::pair(most - by.begin(), level);
    };
    for (std::size_t at = 0; at < busy_.size();) {
      const auto [style, level] = look(at);
      std::size_t end = at + 1;
      while (end < busy_.size() && look(end) == std::pair(style, level)) ++end;
      if (level > 0) draw(at, end, kKindStyles[static_cast<std::size_t>(style)], level);
      at = end;
    }
  }

 private:
  static std::size_t index(double column) { return static_cast<std::size_t>(std::clamp(column, 0.0, kWidth - 1)); }

  std::int64_t begin_;
  double width_;
  std::vector<std::array<double, kKindStyles.size()>> busy_ =
      std::vector<std::array<double, kKindStyles.size()>>(static_cast<std::size_t>(kWidth));
};

}  // namespace

std::string still_timeline_svg(std::span<const ReportView> views) {
  constexpr double kRow = 18, kBar = 12, kHead = 22;
  constexpr std::size_t kMostRanks = 4;
  double span = 1, rows = 0;
  for (const ReportView& view : views) {
    const std::size_t ranks = std::min(kMostRanks, view.recording.ranks.size());
    for (std::size_t r = 0; r < ranks; ++r) {
      const RecordedStep& step = view.recording.ranks[r].steps.back();
      span = std::max(span, static_cast<double>(step.end - step.begin));
    }
    rows += static_cast<double>(ranks) * (kHead + kRow * static_cast<double>(view.recording.streams.size()));
  }
  std::string out = fmt::format(
      "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" role=\"img\" aria-label=\"timeline of the last step\">\n",
      kLeft + kWidth + kMargin, rows);
  double y = 0;
  for (const ReportView& view : views) {
    const Recording& recording = view.recording;
    for (std::size_t r = 0; r < std::min(kMostRanks, recording.ranks.size()); ++r) {
      const RecordedStep& step = recording.ranks[r].steps.back();
      const double column = span / kWidth;
      std::vector<Columns> streams(recording.streams.size(), Columns(step.begin, column));
      for (std::size_t i = 0; i < recording.tasks.size(); ++i) {
        streams[recording.tasks[i].stream].add(step.times[i], recording.tasks[i].style);
      }
      const BusyTimes busy = busy_times(recording, step);
      out += fmt::format("<text x=\"4\" y=\"{:.0f}\">{}, rank {}: step {}, {:.3f} ms</text>\n", y + 16,
                         xml_escaped(view.name), recording.ranks[r].rank, step.step,
                         static_cast<double>(step.end - step.begin) * 1e-6);
      y += kHead;
      for (std::size_t s = 0; s < streams.size(); ++s, y += kRow) {
        out += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">{}</text>", kLeft - 8, y + 10,
                           xml_escaped(recording.streams[s].name));
        streams[s].each_run([&](std::size_t from, std::size_t to, const KindStyle& style, double level) {
          out += fmt::format(
              "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{}\" height=\"{:.0f}\" fill=\"{}\" fill-opacity=\"{:.2f}\"/>",
              kLeft + static_cast<double>(from), y, to - from, kBar, style.fill, level);
        });
        double until = 0;
        for (const Interval& bar : intersection(busy.streams[s], busy.exposed)) {
          if (recording.streams[s].compute) break;
          const double left = kLeft + static_cast<double>(bar.begin - step.begin) / column;
          const double right = std::max(left + 1, kLeft + static_cast<double>(bar.end - step.begin) / column);
          if (right <= until + 0.5) continue;
          out += fmt::format("<rect x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"3\" fill=\"{}\"/>", left,
                             y + kBar, right - left, kAlarmColor);
          until = right;
        }
        out += "\n";
      }
    }
  }
  return out + "</svg>\n";
}

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

std::string memory_svg(std::span<const ReportView> views) {
  std::vector<std::vector<MemoryPoint>> curves;
  Range x{0, 1}, y{0, 0};
  for (const ReportView& view : views) {
    const RecordedStep& step = view.recording.ranks.front().steps.back();
    curves.push_back(memory_curve(view.recording, step));
    for (MemoryPoint& point : curves.back()) {
      point.time -= step.begin;
      x.high = std::max(x.high, static_cast<double>(point.time));
      y.high = std::max(y.high, static_cast<double>(point.bytes));
    }
  }
  if (y.high <= 0) return "";
  Chart chart(x, {0, y.high * 1.05}, "memory over time");
  chart.grid_y(y.high / 2, [](double bytes) { return format_bytes(bytes); });
  chart.grid_x(tick_of(x.high, 10), [](double ns) { return number(ns * 1e-6) + " ms"; });
  double at = 0;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    chart.append("<polyline class=\"c{}\" points=\"", i % 6);
    const std::size_t together = curves[i].size() / kMostPoints + 1;
    std::int64_t before = 0;
    for (std::size_t k = 0; k < curves[i].size(); k += together) {
      std::int64_t greatest = 0;
      for (std::size_t n = k; n < std::min(curves[i].size(), k + together); ++n)
        greatest = std::max(greatest, curves[i][n].bytes);
      const double left = chart.x(static_cast<double>(curves[i][k].time));
      chart.append("{:.1f},{:.1f} {:.1f},{:.1f} ", left, chart.y(static_cast<double>(before)), left,
                   chart.y(static_cast<double>(greatest)));
      before = greatest;
    }
    chart.append("\"/>\n");
    const std::string name = views.size() > 1 ? views[i].name : "scratch in use";
    chart.label(at, i, name);
    at += 40 + 6.5 * static_cast<double>(name.size());
  }
  return std::move(chart).end();
}

}  // namespace weft
