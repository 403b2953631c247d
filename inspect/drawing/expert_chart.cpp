#include "inspect/drawing/expert_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

namespace weft::inspect {
namespace {

// ColorBrewer's scale RdBu, which colour-blind readers can tell apart, in steps of the square root of two.
constexpr std::array<std::string_view, 9> kLoadColors = {"#2166ac", "#4393c3", "#92c5de", "#d1e5f0", "#f0f0f0",
                                                         "#fddbc7", "#f4a582", "#d6604d", "#b2182b"};
constexpr double kPictureWidth = 900, kGap = 18, kHead = 34, kTitle = 16, kFoot = 16;
constexpr std::size_t kMostCells = 30'000, kMostColumns = 100, kFieldsBeside = 3;
constexpr std::string_view kSoft = "#555555";

/// Of several columns the mean, by expert.
std::vector<double> mean_of(const ExpertField& field, std::size_t begin, std::size_t end) {
  std::vector<double> mean(field.loads[begin].size());
  for (std::size_t column = begin; column < end; ++column) {
    for (std::size_t e = 0; e < mean.size(); ++e) {
      mean[e] += field.loads[column][e] / static_cast<double>(end - begin);
    }
  }
  return mean;
}

class ExpertDrawing {
 public:
  explicit ExpertDrawing(const ExpertChart& chart)
      : chart_(chart),
        experts_(chart.fields.front().loads.front().size()),
        beside_(std::min(kFieldsBeside, chart.fields.size())),
        width_((kPictureWidth - kGap * static_cast<double>(beside_ - 1)) / static_cast<double>(beside_)),
        row_(std::clamp(120.0 / static_cast<double>(experts_), 1.5, 14.0)),
        height_(kTitle + row_ * static_cast<double>(experts_) + kFoot),
        picture_(kPictureWidth,
                 kHead + height_ * std::ceil(static_cast<double>(chart.fields.size()) / static_cast<double>(beside_))) {
    const std::size_t most = std::clamp<std::size_t>(kMostCells / (chart.fields.size() * experts_), 1, kMostColumns);
    const std::size_t together = (chart.steps.size() + most - 1) / most;
    for (std::size_t at = 0; at < chart.steps.size(); at += together) columns_.push_back(at);
    columns_.push_back(chart.steps.size());
  }

  Picture draw() && {
    legend();
    for (std::size_t i = 0; i < chart_.fields.size(); ++i) {
      field(chart_.fields[i], static_cast<double>(i % beside_) * (width_ + kGap),
            kHead + height_ * static_cast<double>(i / beside_));
    }
    return std::move(picture_);
  }

 private:
  void legend() {
    constexpr double kSwatch = 14, kText = 46;
    constexpr std::array<std::string_view, 5> kWords = {"1/4 or less", "1/2", "mean", "2 times", "4 or more"};
    double x = 0;
    for (std::size_t i = 0; i < kWords.size(); ++i) {
      picture_.rect(x, 4, kSwatch, kSwatch, {.fill = kLoadColors.at(2 * i)});
      picture_.text(x + kSwatch + 4, 15, kWords.at(i), {.color = kSoft});
      x += kSwatch + 4 + kText + (i == 0 ? 20 : 0);
    }
    picture_.text(kPictureWidth, 15,
                  fmt::format("experts from 0 down, steps to {} from left to right", chart_.steps.back()),
                  {.color = kSoft, .anchor = TextPaint::Anchor::end});
  }

  void field(const ExpertField& field, double left, double top) {
    std::vector<std::vector<double>> loads;
    for (std::size_t c = 0; c + 1 < columns_.size(); ++c) loads.push_back(mean_of(field, columns_[c], columns_[c + 1]));
    const double most = *std::ranges::max_element(field.loads.back());
    picture_.text(left, top + kTitle - 5, fmt::format("layer {}", field.layer), {.bold = true});
    picture_.text(left + width_, top + kTitle - 5, fmt::format("busiest at the end: {:.2f} times the mean", most),
                  {.color = kSoft, .anchor = TextPaint::Anchor::end});
    for (std::size_t e = 0; e < experts_; ++e) {
      row(field, loads, e, left, top + kTitle + row_ * static_cast<double>(e));
    }
  }

  // Cells of one colour that follow one another are one rectangle.
  void row(const ExpertField& field, const std::vector<std::vector<double>>& loads, std::size_t expert, double left,
           double top) {
    double least = field.loads.front()[expert], most = least;
    for (const std::vector<double>& column : field.loads) {
      least = std::min(least, column[expert]), most = std::max(most, column[expert]);
    }
    picture_.begin_group(
        fmt::format("layer {}, expert {}: {:.2f} times the mean at step {}, from {:.2f} to {:.2f} times", field.layer,
                    expert, field.loads.back()[expert], chart_.steps.back(), least, most));
    const double cell = width_ / static_cast<double>(loads.size());
    for (std::size_t begin = 0, end = 0; begin < loads.size(); begin = end) {
      const std::string_view color = load_color(loads[begin][expert]);
      while (end < loads.size() && load_color(loads[end][expert]) == color) ++end;
      picture_.rect(left + cell * static_cast<double>(begin), top, cell * static_cast<double>(end - begin), row_,
                    {.fill = color});
    }
    picture_.end_group();
  }

  const ExpertChart& chart_;
  std::size_t experts_, beside_;
  double width_, row_, height_;
  Picture picture_;
  std::vector<std::size_t> columns_;  // where each begins among the chart's, and the end
};

}  // namespace

std::string_view load_color(double load) {
  const double steps = load > 0 ? std::clamp(std::round(2 * std::log2(load)), -4.0, 4.0) : -4.0;
  return kLoadColors.at(static_cast<std::size_t>(steps + 4));
}

Picture expert_picture(const ExpertChart& chart) {
  if (chart.steps.empty() || chart.fields.empty()) return {1, 1};
  return ExpertDrawing(chart).draw();
}

}  // namespace weft::inspect
