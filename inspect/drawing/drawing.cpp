#include "inspect/drawing/drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/units.h"
#include "graph/grid.h"
#include "graph/operation.h"

namespace weft::inspect {
namespace {

constexpr std::uint32_t kNoBox = UINT32_MAX;

// Tasks with equal keys share a box.
using Key = std::tuple<std::int32_t, graph::Phase, std::int32_t, std::string>;  // micro-batch, phase, layer, what

// In place of a number that is folded away.
constexpr std::int32_t kAny = -2;

std::string without(std::string name, const std::vector<std::string>& parts) {
  name = "." + name + ".";
  for (const std::string& part : parts) {
    if (const std::size_t at = name.find(part); at != std::string::npos) name.erase(at, part.size() - 1);
  }
  return name.size() <= 2 ? "" : name.substr(1, name.size() - 2);
}

// The tensor that a collective is about: the largest one that isn't its workspace.
const graph::Tensor* subject(const graph::Graph& graph, const graph::Task& task) {
  const graph::Tensor* best = nullptr;
  for (const graph::Access& access : task.accesses) {
    const graph::Tensor& tensor = graph.tensor(access.view.tensor);
    if (tensor.role == graph::Role::workspace) continue;
    if (best == nullptr || tensor.role == graph::Role::parameter) best = &tensor;
  }
  return best;
}

std::string numbers_text(const std::set<std::int32_t>& numbers) {
  const std::int32_t first = *numbers.begin(), last = *numbers.rbegin();
  if (first == last) return fmt::format("{}", first);
  if (last - first + 1 == static_cast<std::int32_t>(numbers.size())) return fmt::format("{} to {}", first, last);
  std::string text;
  std::size_t named = 0;
  for (const std::int32_t number : numbers) {
    if (++named > 4) return text + fmt::format(", …, {}", last);
    text += fmt::format("{}{}", text.empty() ? "" : ", ", number);
  }
  return text;
}

/// "512×768×768" of a product, "over y (ranks 0, 1), 64 KiB" of a collective, of others the largest operand's shape.
/// Ranks are named where a grid is known.
std::string shape_text(const graph::Graph& graph, const graph::Task& task, const std::optional<graph::Grid>& grid = {},
                       std::int64_t rank = 0) {
  if (const auto* gemm = std::get_if<graph::Gemm>(&task.operation)) {
    return fmt::format("{}×{}×{}", gemm->m, gemm->n, gemm->k);
  }
  if (const graph::Channel* channel = graph::channel_of(task.operation)) {
    const graph::Access* payload = graph::payload_of(task);
    const double bytes = payload != nullptr ? static_cast<double>(payload->view.elements()) *
                                                  static_cast<double>(size_of(graph.tensor(payload->view.tensor).dtype))
                                            : 0;
    // Wider boxes than this would pull the drawing apart; the tooltip has more.
    constexpr std::size_t kMostRanks = 4;
    const std::string group =
        grid && graph.channel_info(*channel) == nullptr
            ? fmt::format(" ({})", graph::ranks_text(graph::group_ranks(*grid, *channel, rank), kMostRanks))
            : "";
    return fmt::format("over {}{}, {}", graph.channel_name(*channel), group, format_bytes(bytes));
  }
  // The largest operand says most: a sum of squares is as long as what it sums.
  const graph::View* largest = nullptr;
  for (const graph::Access& access : task.accesses) {
    if (largest == nullptr || access.view.elements() > largest->elements()) largest = &access.view;
  }
  if (largest == nullptr) return "";
  return largest->rows == 1 ? fmt::format("{}", largest->cols) : fmt::format("{}×{}", largest->rows, largest->cols);
}

/// "layer 3", "layers 0 to 3, × 4", "layers 0, 2, × 2"; -1 doesn't count.
std::string layers_text(const std::set<std::int32_t>& layers) {
  std::set<std::int32_t> numbers = layers;
  numbers.erase(-1);
  if (numbers.empty()) return "outside of layers";
  if (numbers.size() == 1) return fmt::format("layer {}", *numbers.begin());
  return fmt::format("layers {}, × {}", numbers_text(numbers), numbers.size());
}

}  // namespace

std::string short_name(const graph::Task& task) {
  const std::string short_one =
      without(task.name, {fmt::format(".mb{}.", task.micro_batch), fmt::format(".L{}.", task.layer),
                          task.phase == graph::Phase::forward ? ".fwd." : ".bwd."});
  return short_one.empty() ? task.name : short_one;
}

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

const std::string& Drawing::id(std::size_t box) const {
  return graph_.task(boxes_[box].tasks.front()).name;
}

std::string Drawing::box_class(std::size_t box) const {
  return std::string(graph::kind_name(graph_.task(boxes_[box].tasks.front()).operation));
}

const KindStyle& Drawing::style(std::size_t box) const {
  return style_of(graph_.task(boxes_[box].tasks.front()).operation);
}

std::optional<StreamStyle> Drawing::stream(std::size_t box) const {
  if (!options_.stream_of) return std::nullopt;
  const std::vector<graph::TaskId>& tasks = boxes_[box].tasks;
  StreamStyle first = options_.stream_of(tasks.front());
  for (const graph::TaskId task : tasks) {
    if (options_.stream_of(task).name != first.name) return std::nullopt;
  }
  return first;
}

std::string_view Drawing::dash(const Line& line) {
  if (line.strength == graph::EdgeStrength::order || line.reason == graph::EdgeReason::policy) return "dotted";
  return line.strength == graph::EdgeStrength::data ? "solid" : "dashed";
}

std::string edges_text(std::size_t of_graph, std::size_t added) {
  return fmt::format("{} edges{}", of_graph, added > 0 ? fmt::format(" and {} that the plan adds", added) : "");
}

std::string Drawing::caption() const {
  std::string text = options_.title;
  const std::size_t tasks = graph_.tasks().size();
  const std::string edges = edges_text(graph_.edges().size(), options_.added_edges.size());
  text += fmt::format("\n{} tasks in {} boxes, {}", tasks, boxes_.size(), edges);
  if (drawn_tasks_ < tasks) {
    text = fmt::format("{}\n{} of {} tasks in {} boxes; {} of {} lead to others", options_.title, drawn_tasks_, tasks,
                       boxes_.size(), outside_, edges);
  }
  if (implied_ > 0) text += fmt::format("; {} not drawn because others imply them", implied_);
  if (saved_ > 0) text += fmt::format("; {} from saved activations drawn as numbers", saved_);
  if (inside_ > 0) text += fmt::format("; {} within boxes", inside_);
  if (next_step_ > 0) text += fmt::format("; {} to the next step not drawn", next_step_);
  for (const std::string& remark : options_.remarks) text += "\n" + remark;
  return text + '\n';
}

std::string Drawing::numbers(std::size_t box) const {
  std::string text;
  const auto index = static_cast<std::uint32_t>(box);
  if (const auto saver = savers_.find(index); saver != savers_.end()) text += fmt::format("\nsaves {}", saver->second);
  if (const auto uses = uses_.find(index); uses != uses_.end()) {
    constexpr std::size_t kMost = 8;
    text += text.empty() ? "\nuses" : ", uses";
    std::size_t named = 0;
    for (const std::uint32_t saver : uses->second) {
      if (++named > kMost) return text + fmt::format(" … {}", savers_.at(*uses->second.rbegin()));
      text += fmt::format(" {}", savers_.at(saver));
    }
  }
  return text;
}

// The layers and micro-batches of a folded box, where they differ from its section's.
std::string Drawing::only_in(const Box& box) const {
  const OuterSection& outer = outer_[box.outer];
  std::string text;
  if (box.inner > 0 && box.layers != outer.inner[box.inner].layers) {
    text += fmt::format("\nlayer{} {} only", box.layers.size() > 1 ? "s" : "", numbers_text(box.layers));
  }
  if (box.micro_batches != outer.micro_batches) {
    text += fmt::format("\nmicro-batch{} {} only", box.micro_batches.size() > 1 ? "es" : "",
                        numbers_text(box.micro_batches));
  }
  return text;
}

std::string Drawing::label(std::size_t index) const {
  const Box& box = boxes_[index];
  const graph::Task& task = graph_.task(box.tasks.front());
  std::string text;
  if (box.tasks.size() > 1 && task.phase == graph::Phase::update) {
    double flops = 0;
    for (const graph::TaskId id : box.tasks) flops += graph::work_of(graph_, graph_.task(id)).flops;
    const graph::Channel* channel = graph::channel_of(task.operation);
    text =
        fmt::format("{} × {}\n{}", box.tasks.size(), graph::kind_name(task.operation),
                    channel != nullptr ? fmt::format("over {}", graph_.channel_name(*channel)) : format_flops(flops));
  } else {
    const std::string name = short_name(task);
    const std::string_view kind = graph::kind_name(task.operation);
    text = fmt::format("{}\n{}{}", name, name.ends_with(kind) ? "" : std::string(kind) + " ",
                       shape_text(graph_, task, options_.grid, options_.rank));
    if (graph::is_collective(task.operation)) {
      if (const graph::Tensor* tensor = subject(graph_, task)) {
        const std::string short_one =
            without(tensor->name, {fmt::format(".mb{}.", task.micro_batch), fmt::format(".L{}.", task.layer)});
        text += "\nof " + (short_one.empty() ? tensor->name : short_one);
      }
    }
    text += numbers(index) + only_in(box);
  }
  if (options_.box_note) {
    if (const std::string note = options_.box_note(box.tasks); !note.empty()) text += "\n" + note;
  }
  return text;
}

std::string Drawing::task_tooltip(graph::TaskId id) const {
  const graph::Task& task = graph_.task(id);
  const graph::Work work = graph::work_of(graph_, task);
  std::string tip = fmt::format("{}\n{}", task.name, graph::kind_name(task.operation));
  graph::for_each_field(task.operation, [&](std::string_view name, auto value) {
    if constexpr (std::is_enum_v<decltype(value)>) {
      tip += fmt::format(" {}={}", name, to_string(value));
    } else {
      tip += fmt::format(" {}={}", name, value);
    }
  });
  tip += fmt::format("\n{}, {}", format_flops(work.flops), format_bytes(work.bytes));
  if (work.network_bytes > 0) tip += fmt::format(", sends {}", format_bytes(work.network_bytes));
  if (const graph::Channel* channel = graph::channel_of(task.operation);
      channel != nullptr && options_.grid && graph_.channel_info(*channel) == nullptr) {
    constexpr std::size_t kMostRanks = 32;
    const auto ranks = graph::group_ranks(*options_.grid, *channel, options_.rank);
    const auto groups = options_.grid->ranks() / static_cast<std::int64_t>(ranks.size());
    tip += fmt::format("\n{} group of {}", graph::to_string(*channel), graph::ranks_text(ranks, kMostRanks));
    if (groups > 1) tip += fmt::format(", one of {}", groups);
  }
  for (const graph::Access& access : task.accesses) {
    const graph::Tensor& tensor = graph_.tensor(access.view.tensor);
    const std::string_view verb = access.mode == graph::AccessMode::read    ? "reads"
                                  : access.mode == graph::AccessMode::write ? "writes"
                                                                            : "updates";
    tip +=
        fmt::format("\n{} {} {}×{} {}", verb, tensor.name, access.view.rows, access.view.cols, to_string(tensor.dtype));
  }
  if (options_.stream_of) tip += fmt::format("\non {}", options_.stream_of(id).name);
  if (options_.note) {
    if (const std::string note = options_.note(id); !note.empty()) tip += "\n" + note;
  }
  return tip;
}

std::string Drawing::tooltip(std::size_t index) const {
  const Box& box = boxes_[index];
  if (box.tasks.size() == 1) return task_tooltip(box.tasks.front());
  return fmt::format("{}\n\n{} tasks like this one, the last is {}", task_tooltip(box.tasks.front()), box.tasks.size(),
                     graph_.task(box.tasks.back()).name);
}

std::string Drawing::tooltip(const Line& line) const {
  return fmt::format("{}{}{}{}", graph::to_string(line.reason),
                     line.tensor.valid() ? " of " + graph_.tensor(line.tensor).name : "",
                     line.count > 1 ? fmt::format(" and {} more", line.count - 1) : "",
                     line.repeats ? ", to the next layer or micro-batch" : "");
}

std::vector<graph::KindClass> Drawing::kinds() const {
  std::set<graph::KindClass> kinds;
  for (const Box& box : boxes_) {
    kinds.insert(graph::kind_class(graph_.task(box.tasks.front()).operation));
  }
  return {kinds.begin(), kinds.end()};
}

std::map<std::string, std::string> Drawing::streams() const {
  std::map<std::string, std::string> streams;
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    if (const auto stream = this->stream(i)) streams.emplace(stream->name, stream->color);
  }
  return streams;
}

std::vector<std::string> Drawing::line_legend() const {
  std::set<std::string_view> dashes;
  bool repeats = false;
  for (const Line& line : lines_) {
    dashes.insert(dash(line));
    repeats = repeats || line.repeats;
  }
  std::vector<std::string> entries;
  if (dashes.contains("solid")) entries.emplace_back("solid: data");
  if (dashes.contains("dashed")) entries.emplace_back("dashed: bytes written again");
  if (dashes.contains("dotted")) entries.emplace_back("dotted: order only");
  if (options_.stream_of) entries.emplace_back("coloured: between streams");
  if (repeats) entries.emplace_back("grey: to the next layer");
  if (saved_ > 0) entries.emplace_back("saves n, uses n: kept for backward");
  return entries;
}

}  // namespace weft::inspect
