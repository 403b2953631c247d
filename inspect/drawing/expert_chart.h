// How evenly tokens went to experts, as a picture: a field for each layer, a row for each expert, over steps.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "inspect/drawing/picture.h"

namespace weft::inspect {

struct ExpertField {
  std::int64_t layer = 0;
  std::vector<std::vector<double>> loads = {};  // by column, then expert: its tokens as a multiple of the mean
};

/// The last steps of the columns, and all layers with as many experts.
struct ExpertChart {
  std::vector<std::int64_t> steps = {};
  std::vector<ExpertField> fields = {};
};

/// The colour of a multiple of the mean: grey for the mean, blue for fewer tokens, red for more; all from a quarter
/// down, and from four times up, have one colour.
std::string_view load_color(double load);

/// Neighbouring columns become one where there are more than a picture can tell apart; it has their mean.
Picture expert_picture(const ExpertChart& chart);

}  // namespace weft::inspect
