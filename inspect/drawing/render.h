// DOT text and pictures to SVG and PNG through libgraphviz: the only file that knows its C interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "inspect/drawing/picture.h"

namespace weft::inspect {

/// `layers`: Graphviz's `dot`, which puts a node below those before it. `blocks`: its `osage`, which puts nodes and
/// clusters side by side in the order of the text, with straight lines, ten thousand nodes a second.
enum class GraphLayout : std::uint8_t { layers, blocks };

/// `dot` needs seconds for a few hundred nodes, minutes for a few thousand, and can't be stopped once it runs.
inline constexpr std::size_t kMaxRenderNodes = 1000;

/// Lays out and draws. Throws UserError if the text isn't valid DOT, has more than kMaxRenderNodes nodes for `layers`,
/// or Graphviz doesn't find its plugins. May be called from any thread; calls run one at a time, because Graphviz keeps
/// global state. The bytes depend on the installed version of Graphviz and on its fonts.
std::string render_svg(const std::string& dot, GraphLayout layout = GraphLayout::layers);

/// The same as an image, two dots a point, fewer where that would be more than kMaxImageSide on a side.
std::string render_png(const std::string& dot, GraphLayout layout = GraphLayout::layers);
std::string render_png(const Picture& picture);
inline constexpr double kMaxImageSide = 12000;

}  // namespace weft::inspect
