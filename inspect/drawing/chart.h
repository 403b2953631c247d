// A chart of series over two axes, linear or logarithmic, drawn as a picture.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "inspect/drawing/picture.h"

namespace weft::inspect {

enum class ChartScale : std::uint8_t { linear, logarithmic };

/// The kind of an axis' numbers: bytes get prefixes of powers of 1024, other units of 1000.
enum class ChartUnit : std::uint8_t { number, seconds, bytes, bytes_a_second, operations_a_second };

struct ChartAxis {
  std::string title = {};
  ChartUnit unit = ChartUnit::number;
  ChartScale scale = ChartScale::linear;
  bool from_zero = false;                // of a linear axis
  bool at_points = false;                // ticks where points are, as far as they have room
  std::vector<std::string> places = {};  // names of the values 0, 1, …, which are no numbers then
};

struct ChartPoint {
  double x = 0, y = 0;
  std::optional<double> low = {}, high = {};  // an interval of y
  std::string tooltip = {};                   // "": none
};

struct ChartSeries {
  std::string name = {};  // of the legend; "": not in it
  std::vector<ChartPoint> points = {};
  std::string color = {};  // "": chart_color() of its place among such series
  bool line = true;        // through the points, in their order
  bool dashed = false;
  double radius = 3.5;  // of the dots; 0: none
};

struct SeriesChart {
  std::string title = {};
  ChartAxis x = {}, y = {};
  std::vector<ChartSeries> series = {};
};

/// The colour of the i-th series that names none; repeats after eight.
std::string_view chart_color(std::size_t index);

/// The places of an axis that get numbers, from the first at or above `least` to the last at or below `most`. Linear:
/// multiples of 1, 2, 2.5 or 5 times a power of ten, of bytes in a unit of suitable size. Logarithmic: powers of ten,
/// with their multiples by 2 and 5 if there are fewer than three.
std::vector<double> chart_ticks(const ChartAxis& axis, double least, double most);

/// "2.5 GiB", "20 ms", "1 Pflop/s". Numbers of a linear axis have the unit that suits `most`: "0.5 s" beside "1.5 s".
std::string chart_tick_text(const ChartAxis& axis, double value, double most);

/// 900 × 520 pixels and as much more as the legend takes. Points that a logarithmic axis can't show are left out.
Picture chart_picture(const SeriesChart& chart);

}  // namespace weft::inspect
