// The one table of colours: what a kind of task looks like in every drawing, timeline and report.
// Fills are the palette of Okabe and Ito ("Color Universal Design", 2008), and one of Tol's ("Colour Schemes", 2021),
// which colour-blind readers can tell apart.
#pragma once

#include <array>
#include <string_view>

#include "graph/operation.h"

namespace weft::inspect {

struct KindStyle {
  graph::KindClass kind;
  std::string_view name;   // as the legend writes it
  std::string_view fill;   // #rrggbb
  std::string_view text;   // a colour that can be read on the fill
  std::string_view shape;  // of a Graphviz node: collectives have plugs at their side
};

inline constexpr std::array<KindStyle, 10> kKindStyles = {{
    {graph::KindClass::gemm, "GEMM", "#56B4E9", "#000000", "box"},
    {graph::KindClass::attention, "attention", "#0072B2", "#FFFFFF", "box"},
    {graph::KindClass::elementwise, "elementwise", "#009E73", "#FFFFFF", "box"},
    {graph::KindClass::all_gather, "all-gather", "#F0E442", "#000000", "component"},
    {graph::KindClass::reduce_scatter, "reduce-scatter", "#E69F00", "#000000", "component"},
    {graph::KindClass::all_reduce, "all-reduce", "#D55E00", "#FFFFFF", "component"},
    {graph::KindClass::exchange, "all-to-all, row exchange", "#882255", "#FFFFFF", "component"},
    {graph::KindClass::copy, "copy, broadcast", "#CC79A7", "#000000", "box"},
    {graph::KindClass::optimizer, "optimizer", "#999999", "#000000", "box"},
    {graph::KindClass::host, "host", "#5E5E5E", "#FFFFFF", "box"},
}};

inline const KindStyle& style_of(graph::KindClass kind) {
  return kKindStyles[static_cast<std::size_t>(kind)];
}
inline const KindStyle& style_of(const graph::Operation& operation) {
  return style_of(graph::kind_class(operation));
}

/// Exposed communication, and the critical path of a graph.
inline constexpr std::string_view kAlarmColor = "#CC0000";
/// The critical path of a timeline, which shows exposed communication too.
inline constexpr std::string_view kPathColor = "#111111";
/// Marks that a reader should find: where memory peaks, a lower bound.
inline constexpr std::string_view kMarkColor = "#6A1B9A";

/// A border colour for the i-th stream of a rank; repeats after eight. None is red: that is the critical path.
constexpr std::string_view stream_color(std::size_t index) {
  constexpr std::array<std::string_view, 8> kColors = {"#222222", "#7B3294", "#2166AC", "#01665E",
                                                       "#8C510A", "#7A7A00", "#C51B7D", "#4D9221"};
  return kColors[index % kColors.size()];
}

}  // namespace weft::inspect
