#include "inspect/drawing/dump_dot.h"

#include <fmt/format.h>

#include <span>
#include <string_view>
#include <utility>

#include "base/text/escape.h"
#include "base/text/text_writer.h"
#include "inspect/drawing/colors.h"

namespace weft::inspect {
namespace {

// Inside "…": Graphviz reads \n and friends in labels, and entities like &lt; everywhere.
// `line_end` is n for centred lines, l for lines that begin at the left.
std::string dot_string(std::string_view text, char line_end = 'n') {
  std::string out = "\"";
  for (const char c : xml_characters(text)) {
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
    out_.put("// dot -Tsvg {} -o {}.svg\n", file_name, stem);
    out_.put("digraph {} {{\n", dot_string(drawing_.options().title));
    out_.put("  graph [rankdir=TB, nodesep=0.12, ranksep=0.22, compound=true, labelloc=t, labeljust=l, ");
    out_.put("fontname=\"Helvetica\", fontsize=14, label={}]\n", dot_string(drawing_.caption(), 'l'));
    out_.put("  node [shape=box, style=\"filled\", fontname=\"Helvetica\", fontsize=10, margin=\"0.08,0.04\", ");
    out_.put("height=0.3, penwidth=1.5, color=\"#888888\"]\n");
    out_.put("  edge [color=\"#555555\", arrowsize=0.6, fontname=\"Helvetica\", fontsize=9]\n");
    for (const OuterSection& section : drawing_.outer()) append_section(section);
    for (const Line& line : drawing_.lines()) append_line(line);
    append_legend();
    out_.add("}\n");
    return std::move(out_).text();
  }

 private:
  std::uint32_t number(std::size_t box) const { return drawing_.boxes()[box].tasks.front().value; }

  void append_section(const OuterSection& outer) {
    out_.put("  subgraph {} {{\n", dot_string("cluster_" + outer.id));
    out_.put("    graph [label={}, style=\"rounded,filled\", color=\"#bbbbbb\", fillcolor=\"#fafafa\"]\n",
             dot_string(outer.label));
    for (const InnerSection& inner : outer.inner) {
      if (inner.layer < 0) {
        for (const std::uint32_t box : inner.boxes) append_box(box, "    ");
        continue;
      }
      out_.put("    subgraph {} {{\n", dot_string(fmt::format("cluster_{}_L{}", outer.id, inner.layer)));
      out_.put("      graph [label={}, style=\"rounded,filled\", color=\"#dddddd\", fillcolor=\"#f0f0f0\"]\n",
               dot_string(inner.label));
      for (const std::uint32_t box : inner.boxes) append_box(box, "      ");
      out_.put("    }}\n");
    }
    out_.put("  }}\n");
  }

  void append_box(std::uint32_t index, std::string_view indent) {
    const Box& box = drawing_.boxes()[index];
    const KindStyle& style = drawing_.style(index);
    out_.put("{}t{} [label={}, id={}, class={}, tooltip={}", indent, number(index), dot_string(drawing_.label(index)),
             dot_string(drawing_.id(index)), dot_string(drawing_.box_class(index)),
             dot_string(drawing_.tooltip(index)));
    out_.put(", shape={}, fillcolor=\"{}\", fontcolor=\"{}\"", style.shape, style.fill, style.text);
    if (const auto stream = drawing_.stream(index)) out_.put(", color={}, penwidth=3", dot_string(stream->color));
    if (box.critical) out_.put(", peripheries=2");
    out_.put("]\n");
    if (box.mark.empty()) return;
    out_.put("{}m{} [label={}, shape=cds, fillcolor=\"{}\", fontcolor=\"#FFFFFF\", penwidth=0, margin=\"0.15,0.08\"]\n",
             indent, number(index), dot_string(box.mark), kMarkColor);
    out_.put("{}{{ rank=same m{} t{} }}\n", indent, number(index), number(index));
    out_.put("{}m{} -> t{} [color=\"{}\", penwidth=2]\n", indent, number(index), number(index), kMarkColor);
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
    out_.put("  t{} -> t{} [tooltip={}", number(line.from), number(line.to), dot_string(drawing_.tooltip(line)));
    if (const std::string_view dash = Drawing::dash(line); dash != "solid") out_.put(", style={}", dash);
    if (line.critical) {
      out_.put(", color=\"{}\", penwidth=3", kAlarmColor);
      if (line.repeats || beside(line)) out_.put(", constraint=false");
    } else if (line.distance > 0) {
      out_.put(", color=\"#bbbbbb\", constraint=false, label=\"next step\"");
    } else if (line.repeats) {
      out_.put(", color=\"#aaaaaa\", constraint=false");
    } else {
      const auto from = drawing_.stream(line.from), to = drawing_.stream(line.to);
      if (from && to && from->name != to->name) out_.put(", color={}, penwidth=1.5", dot_string(from->color));
      if (beside(line)) out_.put(", constraint=false");
    }
    out_.put("]\n");
  }

  // One node with a table: a node for each entry would be laid out with the rest.
  void append_legend() {
    if (drawing_.boxes().empty()) return;
    out_.put("  subgraph cluster_legend {{\n    graph [label=\"legend\", style=rounded, color=\"#bbbbbb\"]\n");
    out_.put("    legend [shape=plain, style=\"\", label=<<table border=\"0\" cellborder=\"0\" cellspacing=\"2\">");
    for (const graph::KindClass kind : drawing_.kinds()) {
      const KindStyle& style = style_of(kind);
      out_.put("<tr><td bgcolor=\"{}\"><font color=\"{}\">{}</font></td></tr>", style.fill, style.text, style.name);
    }
    for (const auto& [name, color] : drawing_.streams()) {
      out_.put("<tr><td border=\"3\" color=\"{}\">stream {}</td></tr>", xml_escaped(color), xml_escaped(name));
    }
    for (const std::string& entry : drawing_.line_legend()) out_.put("<tr><td align=\"left\">{}</td></tr>", entry);
    if (drawing_.has_critical_path()) {
      out_.put("<tr><td align=\"left\"><font color=\"{}\">red, double border: critical path</font></td></tr>",
               kAlarmColor);
    }
    out_.put("</table>>]\n  }}\n");
  }

  const Drawing& drawing_;
  TextWriter out_;
};

}  // namespace

std::string dump_dot(const Drawing& drawing, const std::string& file_name) {
  return DotWriter(drawing).text(file_name);
}

}  // namespace weft::inspect
