#include "runtime/policy/pipeline/unit_model.h"

#include <algorithm>
#include <array>
#include <variant>

namespace weft::policy {
namespace {

constexpr double kUnfinished = std::numeric_limits<double>::infinity();

/// The time of tasks that run by themselves: computations one after the other, each channel's collectives too.
class Alone {
 public:
  Alone(const graph::Graph& graph, std::span<const double> cost) : graph_(graph), cost_(cost), end_(cost.size(), -1) {}

  double time_of(std::span<const graph::TaskId> tasks) {
    std::array<double, 257> free{};  // computations, then channels
    double last = 0;
    for (const graph::TaskId task : tasks) {
      const graph::Channel* channel = graph::channel_of(graph_.task(task).operation);
      if (channel != nullptr && graph::is_message(*channel)) continue;
      double& stream = free[channel == nullptr ? 0 : 1 + static_cast<std::size_t>(*channel)];
      double start = stream;
      for (const graph::Edge& edge : graph_.in_edges(task)) {
        if (edge.distance == 0) start = std::max(start, end_[edge.from.index()]);
      }
      stream = end_[task.index()] = start + cost_[task.index()];
      last = std::max(last, stream);
    }
    for (const graph::TaskId task : tasks) end_[task.index()] = -1;
    return last;
  }

 private:
  const graph::Graph& graph_;
  std::span<const double> cost_;
  std::vector<double> end_;  // of the unit's tasks so far; negative for all others
};

}  // namespace

UnitModel::UnitModel(const PipelineProgram& program, const PolicyOptions& options)
    : shape_(program.shape), units_(shape_.units()), base_(program.classes.size(), 0) {
  for (std::int32_t rank = 0; rank < shape_.ranks; ++rank) {
    const std::int64_t limit = scratch_limit(*program.classes[static_cast<std::size_t>(rank)], options);
    const double part = static_cast<double>(limit) * program.memory_part;
    limit_.push_back(limit > 0 ? static_cast<std::int64_t>(part) : std::numeric_limits<std::int64_t>::max());
    measure(program, rank);
    weigh(program, rank);
  }
}

void UnitModel::measure(const PipelineProgram& program, std::int32_t rank) {
  const auto k = static_cast<std::size_t>(rank);
  Alone alone(*program.classes[k], program.costs[k].ns);
  for (UnitId id = 0; id < size(); ++id) {
    if (rank_of(id) != rank) continue;
    const std::span<const graph::TaskId> tasks = program.units[k].tasks_of(shape_.unit(id));
    units_[id].exists = !tasks.empty();
    units_[id].ns = alone.time_of(tasks);
    for (const graph::TaskId task : tasks) {
      if (std::holds_alternative<graph::Send>(program.classes[k]->task(task).operation))
        units_[id].message_ns = std::max(units_[id].message_ns, program.costs[k].ns[task.index()]);
    }
  }
}

void UnitModel::weigh(const PipelineProgram& program, std::int32_t rank) {
  const auto k = static_cast<std::size_t>(rank);
  const graph::Graph& graph = *program.classes[k];
  constexpr UnitId kNoUnit = UINT32_MAX, kUntouched = UINT32_MAX - 1;
  std::vector<UnitId> unit_of(graph.tasks().size(), kNoUnit);
  for (UnitId id = 0; id < size(); ++id) {
    if (rank_of(id) != rank) continue;
    for (const graph::TaskId task : program.units[k].tasks_of(shape_.unit(id))) unit_of[task.index()] = id;
  }
  struct Life {
    UnitId first = kUntouched, last = kUntouched;
    bool outlives_units = false;
  };
  std::vector<Life> lives(graph.tensors().size());
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    for (const graph::Access& access : graph.tasks()[i].accesses) {
      Life& life = lives[access.view.tensor.index()];
      if (life.first == kUntouched) life.first = unit_of[i];
      life.last = unit_of[i];
      // Units of several micro-batches add to it, or it is used outside of units.
      const bool apart = life.first == kNoUnit || unit_of[i] == kNoUnit ||
                         shape_.unit(life.first).micro_batch != shape_.unit(unit_of[i]).micro_batch;
      life.outlives_units = life.outlives_units || apart;
    }
  }
  std::vector<std::int64_t> within(size(), 0);
  for (std::size_t i = 0; i < lives.size(); ++i) {
    const graph::Tensor& tensor = graph.tensors()[i];
    if (graph::is_state(tensor.role) || lives[i].first == kUntouched) continue;
    if (lives[i].outlives_units) {
      base_[k] += tensor.bytes();
    } else if (lives[i].first == lives[i].last) {
      within[lives[i].first] += tensor.bytes();
    } else {
      units_[lives[i].first].takes += tensor.bytes();
      units_[lives[i].last].frees += tensor.bytes();
    }
  }
  base_[k] += *std::ranges::max_element(within);
}

UnitModel::Before UnitModel::before(UnitId id) const {
  const Unit at = shape_.unit(id);
  const auto of = [&](Work work, std::int32_t stage) { return shape_.id({work, at.micro_batch, stage}); };
  switch (at.work) {
    case Work::forward:
      return {at.stage == 0 ? std::nullopt : std::optional(of(Work::forward, at.stage - 1)), std::nullopt};
    case Work::input: {
      const bool last = at.stage + 1 == shape_.stages();
      return {last ? std::nullopt : std::optional(of(Work::input, at.stage + 1)), of(Work::forward, at.stage)};
    }
    default: {
      const bool first = at.micro_batch == 0;
      const UnitId before = shape_.id({Work::weight, at.micro_batch - (first ? 0 : 1), at.stage});
      return {first ? std::nullopt : std::optional(before), of(Work::input, at.stage)};
    }
  }
}

double UnitModel::ready(UnitId id, const std::vector<double>& end) const {
  const Before before = this->before(id);
  const auto end_of = [&](UnitId unit) { return units_[unit].exists ? end[unit] : this->ready(unit, end); };
  double ready = 0;
  if (before.neighbour) ready = std::max(ready, end_of(*before.neighbour) + units_[*before.neighbour].message_ns);
  if (before.own) ready = std::max(ready, end_of(*before.own));
  return ready;
}

std::vector<double> UnitModel::ways_to_end() const {
  std::vector<double> way(size(), 0);
  const auto lengthen = [&](const std::optional<UnitId>& before, double after) {
    if (before) way[*before] = std::max(way[*before], after);
  };
  // Weight units lead to the next micro-batch's, input units to the stage before, forward units to the next stage or
  // back.
  const auto visit = [&](Work work, std::int32_t stage) {
    for (std::int32_t m = shape_.micro_batches; m-- > 0;) {
      const UnitId at = shape_.id({work, m, stage});
      way[at] += units_[at].ns;
      const Before before = this->before(at);
      if (before.neighbour) lengthen(before.neighbour, way[at] + units_[*before.neighbour].message_ns);
      lengthen(before.own, way[at]);
    }
  };
  for (std::int32_t stage = 0; stage < shape_.stages(); ++stage) visit(Work::weight, stage);
  for (std::int32_t stage = 0; stage < shape_.stages(); ++stage) visit(Work::input, stage);
  for (std::int32_t stage = shape_.stages(); stage-- > 0;) visit(Work::forward, stage);
  return way;
}

UnitSequences UnitModel::sequences_of(const std::vector<RankSchedule>& schedules) const {
  UnitSequences sequences;
  for (const RankSchedule& schedule : schedules) {
    std::vector<UnitId>& sequence = sequences.emplace_back();
    const auto add = [&](const Unit& each) {
      const bool both = each.work == Work::backward;
      for (const Work work : {both ? Work::input : each.work, Work::weight}) {
        const UnitId unit = shape_.id({work, each.micro_batch, each.stage});
        if (units_[unit].exists) sequence.push_back(unit);
        if (!both) break;
      }
    };
    for (const ScheduledUnit& each : schedule) {
      add(each.unit);
      if (each.beside) add(*each.beside);
    }
  }
  return sequences;
}

UnitTimes UnitClock::times_of(const UnitSequences& sequences) {
  UnitTimes times{0, true, 0};
  std::ranges::fill(end_, kUnfinished);
  std::ranges::fill(next_, 0);
  std::size_t left = 0;
  for (const auto& sequence : sequences) left += sequence.size();
  for (bool moved = true; moved && left > 0;) {
    moved = false;
    for (std::size_t rank = 0; rank < sequences.size(); ++rank) {
      const std::vector<UnitId>& sequence = sequences[rank];
      for (std::size_t& next = next_[rank]; next < sequence.size(); ++next, --left, moved = true) {
        const double ready = model_.ready(sequence[next], end_);
        if (ready == kUnfinished) break;
        const double start = next == 0 ? ready : std::max(ready, end_[sequence[next - 1]]);
        end_[sequence[next]] = start + model_[sequence[next]].ns;
      }
    }
  }
  if (left > 0) return {kUnfinished, false, 0};
  for (std::size_t rank = 0; rank < sequences.size(); ++rank) {
    if (!sequences[rank].empty()) times.makespan = std::max(times.makespan, end_[sequences[rank].back()]);
    std::int64_t bytes = model_.base(static_cast<std::int32_t>(rank));
    const std::int64_t limit = model_.limit(static_cast<std::int32_t>(rank));
    for (const UnitId unit : sequences[rank]) {
      bytes += model_[unit].takes;
      times.bytes = std::max(times.bytes, bytes);
      times.fits = times.fits && bytes <= limit;
      bytes -= model_[unit].frees;
    }
  }
  return times;
}

}  // namespace weft::policy
