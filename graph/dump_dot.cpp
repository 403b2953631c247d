#include "graph/dump_dot.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/analysis.h"
#include "graph/colors.h"
#include "graph/groups.h"
#include "graph/operation_fields.h"
#include "graph/text.h"

namespace weft {
namespace {

// Inside "…": Graphviz reads \n and friends in labels, and entities like &lt; everywhere.
// `line_end` is n for centred lines, l for lines that begin at the left.
std::string quoted(std::string_view text, char line_end = 'n') {
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

std::string shape_of(const Graph& graph, const Task& task, const DotOptions& options) {
  if (const auto* gemm = std::get_if<Gemm>(&task.operation)) {
    return fmt::format("{}×{}×{}", gemm->m, gemm->n, gemm->k);
  }
  if (const Channel* channel = channel_of(task.operation)) {
    const View& view = task.accesses.empty() ? View{} : task.accesses[0].view;
    const double bytes = view.tensor.valid() ? static_cast<double>(view.elements()) *
                                                   static_cast<double>(size_of(graph.tensor(view.tensor).dtype))
                                             : 0;
    // Wider boxes than this would pull the drawing apart; the tooltip has more.
    constexpr std::size_t kMostRanks = 4;
    const std::string group =
        options.grid ? fmt::format(" ({})", ranks_text(group_ranks(*options.grid, *channel, options.rank), kMostRanks))
                     : "";
    return fmt::format("over {}{}, {}", to_string(*channel), group, format_bytes(bytes));
  }
  // The largest operand says most: a sum of squares is as long as what it sums.
  const View* largest = nullptr;
  for (const Access& access : task.accesses) {
    if (largest == nullptr || access.view.elements() > largest->elements()) largest = &access.view;
  }
  if (largest == nullptr) return "";
  return largest->rows == 1 ? fmt::format("{}", largest->cols) : fmt::format("{}×{}", largest->rows, largest->cols);
}

// The name without what its clusters already say: mb0.L3.mlp.up.bwd.gemm_dw is mlp.up.gemm_dw there.
std::string short_name(const Task& task) {
  std::string name = "." + task.name;
  for (const std::string& part : {fmt::format(".mb{}.", task.micro_batch), fmt::format(".L{}.", task.layer),
                                  std::string(task.phase == Phase::forward ? ".fwd." : ".bwd.")}) {
    if (const std::size_t at = name.find(part); at != std::string::npos) name.erase(at, part.size() - 1);
  }
  return name.substr(1);
}

/// A box of the drawing: one task, or what repeated layers have in common.
struct Node {
  std::vector<TaskId> tasks;
  std::set<std::int32_t> layers, micro_batches;
  bool merged = false;
  bool one_kind = false;  // of the tasks of a merged node
};

struct Line {
  std::uint32_t from, to;
  EdgeStrength strength;
  EdgeReason reason;
  std::uint8_t distance;
  TensorId tensor;
  std::size_t count = 1;
  bool critical = false;
};

class Drawing {
 public:
  Drawing(const Graph& graph, const DotOptions& options) : graph_(graph), options_(options) {
    for (std::size_t i = 0; i + 1 < options.critical_path.size(); ++i) {
      critical_edges_.emplace(options.critical_path[i], options.critical_path[i + 1]);
    }
    critical_.insert(options.critical_path.begin(), options.critical_path.end());
    choose_nodes();
    choose_lines();
  }

  std::string text() {
    out_ = fmt::format("// dot -Tsvg {} -o {}\n", options_.file_name, svg_name());
    append("digraph {} {{\n", quoted(options_.title));
    append("  graph [rankdir=TB, nodesep=0.15, ranksep=0.3, compound=true, labelloc=t, labeljust=l, ");
    append("fontname=\"Helvetica\", fontsize=14, label={}]\n", quoted(caption(), 'l'));
    append("  node [shape=box, style=\"filled\", fontname=\"Helvetica\", fontsize=10, margin=\"0.08,0.04\", ");
    append("height=0.3, penwidth=1.5, color=\"#888888\"]\n");
    append("  edge [color=\"#555555\", arrowsize=0.6, fontname=\"Helvetica\", fontsize=9]\n");
    append_clusters();
    for (const Line& line : lines_) append_line(line);
    append_legend();
    out_ += "}\n";
    return std::move(out_);
  }

 private:
  template <class... T>
  void append(fmt::format_string<T...> format, T&&... arguments) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<T>(arguments)...);
  }

  std::string svg_name() const {
    const std::string& name = options_.file_name;
    return (name.ends_with(".dot") ? name.substr(0, name.size() - 4) : name) + ".svg";
  }

  void choose_nodes() {
    std::int32_t layers = 0;
    for (const Task& task : graph_.tasks()) layers = std::max(layers, task.layer + 1);
    const bool many = layers > 2 || graph_.tasks().size() > options_.max_nodes;
    const bool collapse = options_.collapse_layers.value_or(many) && layers > 1;
    group_nodes(collapse, false);
    if (options_.collapse_layers.value_or(many) && nodes_.size() > options_.max_nodes) group_nodes(collapse, true);
  }

  void group_nodes(bool merge_layers, bool merge_micro_batches) {
    nodes_.clear();
    node_of_.clear();
    // The update has a task of each kind a parameter, in a layer or not: one box a kind says it all. Kept apart by
    // kind, they come before and after the clip factor instead of forming a cycle with it.
    std::map<std::tuple<std::int32_t, Phase, bool, std::string_view>, std::uint32_t> merged;
    for (std::size_t i = 0; i < graph_.tasks().size(); ++i) {
      const Task& task = graph_.tasks()[i];
      const bool one_kind = task.phase == Phase::update;
      const bool by_layer = merge_layers && (task.layer > 0 || one_kind);
      const bool by_micro_batch = merge_micro_batches && task.micro_batch > 0;
      auto node = static_cast<std::uint32_t>(nodes_.size());
      if (by_layer || by_micro_batch) {
        const std::tuple key(std::min(task.micro_batch, by_micro_batch ? 1 : task.micro_batch), task.phase,
                             by_layer && !by_micro_batch, one_kind ? kind_name(task.operation) : "");
        node = merged.emplace(key, node).first->second;
        if (node == nodes_.size()) {
          nodes_.emplace_back();
          nodes_.back().merged = true;
          nodes_.back().one_kind = one_kind;
        }
      } else {
        nodes_.emplace_back();
      }
      nodes_[node].tasks.push_back(TaskId(i));
      nodes_[node].layers.insert(task.layer);
      nodes_[node].micro_batches.insert(task.micro_batch);
      node_of_.push_back(node);
    }
    for (Node& node : nodes_) node.merged = node.tasks.size() > 1;
  }

  void choose_lines() {
    std::vector<Edge> edges(graph_.edges().begin(), graph_.edges().end());
    edges.insert(edges.end(), options_.added_edges.begin(), options_.added_edges.end());
    const std::vector<bool> implied = implied_edges(graph_.tasks().size(), edges);
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint8_t>, std::size_t> known;
    for (std::size_t i = 0; i < edges.size(); ++i) {
      const Edge& edge = edges[i];
      if (edge.distance > 0 && !options_.next_step_edges) {
        ++next_step_;
        continue;
      }
      const bool critical = edge.distance == 0 && critical_edges_.contains({edge.from, edge.to});
      if (options_.reduce && implied[i] && !critical) {
        if (!save(edge)) ++implied_;
        continue;
      }
      const Line line{node_of_[edge.from.index()],
                      node_of_[edge.to.index()],
                      strength_of(edge),
                      edge.reason,
                      edge.distance,
                      edge.tensor,
                      1,
                      critical};
      if (line.from == line.to && nodes_[line.from].merged) continue;
      const auto [position, added] = known.emplace(std::tuple(line.from, line.to, line.distance), lines_.size());
      if (added) {
        lines_.push_back(line);
        continue;
      }
      Line& first = lines_[position->second];
      const Line before = first;
      if (line.strength > first.strength) first = line;
      first.count = before.count + 1;
      first.critical = before.critical || critical;
    }
    if (options_.reduce) reduce_merged();
    std::size_t number = 0;
    for (auto& saver : savers_) saver.second = ++number;
  }

  // Merging tasks makes new paths, so that more lines become implied; if it makes a cycle, all of them stay.
  void reduce_merged() {
    std::vector<Edge> edges;
    for (const Line& line : lines_) {
      const EdgeKind kind = line.strength == EdgeStrength::order ? EdgeKind::issued_before : EdgeKind::completes_before;
      edges.push_back({TaskId(line.from), TaskId(line.to), kind, line.reason, line.distance, line.tensor});
    }
    if (!acyclic(nodes_.size(), edges)) return;
    const std::vector<bool> implied = implied_edges(nodes_.size(), edges);
    std::vector<Line> kept;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      if (implied[i] && !lines_[i].critical) {
        implied_ += lines_[i].count;
      } else {
        kept.push_back(lines_[i]);
      }
    }
    lines_ = std::move(kept);
  }

  // Data kept from the forward to the backward pass: numbers instead of an edge. False if it is something else.
  bool save(const Edge& edge) {
    if (strength_of(edge) != EdgeStrength::data || graph_.task(edge.from).phase != Phase::forward ||
        graph_.task(edge.to).phase != Phase::backward) {
      return false;
    }
    ++saved_;
    savers_.emplace(node_of_[edge.from.index()], 0);
    uses_[node_of_[edge.to.index()]].insert(node_of_[edge.from.index()]);
    return true;
  }

  std::string caption() const {
    std::string text = options_.title;
    text += fmt::format("\n{} tasks in {} boxes, {} edges", graph_.tasks().size(), nodes_.size(),
                        graph_.edges().size() + options_.added_edges.size());
    if (implied_ > 0) text += fmt::format("; {} not drawn because others imply them", implied_);
    if (saved_ > 0) text += fmt::format("; {} from saved activations drawn as numbers", saved_);
    if (next_step_ > 0) text += fmt::format("; {} to the next step not drawn", next_step_);
    text += '\n';
    return text;
  }

  // Outer clusters: micro-batch and phase. Inner ones: layer. Both in the order of their first task.
  void append_clusters() {
    using Outer = std::pair<std::int32_t, Phase>;
    std::vector<Outer> outer_order;
    std::map<Outer, std::vector<std::uint32_t>> members;
    std::int32_t last_micro_batch = 0;
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      const Task& task = graph_.task(nodes_[i].tasks.front());
      last_micro_batch = std::max(last_micro_batch, *nodes_[i].micro_batches.rbegin());
      const Outer key(task.micro_batch, task.phase);
      if (members[key].empty()) outer_order.push_back(key);
      members[key].push_back(i);
    }
    for (const Outer& key : outer_order) {
      const std::vector<std::uint32_t>& nodes = members[key];
      const auto [micro_batch, phase] = key;
      std::string label(to_string(phase));
      const std::int32_t last = *nodes_[nodes.back()].micro_batches.rbegin();
      if (last_micro_batch > 0 && last > micro_batch) {
        label = fmt::format("micro-batches {} to {}, {}", micro_batch, last, label);
      } else if (last_micro_batch > 0 && micro_batch >= 0) {
        label = fmt::format("micro-batch {}, {}", micro_batch, label);
      }
      append("  subgraph {} {{\n", quoted(fmt::format("cluster_mb{}_{}", micro_batch, to_string(phase))));
      append("    graph [label={}, style=\"rounded,filled\", color=\"#bbbbbb\", fillcolor=\"#fafafa\"]\n",
             quoted(label));
      std::vector<std::int32_t> layers;
      for (const std::uint32_t node : nodes) {
        const std::int32_t layer = graph_.task(nodes_[node].tasks.front()).layer;
        if (nodes_[node].merged || layer < 0) {
          append_node(node, "    ");
        } else if (std::find(layers.begin(), layers.end(), layer) == layers.end()) {
          layers.push_back(layer);
        }
      }
      for (const std::int32_t layer : layers) {
        append("    subgraph {} {{\n",
               quoted(fmt::format("cluster_mb{}_{}_L{}", micro_batch, to_string(phase), layer)));
        append("      graph [label=\"layer {}\", style=\"rounded,filled\", color=\"#dddddd\", ", layer);
        append("fillcolor=\"#f0f0f0\"]\n");
        for (const std::uint32_t node : nodes) {
          if (!nodes_[node].merged && graph_.task(nodes_[node].tasks.front()).layer == layer) {
            append_node(node, "      ");
          }
        }
        append("    }}\n");
      }
      append("  }}\n");
    }
  }

  std::string numbers_of(std::uint32_t node) const {
    std::string text;
    if (const auto saver = savers_.find(node); saver != savers_.end()) text += fmt::format("\nsaves {}", saver->second);
    if (const auto uses = uses_.find(node); uses != uses_.end()) {
      text += text.empty() ? "\nuses" : ", uses";
      for (const std::uint32_t saver : uses->second) text += fmt::format(" {}", savers_.at(saver));
    }
    return text;
  }

  void append_node(std::uint32_t index, std::string_view indent) {
    const Node& node = nodes_[index];
    if (node.merged) {
      append_merged(index, indent);
      return;
    }
    const Task& task = graph_.task(node.tasks.front());
    const KindStyle& style = style_of(task.operation);
    const std::string name = short_name(task);
    const std::string_view kind = kind_name(task.operation);
    const std::string label = fmt::format("{}\n{}{}{}", name, name.ends_with(kind) ? "" : std::string(kind) + " ",
                                          shape_of(graph_, task, options_), numbers_of(index));
    append("{}t{} [label={}, id={}, class={}, tooltip={}, shape={}, fillcolor=\"{}\", fontcolor=\"{}\"", indent,
           node.tasks.front().value, quoted(label), quoted(task.name), quoted(kind_name(task.operation)),
           quoted(tooltip(node.tasks.front())), style.shape, style.fill, style.text);
    if (options_.stream_of) {
      const StreamStyle stream = options_.stream_of(node.tasks.front());
      streams_.emplace(stream.name, stream.color);
      append(", color={}, penwidth=2.5", quoted(stream.color));
    }
    if (critical_.contains(node.tasks.front())) append(", peripheries=2");
    append("]\n");
  }

  void append_merged(std::uint32_t index, std::string_view indent) {
    const Node& node = nodes_[index];
    const Task& first = graph_.task(node.tasks.front());
    Work work;
    std::map<std::string_view, std::size_t> kinds;
    for (const TaskId id : node.tasks) {
      const Work one = work_of(graph_, graph_.task(id));
      work.flops += one.flops;
      work.bytes += one.bytes;
      ++kinds[kind_name(graph_.task(id).operation)];
    }
    std::string tip = fmt::format("{}, {}", format_flops(work.flops), format_bytes(work.bytes));
    for (const auto& [kind, count] : kinds) tip += fmt::format("\n{} × {}", count, kind);
    const std::string what =
        node.one_kind
            ? fmt::format("{} × {}\n{}", node.tasks.size(), kind_name(first.operation), format_flops(work.flops))
            : fmt::format("{}\n{} tasks, {}", layers_of(node), node.tasks.size(), format_flops(work.flops));
    const std::string_view fill = node.one_kind ? style_of(first.operation).fill : "#ffffff";
    append(
        "{}t{} [label={}, id={}, class=\"merged\", tooltip={}, shape=box3d, fillcolor=\"{}\", fontsize=12, "
        "margin=\"0.2,0.12\"]\n",
        indent, node.tasks.front().value, quoted(what + numbers_of(index)),
        quoted(fmt::format("merged:{}", first.name)), quoted(tip), fill);
  }

  static std::string layers_of(const Node& node) {
    std::set<std::int32_t> layers = node.layers;
    layers.erase(-1);
    if (layers.empty()) return "outside of layers";
    if (layers.size() == 1) return fmt::format("layer {}", *layers.begin());
    return fmt::format("layers {} to {}, × {}", *layers.begin(), *layers.rbegin(), layers.size());
  }

  std::string tooltip(TaskId id) const {
    const Task& task = graph_.task(id);
    const Work work = work_of(graph_, task);
    std::string tip = fmt::format("{}\n{}", task.name, kind_name(task.operation));
    for_each_field(task.operation, [&](std::string_view name, auto value) {
      if constexpr (std::is_enum_v<decltype(value)>) {
        tip += fmt::format(" {}={}", name, to_string(value));
      } else {
        tip += fmt::format(" {}={}", name, value);
      }
    });
    tip += fmt::format("\n{}, {}", format_flops(work.flops), format_bytes(work.bytes));
    if (work.network_bytes > 0) tip += fmt::format(", sends {}", format_bytes(work.network_bytes));
    if (const Channel* channel = channel_of(task.operation); channel != nullptr && options_.grid) {
      constexpr std::size_t kMostRanks = 32;
      const auto ranks = group_ranks(*options_.grid, *channel, options_.rank);
      const auto groups = options_.grid->ranks() / static_cast<std::int64_t>(ranks.size());
      tip += fmt::format("\n{} group of {}", to_string(*channel), ranks_text(ranks, kMostRanks));
      if (groups > 1) tip += fmt::format(", one of {}", groups);
    }
    for (const Access& access : task.accesses) {
      const Tensor& tensor = graph_.tensor(access.view.tensor);
      const std::string_view verb = access.mode == AccessMode::read    ? "reads"
                                    : access.mode == AccessMode::write ? "writes"
                                                                       : "updates";
      tip += fmt::format("\n{} {} {}×{} {}", verb, tensor.name, access.view.rows, access.view.cols,
                         to_string(tensor.dtype));
    }
    if (options_.stream_of) tip += fmt::format("\non {}", options_.stream_of(id).name);
    if (options_.note) {
      if (const std::string note = options_.note(id); !note.empty()) tip += "\n" + note;
    }
    return tip;
  }

  std::string_view line_style(const Line& line) const {
    if (line.strength == EdgeStrength::order || line.reason == EdgeReason::policy) return "dotted";
    return line.strength == EdgeStrength::data ? "solid" : "dashed";
  }

  void append_line(const Line& line) {
    const TaskId from = nodes_[line.from].tasks.front(), to = nodes_[line.to].tasks.front();
    const std::string_view style = line_style(line);
    styles_.insert(style);
    append("  t{} -> t{} [tooltip={}", from.value, to.value,
           quoted(fmt::format("{}{}{}", to_string(line.reason),
                              line.tensor.valid() ? " of " + graph_.tensor(line.tensor).name : "",
                              line.count > 1 ? fmt::format(" and {} more", line.count - 1) : "")));
    if (style != "solid") append(", style={}", style);
    if (line.critical) {
      append(", color=\"{}\", penwidth=3", kAlarmColor);
    } else if (line.distance > 0) {
      append(", color=\"#bbbbbb\", constraint=false, label=\"next step\"");
    } else if (options_.stream_of && !nodes_[line.from].merged && !nodes_[line.to].merged) {
      const StreamStyle stream = options_.stream_of(from);
      if (stream.name != options_.stream_of(to).name) append(", color={}, penwidth=1.5", quoted(stream.color));
    }
    append("]\n");
  }

  // One node with a table: a node for each entry would be laid out with the rest.
  void append_legend() {
    std::set<KindClass> kinds;
    for (const Node& node : nodes_) {
      if (!node.merged || node.one_kind) kinds.insert(kind_class(graph_.task(node.tasks.front()).operation));
    }
    if (kinds.empty()) return;
    append("  subgraph cluster_legend {{\n    graph [label=\"legend\", style=rounded, color=\"#bbbbbb\"]\n");
    append("    legend [shape=plain, style=\"\", label=<<table border=\"0\" cellborder=\"0\" cellspacing=\"2\">");
    for (const KindClass kind : kinds) {
      const KindStyle& style = style_of(kind);
      append("<tr><td bgcolor=\"{}\"><font color=\"{}\">{}</font></td></tr>", style.fill, style.text, style.name);
    }
    for (const auto& [name, color] : streams_) {
      append("<tr><td border=\"2\" color=\"{}\">stream {}</td></tr>", xml_escaped(color), xml_escaped(name));
    }
    const auto entry = [&](std::string_view text) { append("<tr><td align=\"left\">{}</td></tr>", text); };
    if (styles_.contains("solid")) entry("solid: data");
    if (styles_.contains("dashed")) entry("dashed: bytes written again");
    if (styles_.contains("dotted")) entry("dotted: order only");
    if (!streams_.empty()) entry("coloured: between streams");
    if (!critical_.empty())
      append("<tr><td align=\"left\"><font color=\"{}\">red: critical path</font></td></tr>", kAlarmColor);
    if (saved_ > 0) entry("saves n, uses n: kept for backward");
    append("</table>>]\n  }}\n");
  }

  const Graph& graph_;
  const DotOptions& options_;
  std::set<std::pair<TaskId, TaskId>> critical_edges_;
  std::set<TaskId> critical_;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> node_of_;  // by task
  std::vector<Line> lines_;
  std::map<std::uint32_t, std::size_t> savers_;            // node → its number, in program order
  std::map<std::uint32_t, std::set<std::uint32_t>> uses_;  // node → savers
  std::size_t implied_ = 0, saved_ = 0, next_step_ = 0;
  std::map<std::string, std::string> streams_;  // drawn: name → colour
  std::set<std::string_view> styles_;           // of edges drawn
  std::string out_;
};

}  // namespace

std::string dump_dot(const Graph& graph, const DotOptions& options) {
  return Drawing(graph, options).text();
}

}  // namespace weft
