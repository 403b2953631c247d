#include "inspect/drawing/picture.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdlib>

#include "base/text/escape.h"
#include "base/text/text_writer.h"

namespace weft::inspect {
namespace {

constexpr std::string_view kPageHead = R"HTML(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>)HTML";

constexpr std::string_view kStyle = R"HTML(</title>
<style>
body { margin: 0; background: #ffffff; font: 13px Helvetica, Arial, sans-serif; }
.moves { height: 100vh; overflow: hidden; }
.moves > svg { width: 100%; height: 100% !important; cursor: grab; }
#told { position: fixed; right: 8px; bottom: 8px; max-width: 45%; max-height: 60vh; overflow: auto; margin: 0;
  padding: 8px 10px; background: #ffffffee; border: 1px solid #bbbbbb; border-radius: 4px; white-space: pre-wrap; }
#told:empty { display: none; }
#keys { position: fixed; left: 8px; bottom: 6px; color: #555555; background: #ffffffcc; }
@media (prefers-color-scheme: dark) {
  body { background: #171b21; color: #e6eaef; }
  #told { background: #20262eee; border-color: #5d6b7a; }
  #keys { color: #98a4b3; background: #171b21cc; }
  g.graph > polygon { fill: transparent; }
  g.graph > text, g.cluster text, g.edge text, g[class="node"] text:not([fill]) { fill: #e6eaef; }
  g.cluster path { fill: #20262e; stroke: #3a434e; }
  g.edge path[stroke="#555555"] { stroke: #9aa5b1; }
  g.edge polygon[stroke="#555555"] { stroke: #9aa5b1; fill: #9aa5b1; }
  g.edge path[stroke="#7b3294"], g.node [stroke="#7b3294"] { stroke: #c792ea; }
  g.edge polygon[stroke="#7b3294"] { stroke: #c792ea; fill: #c792ea; }
  g.edge path[stroke="#2166ac"], g.node [stroke="#2166ac"] { stroke: #6cb2f5; }
  g.edge polygon[stroke="#2166ac"] { stroke: #6cb2f5; fill: #6cb2f5; }
  g.edge path[stroke="#cc0000"], g.node [stroke="#cc0000"] { stroke: #ff5a52; }
  g.edge polygon[stroke="#cc0000"] { stroke: #ff5a52; fill: #ff5a52; }
  [stroke="#222222"] { stroke: #98a4b3; }
}
</style>
</head>
<body>
<div id="picture">
)HTML";

constexpr std::string_view kScript = R"HTML(</div>
<pre id="told" aria-live="polite"></pre>
<script>
'use strict';
(() => {
  const frame = document.getElementById('picture'), told = document.getElementById('told');
  const svg = frame.querySelector('svg'), box = svg.viewBox.baseVal;
  const whole = { x: box.x, y: box.y, width: box.width, height: box.height };
  frame.className = 'moves';
  const keys = document.createElement('div');
  keys.id = 'keys';
  keys.textContent = 'wheel or + −: zoom; drag or arrows: move; 0: all; click a box: what it is';
  document.body.append(keys);
  const scale = () => svg.getScreenCTM().a;
  const zoom = (factor, x, y) => {
    const at = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM().inverse());
    box.x = at.x - (at.x - box.x) * factor;
    box.y = at.y - (at.y - box.y) * factor;
    box.width *= factor;
    box.height *= factor;
  };
  const move = (dx, dy) => { const s = scale(); box.x -= dx / s; box.y -= dy / s; };
  const centre = (factor) => zoom(factor, innerWidth / 2, innerHeight / 2);
  svg.addEventListener('wheel', (event) => {
    event.preventDefault();
    zoom(Math.exp(event.deltaY * 0.0015), event.clientX, event.clientY);
  }, { passive: false });
  let held = null, moved = 0;
  svg.addEventListener('pointerdown', (event) => { held = event; moved = 0; });
  addEventListener('pointermove', (event) => {
    if (!held) return;
    move(event.clientX - held.clientX, event.clientY - held.clientY);
    moved += Math.abs(event.clientX - held.clientX) + Math.abs(event.clientY - held.clientY);
    held = event;
  });
  addEventListener('pointerup', () => { held = null; });
  svg.addEventListener('click', (event) => {
    if (moved > 4) return;
    const link = event.target.closest('a'), group = event.target.closest('g');
    const title = group && group.querySelector(':scope > title');
    told.textContent = link ? link.getAttribute('xlink:title') || '' : title ? title.textContent : '';
  });
  const step = 60;
  const actions = {
    '+': () => centre(0.8), '=': () => centre(0.8), '-': () => centre(1.25),
    '0': () => Object.assign(box, whole), 'Escape': () => { told.textContent = ''; },
    'ArrowLeft': () => move(step, 0), 'ArrowRight': () => move(-step, 0),
    'ArrowUp': () => move(0, step), 'ArrowDown': () => move(0, -step),
  };
  addEventListener('keydown', (event) => {
    const action = actions[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  });
})();
</script>
</body>
</html>
)HTML";

// At most two digits after the point and no zeros at the end: 12, 0.5, 3.14.
std::string short_number(double value) {
  const auto hundredths = static_cast<long long>(std::llround(value * 100));
  const long long magnitude = std::abs(hundredths);
  std::string text = fmt::format("{}{}", hundredths < 0 ? "-" : "", magnitude / 100);
  if (magnitude % 100 != 0) text += fmt::format(".{:02}", magnitude % 100);
  if (magnitude % 100 != 0 && text.ends_with('0')) text.pop_back();
  return text;
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

void Picture::line(Point from, Point to, const Paint& paint) {
  line(std::array{from, to}, paint);
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
  TextWriter out;
  out.put(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "style=\"max-width:100%;height:auto\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"11\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
      width_, height_);
  const auto put_paint = [&](const Shape& shape) {
    out.put("\" fill=\"{}\"", shape.fill.empty() ? "none" : shape.fill);
    if (!shape.stroke.empty()) {
      out.put(" stroke=\"{}\"", shape.stroke);
      if (shape.size != 1) out.put(" stroke-width=\"{}\"", short_number(shape.size));
    }
    out.add(shape.dashed ? " stroke-dasharray=\"4 3\"/>\n" : "/>\n");
  };
  for (const Shape& shape : shapes_) {
    switch (shape.kind) {
      case Kind::rect:
        out.put("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}", short_number(shape.points[0].x),
                short_number(shape.points[0].y), short_number(shape.points[1].x), short_number(shape.points[1].y));
        if (shape.round > 0) out.put("\" rx=\"{}", short_number(shape.round));
        put_paint(shape);
        break;
      case Kind::line:
        out.put("<{} points=\"", shape.fill.empty() ? "polyline" : "polygon");
        for (const Point& point : shape.points) {
          out.put("{}{},{}", &point == shape.points.data() ? "" : " ", short_number(point.x), short_number(point.y));
        }
        put_paint(shape);
        break;
      case Kind::text:
        out.put("<text x=\"{}\" y=\"{}\"", short_number(shape.points[0].x), short_number(shape.points[0].y));
        if (shape.size != 11) out.put(" font-size=\"{}\"", short_number(shape.size));
        if (shape.anchor == TextPaint::Anchor::middle) out.add(" text-anchor=\"middle\"");
        if (shape.anchor == TextPaint::Anchor::end) out.add(" text-anchor=\"end\"");
        if (shape.bold) out.add(" font-weight=\"bold\"");
        if (shape.fill != "#000000") out.put(" fill=\"{}\"", shape.fill);
        out.put(">{}</text>\n", xml_escaped(shape.text));
        break;
      case Kind::begin:
        out.add("<g");
        if (!shape.css_class.empty()) out.put(" class=\"{}\"", xml_escaped(shape.css_class));
        out.put("><title>{}</title>", xml_escaped(shape.text));
        break;
      case Kind::end:
        out.add("</g>\n");
        break;
    }
  }
  out.add("</svg>\n");
  return std::move(out).text();
}

std::string Picture::xdot() const {
  TextWriter out;
  const auto put_point = [&](double x, double y) { out.put("{} {} ", short_number(x), short_number(height_ - y)); };
  const auto put_pen = [&](const Shape& shape) {
    out.put("c {}", counted(shape.stroke.empty() ? shape.fill : shape.stroke));
    if (!shape.fill.empty()) out.put("C {}", counted(shape.fill));
    const double width = shape.stroke.empty() ? 0 : shape.size;
    out.put("S {}S {}", counted(fmt::format("setlinewidth({:.2f})", width)),
            counted(shape.dashed ? "dashed" : "solid"));
  };
  for (const Shape& shape : shapes_) {
    if (shape.kind == Kind::rect) {
      if (shape.fill.empty() && shape.stroke.empty()) continue;
      const Point at = shape.points[0], size = shape.points[1];
      put_pen(shape);
      out.add(shape.fill.empty() ? "p 4 " : "P 4 ");
      put_point(at.x, at.y), put_point(at.x + size.x, at.y);
      put_point(at.x + size.x, at.y + size.y), put_point(at.x, at.y + size.y);
    } else if (shape.kind == Kind::line) {
      put_pen(shape);
      out.put("{} {} ", shape.fill.empty() ? "L" : "P", shape.points.size());
      for (const Point& point : shape.points) put_point(point.x, point.y);
    } else if (shape.kind == Kind::text && !shape.text.empty()) {
      out.put("c {}t {} F {} {}T ", counted(shape.fill), shape.bold ? 1 : 0, short_number(shape.size),
              counted("Helvetica"));
      put_point(shape.points[0].x, shape.points[0].y);
      const int align = shape.anchor == TextPaint::Anchor::start ? -1 : shape.anchor == TextPaint::Anchor::end ? 1 : 0;
      // The width is an estimate that the renderer doesn't need.
      const double width = 0.5 * shape.size * static_cast<double>(shape.text.size());
      out.put("{} {} {}", align, short_number(width), counted(shape.text));
    }
  }
  return std::move(out).text();
}

std::string picture_page(const std::string& title, const std::string& svg) {
  // A page has neither an XML declaration nor a document type in its middle.
  const std::size_t begin = svg.find("<svg");
  std::string page;
  page.append(kPageHead).append(xml_escaped(title)).append(kStyle);
  page.append(svg, begin == std::string::npos ? svg.size() : begin);
  page.append(kScript);
  return page;
}

}  // namespace weft::inspect
