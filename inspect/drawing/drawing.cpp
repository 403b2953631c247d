#include "inspect/drawing/drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "inspect/drawing/drawing_text.h"

namespace weft::inspect {
namespace {

constexpr std::uint32_t kNoBox = UINT32_MAX;

// Tasks with equal keys share a box.
using Key = std::tuple<std::int32_t, graph::Phase, std::int32_t, std::string>;  // micro-batch, phase, layer, what

// In place of a number that is folded away.
constexpr std::int32_t kAny = -2;

}  // namespace

Drawing::Drawing(const graph::Graph& graph, const DrawingOptions& options) : graph_(graph), options_(options) {
  for (std::size_t i = 0; i + 1 < options.critical_path.size(); ++i) {
    critical_edges_.emplace(options.critical_path[i], options.critical_path[i + 1]);
  }
  critical_.insert(options.critical_path.begin(), options.critical_path.end());
  Keep keep(graph.tasks().size(), !options.only.has_value());
  if (options.only) {
    for (const graph::TaskId task : *options.only) keep[task.index()] = true;
  }
  drawn_tasks_ = static_cast<std::size_t>(std::count(keep.begin(), keep.end(), true));
  choose_boxes(keep);
  choose_sections();
  choose_lines(keep);
}

void Drawing::choose_boxes(const Keep& keep) {
  collapse_ = options_.collapse;
  if (collapse_ != Collapse::automatic) {
    group(keep, collapse_);
    return;
  }
  std::int32_t layers = 0;
  for (const graph::Task& task : graph_.tasks()) layers = std::max(layers, task.layer + 1);
  const bool many = layers > 2 || drawn_tasks_ > options_.max_boxes;
  group(keep, collapse_ = many ? Collapse::layer : Collapse::none);
  if (many && boxes_.size() > options_.max_boxes) group(keep, collapse_ = Collapse::phase);
}

void Drawing::group(const Keep& keep, Collapse collapse) {
  boxes_.clear();
  box_of_.assign(graph_.tasks().size(), kNoBox);
  std::map<Key, std::uint32_t> known;
  const bool fold = collapse != Collapse::none;
  for (std::size_t i = 0; i < graph_.tasks().size(); ++i) {
    if (!keep[i]) continue;
    const graph::Task& task = graph_.tasks()[i];
    const std::int32_t micro_batch = collapse == Collapse::phase && task.micro_batch >= 0 ? kAny : task.micro_batch;
    const std::int32_t layer = fold && task.layer >= 0 ? kAny : task.layer;
    auto box = static_cast<std::uint32_t>(boxes_.size());
    if (fold && task.phase == graph::Phase::update) {
      // The update has a task of each kind a parameter, in a layer or not: one box a kind says it all. Kept apart by
      // kind, they come before and after the clip factor instead of forming a cycle with it.
      const graph::Channel* channel = graph::channel_of(task.operation);
      const std::string what =
          fmt::format("{} {}", graph::kind_name(task.operation), channel ? graph_.channel_name(*channel) : "");
      box = known.emplace(Key(micro_batch, task.phase, kAny, what), box).first->second;
    } else if (fold) {
      const std::string what =
          fmt::format("{} {} {}", short_name(task), graph::kind_name(task.operation), shape_text(graph_, task));
      box = known.emplace(Key(micro_batch, task.phase, layer, what), box).first->second;
    }
    if (box == boxes_.size()) boxes_.emplace_back();
    boxes_[box].tasks.emplace_back(i);
    boxes_[box].layers.insert(task.layer);
    boxes_[box].micro_batches.insert(task.micro_batch);
    boxes_[box].critical = boxes_[box].critical || critical_.contains(graph::TaskId(i));
    box_of_[i] = box;
  }
  for (const DrawingMark& mark : options_.marks) {
    if (box_of_[mark.task.index()] != kNoBox) boxes_[box_of_[mark.task.index()]].mark = mark.text;
  }
}

// Both levels in the order of their first task.
void Drawing::choose_sections() {
  std::map<std::pair<std::int32_t, graph::Phase>, std::uint32_t> outer_of;
  std::map<std::pair<std::uint32_t, std::int32_t>, std::uint32_t> inner_of;  // by outer section and layer
  std::int32_t last_micro_batch = 0;
  for (const graph::Task& task : graph_.tasks()) last_micro_batch = std::max(last_micro_batch, task.micro_batch);
  for (std::uint32_t i = 0; i < boxes_.size(); ++i) {
    Box& box = boxes_[i];
    const graph::Task& task = graph_.task(box.tasks.front());
    const std::int32_t micro_batch = collapse_ == Collapse::phase && task.micro_batch >= 0 ? kAny : task.micro_batch;
    box.outer = outer_of.emplace(std::pair(micro_batch, task.phase), outer_.size()).first->second;
    if (box.outer == outer_.size()) {
      OuterSection& section = outer_.emplace_back();
      section.id = fmt::format("mb{}_{}", task.micro_batch, graph::to_string(task.phase));
      section.label = graph::to_string(task.phase);
      section.inner.emplace_back();
    }
    OuterSection& outer = outer_[box.outer];
    outer.micro_batches.insert(box.micro_batches.begin(), box.micro_batches.end());
    const bool in_layer = task.layer >= 0 && !(task.phase == graph::Phase::update && box.tasks.size() > 1);
    if (in_layer) {
      const std::int32_t layer = collapse_ == Collapse::none ? task.layer : kAny;
      box.inner = inner_of.emplace(std::pair(box.outer, layer), outer.inner.size()).first->second;
      if (box.inner == outer.inner.size()) outer.inner.emplace_back().layer = task.layer;
      outer.inner[box.inner].layers.insert(box.layers.begin(), box.layers.end());
    }
    outer.inner[box.inner].boxes.push_back(i);
  }
  for (OuterSection& outer : outer_) {
    const std::int32_t first = *outer.micro_batches.begin(), last = *outer.micro_batches.rbegin();
    if (last_micro_batch > 0 && first >= 0) {
      outer.label = first == last ? fmt::format("micro-batch {}, {}", first, outer.label)
                                  : fmt::format("{}, × {}: micro-batches {} to {}", outer.label,
                                                outer.micro_batches.size(), first, last);
    }
    for (InnerSection& inner : outer.inner) {
      if (inner.layer >= 0) inner.label = layers_text(inner.layers);
    }
  }
}

void Drawing::choose_lines(const Keep& keep) {
  std::vector<graph::Edge> edges;
  const auto add = [&](std::span<const graph::Edge> more) {
    for (const graph::Edge& edge : more) {
      if (keep[edge.from.index()] && keep[edge.to.index()]) {
        edges.push_back(edge);
      } else if (keep[edge.from.index()] || keep[edge.to.index()]) {
        ++outside_;
      }
    }
  };
  add(graph_.edges());
  add(options_.added_edges);
  const std::vector<bool> implied =
      options_.reduce ? graph::implied_edges(graph_.tasks().size(), edges) : std::vector<bool>(edges.size(), false);
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint8_t, bool>, std::size_t> known;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const graph::Edge& edge = edges[i];
    if (edge.distance > 0 && !options_.next_step_edges) {
      ++next_step_;
      continue;
    }
    const bool critical = edge.distance == 0 && critical_edges_.contains({edge.from, edge.to});
    if (implied[i] && !critical) {
      if (!save(edge)) ++implied_;
      continue;
    }
    const graph::Task &from = graph_.task(edge.from), &to = graph_.task(edge.to);
    Line line{box_of_[edge.from.index()],
              box_of_[edge.to.index()],
              graph::strength_of(edge),
              edge.reason,
              edge.distance,
              edge.tensor,
              1,
              critical};
    const auto folded = [](const std::set<std::int32_t>& numbers) { return numbers.size() > 1; };
    const Box &source = boxes_[line.from], &target = boxes_[line.to];
    if (line.from == line.to && source.tasks.size() > 1) {
      ++inside_;
      continue;
    }
    line.repeats =
        from.phase == to.phase && from.phase != graph::Phase::update &&
        ((from.layer >= 0 && to.layer >= 0 && from.layer != to.layer &&
          (folded(source.layers) || folded(target.layers))) ||
         (from.micro_batch != to.micro_batch && (folded(source.micro_batches) || folded(target.micro_batches))));
    const auto [position, added] =
        known.emplace(std::tuple(line.from, line.to, line.distance, line.repeats), lines_.size());
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
  if (options_.reduce && boxes_.size() < drawn_tasks_) reduce_lines();
  std::size_t number = 0;
  for (auto& saver : savers_) saver.second = ++number;
}

// Folding makes new paths, so that more lines become implied; if it makes a cycle, all of them stay.
void Drawing::reduce_lines() {
  std::vector<graph::Edge> edges;
  for (const Line& line : lines_) {
    const graph::EdgeKind kind = line.strength == graph::EdgeStrength::order ? graph::EdgeKind::issued_before
                                                                             : graph::EdgeKind::completes_before;
    // A line to the next layer closes a cycle, as one to the next step does.
    const auto distance = static_cast<std::uint8_t>(line.repeats ? 1 : line.distance);
    edges.push_back({graph::TaskId(line.from), graph::TaskId(line.to), kind, line.reason, distance, line.tensor});
  }
  if (!graph::acyclic(boxes_.size(), edges)) return;
  const std::vector<bool> implied = graph::implied_edges(boxes_.size(), edges);
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
bool Drawing::save(const graph::Edge& edge) {
  if (graph::strength_of(edge) != graph::EdgeStrength::data || graph_.task(edge.from).phase != graph::Phase::forward ||
      graph_.task(edge.to).phase != graph::Phase::backward) {
    return false;
  }
  ++saved_;
  const std::uint32_t from = box_of_[edge.from.index()], to = box_of_[edge.to.index()];
  if (from == to) return true;
  savers_.emplace(from, 0);
  uses_[to].insert(from);
  return true;
}

}  // namespace weft::inspect
