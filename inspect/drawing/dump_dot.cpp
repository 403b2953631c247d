#include "inspect/drawing/dump_dot.h"

#include <fmt/format.h>

#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "base/text/escape.h"
#include "inspect/drawing/colors.h"

namespace weft::inspect {
namespace {

// Inside "…": Graphviz reads \n and friends in labels, and entities like &lt; everywhere.
// `line_end` is n for centred lines, l for lines that begin at the left.
std::string dot_string(std::string_view text, char line_end = 'n') {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += '\\';
        out += line_end;
        break;
      case '&':
        out += "&amp;";
        break;
      default:
        out += c;
    }
  }
  return out + "\"";
}

class DotWriter {
 public:
  explicit DotWriter(const Drawing& drawing) : drawing_(drawing) {}

  std::string text(const std::string& file_name) {
    const std::string stem = file_name.ends_with(".dot") ? file_name.substr(0, file_name.size() - 4) : file_name;
    append("// dot -Tsvg {} -o {}.svg\n", file_name, stem);
    append("digraph {} {{\n", dot_string(drawing_.options().title));
    append("  graph [rankdir=TB, nodesep=0.12, ranksep=0.22, compound=true, labelloc=t, labeljust=l, ");
    append("fontname=\"Helvetica\", fontsize=14, label={}]\n", dot_string(drawing_.caption(), 'l'));
    append("  node [shape=box, style=\"filled\", fontname=\"Helvetica\", fontsize=10, margin=\"0.08,0.04\", ");
    append("height=0.3, penwidth=1.5, color=\"#888888\"]\n");
    append("  edge [color=\"#555555\", arrowsize=0.6, fontname=\"Helvetica\", fontsize=9]\n");
    for (const OuterSection& section : drawing_.outer()) append_section(section);
    for (const Line& line : drawing_.lines()) append_line(line);
    append_legend();
    out_ += "}\n";
    return std::move(out_);
  }

 private:
  template <class... T>
  void append(fmt::format_string<T...> format, T&&... arguments) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<T>(arguments)...);
  }

  std::uint32_t number(std::size_t box) const { return drawing_.boxes()[box].tasks.front().value; }

  void append_section(const OuterSection& outer) {
    append("  subgraph {} {{\n", dot_string("cluster_" + outer.id));
    append("    graph [label={}, style=\"rounded,filled\", color=\"#bbbbbb\", fillcolor=\"#fafafa\"]\n",
           dot_string(outer.label));
    for (const InnerSection& inner : outer.inner) {
      if (inner.layer < 0) {
        for (const std::uint32_t box : inner.boxes) append_box(box, "    ");
        continue;
      }
      append("    subgraph {} {{\n", dot_string(fmt::format("cluster_{}_L{}", outer.id, inner.layer)));
      append("      graph [label={}, style=\"rounded,filled\", color=\"#dddddd\", fillcolor=\"#f0f0f0\"]\n",
             dot_string(inner.label));
      for (const std::uint32_t box : inner.boxes) append_box(box, "      ");
      append("    }}\n");
    }
    append("  }}\n");
  }

  void append_box(std::uint32_t index, std::string_view indent) {
    const Box& box = drawing_.boxes()[index];
    const KindStyle& style = drawing_.style(index);
    append("{}t{} [label={}, id={}, class={}, tooltip={}", indent, number(index), dot_string(drawing_.label(index)),
           dot_string(drawing_.id(index)), dot_string(drawing_.box_class(index)), dot_string(drawing_.tooltip(index)));
    append(", shape={}, fillcolor=\"{}\", fontcolor=\"{}\"", style.shape, style.fill, style.text);
    if (const auto stream = drawing_.stream(index)) append(", color={}, penwidth=3", dot_string(stream->color));
    if (box.critical) append(", peripheries=2");
    append("]\n");
    if (box.mark.empty()) return;
    append("{}m{} [label={}, shape=cds, fillcolor=\"{}\", fontcolor=\"#FFFFFF\", penwidth=0, margin=\"0.15,0.08\"]\n",
           indent, number(index), dot_string(box.mark), kMarkColor);
    append("{}{{ rank=same m{} t{} }}\n", indent, number(index), number(index));
    append("{}m{} -> t{} [color=\"{}\", penwidth=2]\n", indent, number(index), number(index), kMarkColor);
  }

  // The backward pass stands beside the forward pass, where the drawing is so small that Graphviz lays it out at once.
  bool beside(const Line& line) const {
    constexpr std::size_t kSmall = 150;
    const std::span<const Box> boxes = drawing_.boxes();
    const auto phase = [&](std::uint32_t box) { return drawing_.graph().task(boxes[box].tasks.front()).phase; };
    return boxes.size() <= kSmall && phase(line.from) == graph::Phase::forward &&
           phase(line.to) == graph::Phase::backward;
  }

  void append_line(const Line& line) {
    append("  t{} -> t{} [tooltip={}", number(line.from), number(line.to), dot_string(drawing_.tooltip(line)));
    if (const std::string_view dash = Drawing::dash(line); dash != "solid") append(", style={}", dash);
    if (line.critical) {
      append(", color=\"{}\", penwidth=3", kAlarmColor);
      if (line.repeats || beside(line)) append(", constraint=false");
    } else if (line.distance > 0) {
      append(", color=\"#bbbbbb\", constraint=false, label=\"next step\"");
    } else if (line.repeats) {
      append(", color=\"#aaaaaa\", constraint=false");
    } else {
      const auto from = drawing_.stream(line.from), to = drawing_.stream(line.to);
      if (from && to && from->name != to->name) append(", color={}, penwidth=1.5", dot_string(from->color));
      if (beside(line)) append(", constraint=false");
    }
    append("]\n");
  }

  // One node with a table: a node for each entry would be laid out with the rest.
  void append_legend() {
    if (drawing_.boxes().empty()) return;
    append("  subgraph cluster_legend {{\n    graph [label=\"legend\", style=rounded, color=\"#bbbbbb\"]\n");
    append("    legend [shape=plain, style=\"\", label=<<table border=\"0\" cellborder=\"0\" cellspacing=\"2\">");
    for (const graph::KindClass kind : drawing_.kinds()) {
      const KindStyle& style = style_of(kind);
      append("<tr><td bgcolor=\"{}\"><font color=\"{}\">{}</font></td></tr>", style.fill, style.text, style.name);
    }
    for (const auto& [name, color] : drawing_.streams()) {
      append("<tr><td border=\"3\" color=\"{}\">stream {}</td></tr>", xml_escaped(color), xml_escaped(name));
    }
    for (const std::string& entry : drawing_.line_legend()) append("<tr><td align=\"left\">{}</td></tr>", entry);
    if (drawing_.has_critical_path()) {
      append("<tr><td align=\"left\"><font color=\"{}\">red, double border: critical path</font></td></tr>",
             kAlarmColor);
    }
    append("</table>>]\n  }}\n");
  }

  const Drawing& drawing_;
  std::string out_;
};

}  // namespace

std::string dump_dot(const Drawing& drawing, const std::string& file_name) {
  return DotWriter(drawing).text(file_name);
}

}  // namespace weft::inspect
