#include "inspect/drawing/drawing_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/units.h"
#include "graph/groups.h"
#include "graph/operation.h"
#include "inspect/drawing/drawing.h"

namespace weft::inspect {
namespace {

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

}  // namespace

std::string short_name(const graph::Task& task) {
  const std::string short_one =
      without(task.name, {fmt::format(".mb{}.", task.micro_batch), fmt::format(".L{}.", task.layer),
                          task.phase == graph::Phase::forward ? ".fwd." : ".bwd."});
  return short_one.empty() ? task.name : short_one;
}

std::string short_tensor_name(const std::string& tensor, const graph::Task& task) {
  const std::string short_one =
      without(tensor, {fmt::format(".mb{}.", task.micro_batch), fmt::format(".L{}.", task.layer)});
  return short_one.empty() ? tensor : short_one;
}

std::string shape_text(const graph::Graph& graph, const graph::Task& task, const std::optional<graph::Grid>& grid,
                       std::int64_t rank) {
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

std::string layers_text(const std::set<std::int32_t>& layers) {
  std::set<std::int32_t> numbers = layers;
  numbers.erase(-1);
  if (numbers.empty()) return "outside of layers";
  if (numbers.size() == 1) return fmt::format("layer {}", *numbers.begin());
  return fmt::format("layers {}, × {}", numbers_text(numbers), numbers.size());
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
      if (const graph::Tensor* tensor = subject(graph_, task)) text += "\nof " + short_tensor_name(tensor->name, task);
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
