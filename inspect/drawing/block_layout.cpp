#include "inspect/drawing/block_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/drawing/colors.h"
#include "inspect/drawing/drawing_text.h"
#include "inspect/drawing/task_label.h"

namespace weft::inspect {
namespace {

constexpr double kBoxWidth = 150, kBoxHeight = 32, kGapX = 10, kGapY = 22, kPad = 10, kTitle = 18, kHead = 24;
constexpr double kMargin = 20, kBoxLetter = 5.6;

struct Place {
  double x = 0, y = 0;  // of the top left corner
};

struct Block {
  const InnerSection* section = nullptr;
  std::uint32_t outer = 0;
  double width = 0, height = 0;
  Place at = {};
};

// The first `columns` letters; UTF-8 is cut between characters.
std::string cut(std::string_view text, double width) {
  const auto columns = static_cast<std::size_t>(width / kBoxLetter);
  std::size_t seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80U) continue;
    if (++seen > columns) return std::string(text.substr(0, i)) + "…";
  }
  return std::string(text);
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

class Layout {
 public:
  explicit Layout(const Drawing& drawing) : drawing_(drawing), place_(drawing.boxes().size()) {
    std::vector<std::vector<std::uint32_t>> before(drawing.boxes().size());
    for (const Line& line : drawing.lines()) {
      if (line.distance == 0 && !line.repeats) before[line.to].push_back(line.from);
    }
    double area = 0;
    for (std::uint32_t outer = 0; outer < drawing.outer().size(); ++outer) {
      for (const InnerSection& inner : drawing.outer()[outer].inner) {
        if (inner.boxes.empty()) continue;
        blocks_.push_back({&inner, outer});
        arrange(blocks_.back(), before);
        area += blocks_.back().width * blocks_.back().height;
      }
    }
    flow(std::max(1200.0, std::sqrt(area * 1.8)));
  }

  Picture picture() const {
    const std::string caption = drawing_.caption();
    const auto head = lines_of(caption);
    const double top = static_cast<double>(head.size()) * 16 + 44;
    Picture picture(width_ + 2 * kMargin, top + height_ + kMargin);
    for (std::size_t i = 0; i < head.size(); ++i) {
      picture.text(kMargin, 18 + 16 * static_cast<double>(i), head[i], {.size = 13, .bold = i == 0});
    }
    legend(picture, top - 30);
    for (const Frame& frame : frames_) {
      picture.rect(kMargin + frame.at.x, top + frame.at.y, frame.width, frame.height,
                   {.fill = "#fafafa", .stroke = "#bbbbbb", .round = 6});
      picture.text(kMargin + frame.at.x + kPad, top + frame.at.y + 16, frame.label, {.size = 13, .bold = true});
    }
    for (const Block& block : blocks_) {
      if (block.section->layer < 0) continue;
      picture.rect(kMargin + block.at.x, top + block.at.y, block.width, block.height,
                   {.fill = "#f0f0f0", .stroke = "#dddddd", .round = 6});
      picture.text(kMargin + block.at.x + kPad, top + block.at.y + 14, block.section->label);
    }
    for (const Line& line : drawing_.lines()) {
      if (!line.critical) draw_line(picture, line, top);
    }
    for (const Line& line : drawing_.lines()) {
      if (line.critical) draw_line(picture, line, top);
    }
    for (std::size_t i = 0; i < place_.size(); ++i) draw_box(picture, i, top);
    return picture;
  }

 private:
  struct Frame {
    std::string label;
    Place at = {};
    double width = 0, height = 0;
  };

  // Boxes relative to the block, which becomes as large as they need.
  void arrange(Block& block, const std::vector<std::vector<std::uint32_t>>& before) {
    const std::vector<std::uint32_t>& boxes = block.section->boxes;
    std::vector<std::vector<std::uint32_t>> rows;
    for (const std::uint32_t box : boxes) {  // in program order: what a box waits for has its level, or is elsewhere
      std::size_t level = 0;
      for (const std::uint32_t other : before[box]) {
        const Box &a = drawing_.boxes()[other], &b = drawing_.boxes()[box];
        if (other < box && a.outer == b.outer && a.inner == b.inner) level = std::max(level, level_[other] + 1);
      }
      level_[box] = level;
      // Outside of layers there may be thousands of boxes that don't wait for each other.
      constexpr std::size_t kMostInARow = 12;
      while (level < rows.size() && rows[level].size() >= kMostInARow) ++level;
      if (level >= rows.size()) rows.resize(level + 1);
      level_[box] = level;
      rows[level].push_back(box);
    }
    std::size_t widest = 1;
    for (const auto& row : rows) widest = std::max(widest, row.size());
    block.width = static_cast<double>(widest) * (kBoxWidth + kGapX) - kGapX + 2 * kPad;
    block.height = static_cast<double>(rows.size()) * (kBoxHeight + kGapY) - kGapY + 2 * kPad + kTitle;
    for (std::size_t level = 0; level < rows.size(); ++level) {
      const double used = static_cast<double>(rows[level].size()) * (kBoxWidth + kGapX) - kGapX;
      for (std::size_t i = 0; i < rows[level].size(); ++i) {
        place_[rows[level][i]] = {(block.width - used) / 2 + static_cast<double>(i) * (kBoxWidth + kGapX),
                                  kPad + kTitle + static_cast<double>(level) * (kBoxHeight + kGapY)};
      }
    }
  }

  // Blocks side by side, a new row where the width is used up and a new frame with each outer section.
  void flow(double width) {
    double y = 0;
    for (std::size_t i = 0; i < blocks_.size();) {
      const std::uint32_t outer = blocks_[i].outer;
      Frame frame{drawing_.outer()[outer].label, {0, y}};
      double x = kPad, row_height = 0, right = 0;
      y += kHead;
      for (; i < blocks_.size() && blocks_[i].outer == outer; ++i) {
        Block& block = blocks_[i];
        if (x > kPad && x + block.width > width) {
          x = kPad;
          y += row_height + kGapY;
          row_height = 0;
        }
        block.at = {x, y};
        x += block.width + kGapX;
        right = std::max(right, x);
        row_height = std::max(row_height, block.height);
        for (const std::uint32_t box : block.section->boxes) {
          place_[box].x += block.at.x;
          place_[box].y += block.at.y;
        }
      }
      y += row_height + kPad;
      frame.width = right;
      frame.height = y - frame.at.y;
      frames_.push_back(frame);
      width_ = std::max(width_, right);
      y += kGapY;
    }
    height_ = y;
  }

  void draw_line(Picture& picture, const Line& line, double top) const {
    const Place &from = place_[line.from], &to = place_[line.to];
    const std::array<Point, 2> points = {
        {{kMargin + from.x + kBoxWidth / 2, top + from.y + kBoxHeight}, {kMargin + to.x + kBoxWidth / 2, top + to.y}}};
    const std::string_view color = line.critical ? kAlarmColor : line.repeats ? "#bbbbbb" : "#777777";
    const double width = line.critical ? 2.5 : 0.7;
    picture.line(points, {.stroke = color, .width = width, .dashed = Drawing::dash(line) != "solid"});
    // The head of the arrow.
    const double dx = points[1].x - points[0].x, dy = points[1].y - points[0].y;
    const double length = std::max(1.0, std::hypot(dx, dy)), ux = dx / length * 6, uy = dy / length * 6;
    const std::array<Point, 3> head = {{points[1],
                                        {points[1].x - ux - uy / 3, points[1].y - uy + ux / 3},
                                        {points[1].x - ux + uy / 3, points[1].y - uy - ux / 3}}};
    picture.line(head, {.fill = color});
  }

  // The label's first line; where it names one task but has no room, the end of the name, which tells tasks apart.
  std::string head(const Box& box, std::string_view line) const {
    constexpr auto kColumns = static_cast<std::size_t>((kBoxWidth - 6) / kBoxLetter);
    const graph::Task& task = drawing_.graph().task(box.tasks.front());
    if (line.size() > kColumns && line == short_name(task)) {
      const std::vector<std::string> labels = task_labels(short_tensor_name(task.name, task));
      if (const std::string_view label = fitting_label(labels, kColumns); !label.empty()) return std::string(label);
    }
    return cut(line, kBoxWidth - 6);
  }

  void draw_box(Picture& picture, std::size_t index, double top) const {
    const Box& box = drawing_.boxes()[index];
    const double x = kMargin + place_[index].x, y = top + place_[index].y;
    const KindStyle& style = drawing_.style(index);
    const auto stream = drawing_.stream(index);
    picture.begin_group(drawing_.tooltip(index), drawing_.id(index), drawing_.box_class(index));
    if (box.critical) {
      picture.rect(x - 3, y - 3, kBoxWidth + 6, kBoxHeight + 6, {.stroke = kAlarmColor, .width = 2, .round = 4});
    }
    picture.rect(x, y, kBoxWidth, kBoxHeight,
                 {.fill = style.fill,
                  .stroke = stream ? std::string_view(stream->color) : "#888888",
                  .width = stream ? 2.5 : 1,
                  .round = 2});
    const std::string label = drawing_.label(index);
    const auto text = lines_of(label);
    for (std::size_t i = 0; i < std::min<std::size_t>(2, text.size()); ++i) {
      picture.text(x + kBoxWidth / 2, y + 13 + 13 * static_cast<double>(i),
                   i == 0 ? head(box, text[0]) : cut(text[i], kBoxWidth - 6),
                   {.size = 10, .color = style.text, .anchor = TextPaint::Anchor::middle});
    }
    if (!box.mark.empty()) {
      picture.rect(x, y - 16, kBoxWidth, 15, {.fill = kMarkColor, .round = 3});
      picture.text(x + kBoxWidth / 2, y - 5, cut(lines_of(box.mark).front(), kBoxWidth),
                   {.size = 10, .color = "#ffffff", .anchor = TextPaint::Anchor::middle});
    }
    picture.end_group();
  }

  void legend(Picture& picture, double y) const {
    double x = kMargin;
    const auto entry = [&](std::string_view text, const Paint& paint, std::string_view color) {
      const double width = 14 + 6 * static_cast<double>(text.size());
      picture.rect(x, y, width, 16, paint);
      picture.text(x + 7, y + 12, text, {.size = 10, .color = color});
      x += width + 6;
    };
    for (const graph::KindClass kind : drawing_.kinds()) {
      entry(style_of(kind).name, {.fill = style_of(kind).fill}, style_of(kind).text);
    }
    for (const auto& [name, color] : drawing_.streams()) {
      entry("stream " + name, {.stroke = color, .width = 2.5}, "#000000");
    }
    for (const std::string& text : drawing_.line_legend()) entry(text, {}, "#000000");
    if (drawing_.has_critical_path()) entry("red: critical path", {}, kAlarmColor);
  }

  const Drawing& drawing_;
  std::vector<Place> place_;  // by box
  std::vector<std::size_t> level_ = std::vector<std::size_t>(place_.size());
  std::vector<Block> blocks_;
  std::vector<Frame> frames_;
  double width_ = 600, height_ = 0;
};

}  // namespace

Picture block_layout(const Drawing& drawing) {
  return Layout(drawing).picture();
}

}  // namespace weft::inspect
