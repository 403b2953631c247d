#include "inspect/drawing/colors.h"

namespace weft::inspect {

std::string_view stream_color(std::size_t index) {
  // None is red: that is the critical path.
  static constexpr std::array<std::string_view, 8> kColors = {"#222222", "#7B3294", "#2166AC", "#01665E",
                                                              "#8C510A", "#7A7A00", "#C51B7D", "#4D9221"};
  return kColors[index % kColors.size()];
}

}  // namespace weft::inspect
