// A picture of rectangles, lines and text, for charts and timelines, which Weft lays out itself; and pages that show a
// picture.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::inspect {

/// Colours are "#rrggbb"; "" is none.
struct Paint {
  std::string_view fill = "", stroke = "";
  double width = 1;  // of the stroke
  bool dashed = false;
  double round = 0;  // radius of a rectangle's corners, in SVG
};

struct TextPaint {
  double size = 11;
  std::string_view color = "#000000";
  enum class Anchor { start, middle, end } anchor = Anchor::start;
  bool bold = false;
};

struct Point {
  double x = 0, y = 0;
};

/// Pixels, y downwards. Shapes are painted in the order of the calls; equal calls give equal text.
class Picture {
 public:
  Picture(double width, double height) : width_(width), height_(height) {}
  double width() const { return width_; }
  double height() const { return height_; }

  void rect(double x, double y, double width, double height, const Paint& paint);
  /// Through two or more points; closed and filled where the paint has a fill.
  void line(std::span<const Point> points, const Paint& paint);
  void line(Point from, Point to, const Paint& paint);
  void text(double x, double y, std::string_view text, const TextPaint& paint = {});
  /// Shapes until end_group() have one tooltip, and a class where it is not "".
  void begin_group(std::string_view tooltip, std::string_view css_class = "");
  void end_group();

  /// A page of its own, without script or links.
  std::string svg() const;
  /// The same as drawing operations of Graphviz's xdot language, y upwards, without groups.
  std::string xdot() const;

 private:
  enum class Kind { rect, line, text, begin, end };
  struct Shape {
    Kind kind;
    std::vector<Point> points = {};  // a rectangle's corner and size; a text's place
    std::string fill = {}, stroke = {};
    double size = 1, round = 0;  // of the stroke, or of letters
    bool dashed = false, bold = false;
    TextPaint::Anchor anchor = TextPaint::Anchor::start;
    std::string text = {}, css_class = {};
  };
  double width_, height_;
  std::vector<Shape> shapes_;
};

/// The picture as a page in one file; its content security policy forbids to load anything. The wheel, keys and
/// dragging move the picture, and a click pins a box's tooltip. Without JavaScript the page shows the picture, which
/// doesn't move. `svg` is a whole SVG document.
std::string picture_page(const std::string& title, const std::string& svg);

}  // namespace weft::inspect
