// An SVG picture as an HTML page that can be zoomed and dragged.
#pragma once

#include <string>

namespace weft::inspect {

/// One file that loads nothing, by its own content security policy. Wheel, keys and dragging move the picture, and a
/// click pins a box's tooltip; without script the picture stands there as it is. `svg` is a whole SVG document.
std::string picture_page(const std::string& title, const std::string& svg);

}  // namespace weft::inspect
