#include "inspect/drawing/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "base/utf8.h"

namespace weft::inspect {
namespace {

constexpr double kWidth = 900, kChartHeight = 400, kLeftEdge = 90, kRightEdge = 30, kTop = 48, kBottom = 62;
constexpr double kTitleLine = 20, kLegendLine = 18, kMark = 24,
                 kLetterWidth = 6.2;  // estimates of a letter's width at size 11
constexpr double kDotRoom = 8;        // between the outermost points and the plot's edges
constexpr std::string_view kGridColor = "#e4e4e4", kAxisColor = "#808080", kTextColor = "#333333";

struct ValueRange {
  double least = std::numeric_limits<double>::infinity(), most = -std::numeric_limits<double>::infinity();

  void take(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  bool empty() const { return least > most; }
};

bool can_show(const ChartAxis& axis, double value) {
  return std::isfinite(value) && (axis.scale == ChartScale::linear || value > 0);
}

/// An axis with the part of it that is shown, and its pixels.
class Scale {
 public:
  Scale(const ChartAxis& axis, ValueRange values, double begin, double end) : axis_(axis), begin_(begin), end_(end) {
    if (values.empty()) values.least = values.most = 1;
    if (axis.from_zero && axis.scale == ChartScale::linear) values.take(0);
    if (!axis.places.empty()) values.take(-0.5), values.take(static_cast<double>(axis.places.size()) - 0.5);
    least_ = place_in_scale(values.least), most_ = place_in_scale(values.most);
    if (most_ - least_ < 1e-9 * std::max(1.0, std::abs(most_))) {  // one value: in the middle
      const double around = axis.scale == ChartScale::logarithmic ? 0.3 : std::max(std::abs(most_) / 2, 0.5);
      least_ -= around, most_ += around;
      return;
    }
    const double room = kDotRoom / std::abs(end - begin) * (most_ - least_);
    const bool at_zero = axis.from_zero && values.least == 0;
    least_ -= at_zero ? 0 : room;
    most_ += room;
  }

  double pixel(double value) const {
    return begin_ + (place_in_scale(value) - least_) / (most_ - least_) * (end_ - begin_);
  }
  double least() const { return value_at(least_); }
  double most() const { return value_at(most_); }

 private:
  double place_in_scale(double value) const {
    return axis_.scale == ChartScale::logarithmic ? std::log10(value) : value;
  }
  double value_at(double place) const { return axis_.scale == ChartScale::logarithmic ? std::pow(10.0, place) : place; }

  const ChartAxis& axis_;
  double begin_, end_, least_ = 0, most_ = 1;
};

/// The power of 1024 or of 1000 that suits a number of a unit.
int prefix_of(ChartUnit unit, double most) {
  if (unit == ChartUnit::bytes) {
    int power = 0;
    while (most >= std::pow(1024.0, power + 1) && power < 4) ++power;
    return power;
  }
  return std::clamp(static_cast<int>(std::floor(std::log10(std::max(most, 1e-12)) / 3 + 1e-9)), -4, 6);
}

std::string with_unit(ChartUnit unit, double value, int prefix) {
  constexpr std::array<std::string_view, 5> kBytes = {"B", "KiB", "MiB", "GiB", "TiB"};
  constexpr std::array<std::string_view, 11> kPrefixes = {"p", "n", "u", "m", "", "k", "M", "G", "T", "P", "E"};
  if (unit == ChartUnit::bytes) {
    return fmt::format("{:.4g} {}", value / std::pow(1024.0, prefix), kBytes.at(static_cast<std::size_t>(prefix)));
  }
  return fmt::format("{:.4g} {}{}", value / std::pow(1000.0, prefix), *std::next(kPrefixes.begin(), prefix + 4),
                     unit == ChartUnit::seconds          ? "s"
                     : unit == ChartUnit::bytes_a_second ? "B/s"
                                                         : "flop/s");
}

std::vector<double> logarithmic_ticks(double least, double most) {
  std::vector<double> decades, all;
  for (double power = std::floor(std::log10(least)); power <= std::log10(most); ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * std::pow(10.0, power);
      if (tick < least * (1 - 1e-9) || tick > most * (1 + 1e-9)) continue;
      all.push_back(tick);
      if (factor == 1) decades.push_back(tick);
    }
  }
  return decades.size() < 3 ? all : decades;
}

/// The places that have names, else those where points are; each as far right of the last as its text needs.
std::vector<double> ticks_at_points(const SeriesChart& chart, const Scale& scale) {
  std::vector<double> places;
  for (std::size_t i = 0; i < chart.x.places.size(); ++i) places.push_back(static_cast<double>(i));
  for (const ChartSeries& series : chart.series) {
    for (const ChartPoint& point : series.points) {
      if (chart.x.places.empty() && can_show(chart.x, point.x)) places.push_back(point.x);
    }
  }
  std::ranges::sort(places);
  places.erase(std::unique(places.begin(), places.end()), places.end());
  std::vector<double> kept;
  for (const double place : places) {
    const std::string text = chart_tick_text(chart.x, place, scale.most());
    const double room = kLetterWidth * static_cast<double>(text_width(text)) + 10;
    if (kept.empty() || scale.pixel(place) - scale.pixel(kept.back()) >= room) kept.push_back(place);
  }
  return kept;
}

class ChartDrawing {
 public:
  explicit ChartDrawing(const SeriesChart& chart)
      : chart_(chart),
        top_(kTop + kTitleLine + kLegendLine * place_entries()),
        picture_(kWidth, top_ + kChartHeight + kBottom),
        x_(chart.x, ranges().first, kLeftEdge, kWidth - kRightEdge),
        y_(chart.y, ranges().second, top_ + kChartHeight, top_) {}

  Picture draw() && {
    picture_.text(kLeftEdge, 26, chart_.title, {.size = 15, .bold = true});
    draw_legend();
    draw_axes();
    for (const Entry& each : entries_) draw_line(*each.series, each.color);
    for (const Entry& each : entries_) draw_points(*each.series, each.color);
    return std::move(picture_);
  }

 private:
  struct Entry {
    const ChartSeries* series;
    std::string color;
    double x = 0;
    int line = 0;
  };

  /// The number of the legend's lines.
  int place_entries() {
    std::size_t colors = 0;
    double x = kLeftEdge;
    int line = -1;
    for (const ChartSeries& series : chart_.series) {
      entries_.push_back({&series, series.color.empty() ? std::string(chart_color(colors++)) : series.color});
      if (series.name.empty()) continue;
      const double width = kMark + kLetterWidth * static_cast<double>(text_width(series.name)) + 18;
      if (line < 0 || (x + width > kWidth && x > kLeftEdge)) x = kLeftEdge, ++line;
      entries_.back().x = x, entries_.back().line = line;
      x += width;
    }
    return line + 1;
  }

  bool can_show(const ChartPoint& point) const {
    return inspect::can_show(chart_.x, point.x) && inspect::can_show(chart_.y, point.y);
  }

  std::pair<ValueRange, ValueRange> ranges() const {
    ValueRange x, y;
    for (const ChartSeries& series : chart_.series) {
      for (const ChartPoint& point : series.points) {
        if (!can_show(point)) continue;
        x.take(point.x);
        for (const double value : {point.y, point.low.value_or(point.y), point.high.value_or(point.y)}) {
          if (inspect::can_show(chart_.y, value)) y.take(value);
        }
      }
    }
    return {x, y};
  }

  void draw_legend() {
    for (const Entry& entry : entries_) {
      if (entry.series->name.empty()) continue;
      const double y = kTop + kLegendLine * entry.line;
      if (entry.series->line) {
        picture_.line({entry.x, y}, {entry.x + kMark - 6, y},
                      {.stroke = entry.color, .width = 2, .dashed = entry.series->dashed});
      }
      if (entry.series->radius > 0)
        dot({entry.x + (kMark - 6) / 2, y}, std::min(entry.series->radius, 4.0), entry.color);
      picture_.text(entry.x + kMark, y + 4, entry.series->name, {.color = kTextColor});
    }
  }

  void draw_axes() {
    const double bottom = top_ + kChartHeight, right = kWidth - kRightEdge;
    const bool at_points = chart_.x.at_points || !chart_.x.places.empty();
    const std::vector<double> below =
        at_points ? ticks_at_points(chart_, x_) : chart_ticks(chart_.x, x_.least(), x_.most());
    for (const double tick : chart_ticks(chart_.y, y_.least(), y_.most())) {
      const double y = y_.pixel(tick);
      line({kLeftEdge, y}, {right, y}, kGridColor);
      picture_.text(kLeftEdge - 8, y + 4, chart_tick_text(chart_.y, tick, y_.most()),
                    {.color = kTextColor, .anchor = TextPaint::Anchor::end});
    }
    for (const double tick : below) {
      const double x = x_.pixel(tick);
      line({x, top_}, {x, bottom}, kGridColor);
      line({x, bottom}, {x, bottom + 4}, kAxisColor);
      picture_.text(x, bottom + 18, chart_tick_text(chart_.x, tick, x_.most()),
                    {.color = kTextColor, .anchor = TextPaint::Anchor::middle});
    }
    line({kLeftEdge, bottom}, {right, bottom}, kAxisColor);
    line({kLeftEdge, top_}, {kLeftEdge, bottom}, kAxisColor);
    picture_.text((kLeftEdge + right) / 2, bottom + 42, chart_.x.title,
                  {.size = 12, .color = kTextColor, .anchor = TextPaint::Anchor::middle});
    picture_.text(14, top_ - 10, chart_.y.title, {.size = 12, .color = kTextColor});
  }

  void draw_line(const ChartSeries& series, const std::string& color) {
    std::vector<Point> points;
    for (const ChartPoint& point : series.points) {
      if (can_show(point)) points.push_back({x_.pixel(point.x), y_.pixel(point.y)});
    }
    if (series.line && points.size() > 1)
      picture_.line(points, {.stroke = color, .width = 1.5, .dashed = series.dashed});
  }

  void draw_points(const ChartSeries& series, const std::string& color) {
    for (const ChartPoint& point : series.points) {
      if (!can_show(point) || (series.radius == 0 && !point.low)) continue;
      const Point at{x_.pixel(point.x), y_.pixel(point.y)};
      if (!point.tooltip.empty()) picture_.begin_group(point.tooltip);
      if (point.low && point.high && inspect::can_show(chart_.y, *point.low)) {
        constexpr double kCap = 4;
        const double low = y_.pixel(*point.low), high = y_.pixel(*point.high);
        line({at.x, low}, {at.x, high}, color, 1.5);
        for (const double end : {low, high}) line({at.x - kCap, end}, {at.x + kCap, end}, color, 1.5);
      }
      if (series.radius > 0) dot(at, series.radius, color);
      if (!point.tooltip.empty()) picture_.end_group();
    }
  }

  void line(Point from, Point to, std::string_view color, double width = 1) {
    picture_.line(from, to, {.stroke = color, .width = width});
  }
  void dot(Point at, double radius, std::string_view color) {
    picture_.rect(at.x - radius, at.y - radius, 2 * radius, 2 * radius, {.fill = color, .round = radius});
  }

  const SeriesChart& chart_;
  std::vector<Entry> entries_ = {};  // by series
  double top_;
  Picture picture_;
  Scale x_, y_;
};

}  // namespace

std::string_view chart_color(std::size_t index) {
  // The palette of Okabe and Ito, as in colors.h, without the colours that lines on white don't show.
  static constexpr std::array<std::string_view, 8> kColors = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                              "#E69F00", "#56B4E9", "#7B3294", "#222222"};
  return kColors[index % kColors.size()];
}

std::vector<double> chart_ticks(const ChartAxis& axis, double least, double most) {
  if (axis.scale == ChartScale::logarithmic) return logarithmic_ticks(least, most);
  constexpr double kWanted = 6;
  const double unit = axis.unit == ChartUnit::bytes ? std::pow(1024.0, prefix_of(axis.unit, most)) : 1;
  const double rough = (most - least) / kWanted / unit;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double nice : {5.0, 2.5, 2.0, 1.0}) {
    if (nice * power >= rough * 0.999) step = nice * power;
  }
  std::vector<double> ticks;
  const double first = std::ceil(least / unit / step - 1e-9), last = std::floor(most / unit / step + 1e-9);
  for (double i = first; i <= last; ++i) ticks.push_back(i * step * unit + 0.0);
  return ticks;
}

std::string chart_tick_text(const ChartAxis& axis, double value, double most) {
  if (!axis.places.empty()) {
    const auto place = static_cast<std::size_t>(std::max(0.0, std::round(value)));
    return place < axis.places.size() ? axis.places[place] : "";
  }
  if (axis.unit == ChartUnit::number) return fmt::format("{:.6g}", value);
  const bool own_prefix = axis.scale == ChartScale::logarithmic;
  return with_unit(axis.unit, value, prefix_of(axis.unit, own_prefix ? value : most));
}

Picture chart_picture(const SeriesChart& chart) {
  return ChartDrawing(chart).draw();
}

}  // namespace weft::inspect
