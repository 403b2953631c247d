// The content of a drawing of a graph, whatever its format: boxes in nested sections, the lines between them, a caption
// and a legend. dump_dot.h writes it for Graphviz.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/analysis.h"
#include "graph/graph.h"
#include "graph/grid.h"
#include "inspect/drawing/colors.h"

namespace weft::inspect {

/// How a task's stream looks: graph/ doesn't know plans.
struct StreamStyle {
  std::string name;
  std::string color;  // "#rrggbb"
};

/// Which repetitions are drawn once for all.
enum class Collapse : std::uint8_t {
  automatic,  // layers if there are more than two or too many boxes; phases if that leaves too many
  none,
  layer,  // the tasks of equal name and shape of all layers: "× 4"
  phase   // the tasks of all micro-batches too
};

/// A box that a reader must find: "memory peaks here".
struct DrawingMark {
  graph::TaskId task;
  std::string text;
};

struct DrawingOptions {
  std::string title = {};                 // the first line of the caption
  std::vector<std::string> remarks = {};  // its last lines

  /// The border of a task. Without it all borders are grey.
  std::function<StreamStyle(graph::TaskId)> stream_of = {};
  /// A line more in a task's tooltip ("starts at 1.2 ms, slack 0.3 ms").
  std::function<std::string(graph::TaskId)> note = {};
  /// A line more in a box, of the tasks that it stands for ("0.2 ms beside mlp.up.gemm").
  std::function<std::string(std::span<const graph::TaskId>)> box_note = {};
  /// Edges beyond the graph's own: a policy's, a memory planner's.
  std::span<const graph::Edge> added_edges = {};
  /// Drawn thick and red.
  std::span<const graph::TaskId> critical_path = {};
  std::vector<DrawingMark> marks = {};

  /// How ranks are arranged, where that is known: collectives then name the ranks that `rank` joins in them.
  std::optional<graph::Grid> grid = {};
  std::int64_t rank = 0;

  /// Draw these tasks alone, in rising order.
  std::optional<std::vector<graph::TaskId>> only = {};
  /// Leave out edges that a path of others implies (implied_edges in graph/analysis.h). Data that forward tasks save
  /// for backward ones becomes numbers in the labels ("saves 3" … "uses 3") where it is implied: drawn, these long
  /// edges would hide everything else.
  bool reduce = true;
  /// Edges to the next step, in grey.
  bool next_step_edges = false;
  Collapse collapse = Collapse::automatic;
  /// More boxes than this are too many for Collapse::automatic.
  std::size_t max_boxes = 600;
};

/// One task, or the same task of several layers or micro-batches.
struct Box {
  std::vector<graph::TaskId> tasks;  // in program order; the first one gives the box its id
  std::set<std::int32_t> layers, micro_batches;
  std::uint32_t outer = 0, inner = 0;  // indices into Drawing::outer and OuterSection::inner, which begins with
                                       // the tasks outside of layers
  bool critical = false;
  std::string mark = {};
};

/// A line between two boxes stands for one edge or several.
struct Line {
  std::uint32_t from = 0, to = 0;  // boxes
  graph::EdgeStrength strength = graph::EdgeStrength::data;
  graph::EdgeReason reason = graph::EdgeReason::read_after_write;
  std::uint8_t distance = 0;
  graph::TensorId tensor = {};
  std::size_t count = 1;
  bool critical = false;
  bool repeats = false;  // to the next layer or micro-batch, which is drawn as the same boxes
};

struct InnerSection {
  std::int32_t layer = -1;  // -1: outside of layers
  std::string label;
  std::set<std::int32_t> layers;  // that its boxes stand for
  std::vector<std::uint32_t> boxes;
};

/// A phase of a micro-batch.
struct OuterSection {
  std::string id, label;
  std::set<std::int32_t> micro_batches;  // that its boxes stand for
  std::vector<InnerSection> inner;
};

/// The name without the parts that its sections say already: mb0.L3.mlp.up.bwd.gemm_dw is mlp.up.gemm_dw there.
std::string short_name(const graph::Task& task);

/// "680 edges and 1 that the plan adds", for its order or because memory is used again.
std::string edges_text(std::size_t of_graph, std::size_t added);

/// Equal graphs and options make equal drawings. `graph` and `options` must outlive it.
class Drawing {
 public:
  Drawing(const graph::Graph& graph, const DrawingOptions& options);

  const graph::Graph& graph() const { return graph_; }
  const DrawingOptions& options() const { return options_; }
  std::span<const Box> boxes() const { return boxes_; }
  std::span<const Line> lines() const { return lines_; }
  std::span<const OuterSection> outer() const { return outer_; }

  /// Lines of text for people. The caption counts what isn't drawn.
  std::string caption() const;
  std::string label(std::size_t box) const;
  std::string tooltip(std::size_t box) const;
  std::string tooltip(const Line& line) const;
  /// The name of the box's first task: unique in the drawing.
  const std::string& id(std::size_t box) const;
  /// "gemm": for style sheets and scripts.
  std::string box_class(std::size_t box) const;
  const KindStyle& style(std::size_t box) const;
  /// Of the box's tasks if they share one.
  std::optional<StreamStyle> stream(std::size_t box) const;
  /// "solid" data, "dashed" bytes written again, "dotted" order only.
  static std::string_view dash(const Line& line);

  /// The entries of the legend, in its order.
  std::vector<graph::KindClass> kinds() const;
  std::map<std::string, std::string> streams() const;  // name → colour
  std::vector<std::string> line_legend() const;        // of the lines drawn
  bool has_critical_path() const { return !critical_.empty(); }

 private:
  using Keep = std::vector<bool>;
  void choose_boxes(const Keep& keep);
  void group(const Keep& keep, Collapse collapse);
  void choose_sections();
  void choose_lines(const Keep& keep);
  void reduce_lines();
  bool save(const graph::Edge& edge);
  std::string numbers(std::size_t box) const;
  std::string only_in(const Box& box) const;
  std::string task_tooltip(graph::TaskId id) const;

  const graph::Graph& graph_;
  const DrawingOptions& options_;
  Collapse collapse_ = Collapse::none;  // chosen
  std::set<std::pair<graph::TaskId, graph::TaskId>> critical_edges_;
  std::set<graph::TaskId> critical_;
  std::vector<Box> boxes_;
  std::vector<std::uint32_t> box_of_;  // by task; kNoBox for tasks that aren't drawn
  std::vector<Line> lines_;
  std::vector<OuterSection> outer_;
  std::map<std::uint32_t, std::size_t> savers_;            // box → its number, in program order
  std::map<std::uint32_t, std::set<std::uint32_t>> uses_;  // box → savers
  std::size_t drawn_tasks_ = 0, implied_ = 0, saved_ = 0, next_step_ = 0, outside_ = 0, inside_ = 0;
};

}  // namespace weft::inspect
