#include "inspect/drawing/picture.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "base/text/escape.h"

namespace weft::inspect {
namespace {

// At most two digits after the point and no zeros at the end: 12, 0.5, 3.14.
struct Number {
  double value;
};

void put(std::string& out, Number number) {
  const auto hundredths = static_cast<long long>(std::llround(number.value * 100));
  const long long magnitude = hundredths < 0 ? -hundredths : hundredths;
  if (hundredths < 0) out += '-';
  fmt::format_to(std::back_inserter(out), "{}", magnitude / 100);
  if (magnitude % 100 == 0) return;
  out += '.';
  out += static_cast<char>('0' + magnitude % 100 / 10);
  if (magnitude % 10 != 0) out += static_cast<char>('0' + magnitude % 10);
}

void put(std::string& out, std::string_view text) {
  out += text;
}

template <class... Parts>
void put_all(std::string& out, Parts... parts) {
  (put(out, parts), ...);
}

// xdot counts the bytes of a string before it is given.
std::string counted(std::string_view text) {
  return fmt::format("{} -{} ", text.size(), text);
}

}  // namespace

void Picture::rect(double x, double y, double width, double height, const Paint& paint) {
  shapes_.push_back({.kind = Kind::rect,
                     .points = {{x, y}, {width, height}},
                     .fill = std::string(paint.fill),
                     .stroke = std::string(paint.stroke),
                     .size = paint.width,
                     .round = paint.round,
                     .dashed = paint.dashed});
}

void Picture::line(std::span<const Point> points, const Paint& paint) {
  shapes_.push_back({.kind = Kind::line,
                     .points = {points.begin(), points.end()},
                     .fill = std::string(paint.fill),
                     .stroke = std::string(paint.stroke),
                     .size = paint.width,
                     .dashed = paint.dashed});
}

void Picture::text(double x, double y, std::string_view text, const TextPaint& paint) {
  shapes_.push_back({.kind = Kind::text,
                     .points = {{x, y}},
                     .fill = std::string(paint.color),
                     .size = paint.size,
                     .bold = paint.bold,
                     .anchor = paint.anchor,
                     .text = std::string(text)});
}

void Picture::begin_group(std::string_view tooltip, std::string_view css_class) {
  shapes_.push_back({.kind = Kind::begin, .text = std::string(tooltip), .css_class = std::string(css_class)});
}

void Picture::end_group() {
  shapes_.push_back({.kind = Kind::end});
}

std::string Picture::svg() const {
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"11\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
      width_, height_);
  const auto put_paint = [&](const Shape& shape) {
    put_all(out, "\" fill=\"", shape.fill.empty() ? "none" : std::string_view(shape.fill), "\"");
    if (!shape.stroke.empty()) {
      put_all(out, " stroke=\"", std::string_view(shape.stroke), "\"");
      if (shape.size != 1) put_all(out, " stroke-width=\"", Number{shape.size}, "\"");
    }
    if (shape.dashed) out += " stroke-dasharray=\"4 3\"";
    out += "/>\n";
  };
  for (const Shape& shape : shapes_) {
    switch (shape.kind) {
      case Kind::rect:
        put_all(out, "<rect x=\"", Number{shape.points[0].x}, "\" y=\"", Number{shape.points[0].y}, "\" width=\"",
                Number{shape.points[1].x}, "\" height=\"", Number{shape.points[1].y});
        if (shape.round > 0) put_all(out, "\" rx=\"", Number{shape.round});
        put_paint(shape);
        break;
      case Kind::line:
        out += shape.fill.empty() ? "<polyline points=\"" : "<polygon points=\"";
        for (std::size_t i = 0; i < shape.points.size(); ++i) {
          put_all(out, i == 0 ? "" : " ", Number{shape.points[i].x}, ",", Number{shape.points[i].y});
        }
        put_paint(shape);
        break;
      case Kind::text:
        put_all(out, "<text x=\"", Number{shape.points[0].x}, "\" y=\"", Number{shape.points[0].y}, "\"");
        if (shape.size != 11) put_all(out, " font-size=\"", Number{shape.size}, "\"");
        if (shape.anchor == TextPaint::Anchor::middle) out += " text-anchor=\"middle\"";
        if (shape.anchor == TextPaint::Anchor::end) out += " text-anchor=\"end\"";
        if (shape.bold) out += " font-weight=\"bold\"";
        if (shape.fill != "#000000") put_all(out, " fill=\"", std::string_view(shape.fill), "\"");
        put_all(out, ">", std::string_view(xml_escaped(shape.text)), "</text>\n");
        break;
      case Kind::begin:
        out += "<g";
        if (!shape.css_class.empty()) put_all(out, " class=\"", std::string_view(xml_escaped(shape.css_class)), "\"");
        put_all(out, "><title>", std::string_view(xml_escaped(shape.text)), "</title>");
        break;
      case Kind::end:
        out += "</g>\n";
        break;
    }
  }
  return out + "</svg>\n";
}

std::string Picture::xdot() const {
  std::string out;
  const auto put_point = [&](double x, double y) { put_all(out, Number{x}, " ", Number{height_ - y}, " "); };
  const auto put_pen = [&](const Shape& shape) {
    const std::string& pen = shape.stroke.empty() ? shape.fill : shape.stroke;
    put_all(out, "c ", std::string_view(counted(pen)));
    if (!shape.fill.empty()) put_all(out, "C ", std::string_view(counted(shape.fill)));
    const double width = shape.stroke.empty() ? 0 : shape.size;
    put_all(out, "S ", std::string_view(counted(fmt::format("setlinewidth({:.2f})", width))));
    put_all(out, "S ", std::string_view(counted(shape.dashed ? "dashed" : "solid")));
  };
  for (const Shape& shape : shapes_) {
    if (shape.kind == Kind::rect) {
      if (shape.fill.empty() && shape.stroke.empty()) continue;
      const Point at = shape.points[0], size = shape.points[1];
      put_pen(shape);
      out += shape.fill.empty() ? "p 4 " : "P 4 ";
      put_point(at.x, at.y), put_point(at.x + size.x, at.y);
      put_point(at.x + size.x, at.y + size.y), put_point(at.x, at.y + size.y);
    } else if (shape.kind == Kind::line) {
      put_pen(shape);
      put_all(out, shape.fill.empty() ? "L " : "P ", std::string_view(fmt::format("{} ", shape.points.size())));
      for (const Point& point : shape.points) put_point(point.x, point.y);
    } else if (shape.kind == Kind::text && !shape.text.empty()) {
      put_all(out, "c ", std::string_view(counted(shape.fill)), "t ", shape.bold ? "1 " : "0 ");
      put_all(out, "F ", Number{shape.size}, " ", std::string_view(counted("Helvetica")), "T ");
      put_point(shape.points[0].x, shape.points[0].y);
      const int align = shape.anchor == TextPaint::Anchor::start ? -1 : shape.anchor == TextPaint::Anchor::end ? 1 : 0;
      // The width is an estimate that the renderer doesn't need.
      const double width = 0.5 * shape.size * static_cast<double>(shape.text.size());
      put_all(out, std::string_view(fmt::format("{} ", align)), Number{width}, " ",
              std::string_view(counted(shape.text)));
    }
  }
  return out;
}

}  // namespace weft::inspect
