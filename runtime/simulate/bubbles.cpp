#include "runtime/simulate/bubbles.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "runtime/simulate/simulated_step.h"

namespace weft::simulate {
namespace {

bool computes(const SimulatedStep& step, graph::TaskId id) {
  return graph::channel_of(step.graph.task(id).operation) == nullptr;
}

/// Of the tasks that a task waits for, the one that ended last; invalid if it waits for none.
graph::TaskId last_wait(const SimulatedStep& step, graph::TaskId id) {
  const plan::Position at = step.plan.position[id.index()];
  graph::TaskId last;
  for (const plan::Wait& wait : step.plan.streams[at.stream.index()].entries[at.entry].waits) {
    if (wait.distance != 0) continue;
    const graph::TaskId source = step.plan.streams[wait.stream.index()].entries[wait.entry].task;
    if (!last.valid() || step.end(source) > step.end(last)) last = source;
  }
  return last;
}

/// A simulated step of all stages.
struct PlayedStages {
  explicit PlayedStages(const Report& report) : played(report.played()) {
    stages.reserve(played.plans.size());
    for (std::size_t stage = 0; stage < played.plans.size(); ++stage) stages.emplace_back(report, stage);
  }

  /// The member of another stage that comes last, of a message or of a collective of several stages: its stage and the
  /// task. The stage itself and an invalid task if there is none.
  std::pair<std::size_t, graph::TaskId> last_member(std::size_t stage, graph::TaskId id) const {
    std::pair<std::size_t, graph::TaskId> last = {stage, graph::TaskId()};
    for (const auto& [other, at] : played.members(stage, stages[stage].plan.position[id.index()])) {
      if (other == stage) continue;
      const graph::TaskId member = stages[other].plan.streams[at.stream.index()].entries[at.entry].task;
      if (!last.second.valid() || stages[other].arrival(member) > stages[last.first].arrival(last.second))
        last = {other, member};
    }
    return last;
  }

  PlayedClasses played;
  std::vector<SimulatedStep> stages;
};

/// A stage's computations by begin, without those that take no time.
std::vector<graph::TaskId> computations_of(const SimulatedStep& step) {
  std::vector<graph::TaskId> tasks;
  for (const graph::TaskId task : step.plan.sequence) {
    if (computes(step, task) && step.end(task) > step.begin(task)) tasks.push_back(task);
  }
  std::ranges::stable_sort(tasks, {}, [&](graph::TaskId task) { return step.begin(task); });
  return tasks;
}

/// Causes before and after a task's members have all arrived.
std::pair<BubbleCause, BubbleCause> causes_of(const graph::Task& task, graph::Direction direction) {
  if (direction == graph::Direction::in) {
    return {task.phase == graph::Phase::backward ? BubbleCause::gradient : BubbleCause::activation,
            BubbleCause::message};
  }
  if (direction == graph::Direction::out) return {BubbleCause::receiver, BubbleCause::message};
  return {BubbleCause::members, BubbleCause::collective};
}

/// Adds the gap from `begin` to `end`, divided by cause.
void add_gap(const PlayedStages& played, std::size_t stage, double begin, double end, graph::TaskId next,
             std::vector<BubbleGap>& gaps) {
  const SimulatedStep& step = played.stages[stage];
  BubbleGap base{.stage = stage, .next = next, .other_stage = stage};
  const auto add = [&](double from, double to, BubbleCause cause) {
    if (from >= to) return;
    base.begin_ns = from;
    base.end_ns = to;
    base.cause = cause;
    gaps.push_back(base);
  };
  if (!next.valid()) return add(begin, end, BubbleCause::step_end);
  const graph::TaskId wait = last_wait(step, next);
  if (!wait.valid() || step.end(wait) <= begin || computes(step, wait)) return add(begin, end, BubbleCause::other);
  base.waits_for = wait;
  const auto [other, member] = played.last_member(stage, wait);
  if (member.valid()) {
    base.other_stage = other;
    base.made_by = last_wait(played.stages[other], member);
  }
  // The task for which it waits may itself be late because of this stage: then there is no other to blame.
  const double own = std::clamp(step.arrival(wait), begin, end), moves = std::clamp(step.begin(wait), own, end),
               ends = std::clamp(step.end(wait), moves, end);
  const graph::Task& awaited = step.graph.task(wait);
  const auto [before, during] = causes_of(awaited, step.graph.direction(*graph::channel_of(awaited.operation)));
  add(begin, own, BubbleCause::other);
  add(own, moves, before);
  add(moves, ends, during);
  add(ends, end, BubbleCause::other);
}

/// Finds for each gap of a stage the computations that could have run in it.
void find_fillers(const SimulatedStep& step, const std::vector<graph::TaskId>& computations,
                  std::span<BubbleGap> gaps) {
  struct Candidate {
    double ready, begin, ns;
    graph::TaskId task;
  };
  std::vector<Candidate> candidates;
  for (const graph::TaskId task : computations) {
    Candidate& candidate =
        candidates.emplace_back(Candidate{0, step.begin(task), step.end(task) - step.begin(task), task});
    for (const graph::Edge& edge : step.graph.in_edges(task)) {
      if (edge.distance == 0) candidate.ready = std::max(candidate.ready, step.end(edge.from));
    }
  }
  std::ranges::stable_sort(candidates, {}, &Candidate::ready);
  std::vector<Candidate> pool;  // ready and not used, in the order in which they run
  std::size_t next = 0;
  for (BubbleGap& gap : gaps) {
    for (; next < candidates.size() && candidates[next].ready <= gap.begin_ns; ++next) {
      const auto place = std::ranges::upper_bound(pool, candidates[next].begin, {}, &Candidate::begin);
      pool.insert(place, candidates[next]);
    }
    std::erase_if(pool, [&](const Candidate& each) { return each.begin < gap.end_ns; });
    double left = gap.ns();
    std::erase_if(pool, [&](const Candidate& each) {
      if (each.ns > left || each.task == gap.next) return false;
      left -= each.ns;
      gap.fillers.push_back(each.task);
      return true;
    });
    gap.fill_ns = gap.ns() - left;
  }
}

}  // namespace

std::string_view to_string(BubbleCause cause) {
  constexpr std::array<std::string_view, kBubbleCauses> kTexts = {"waits for an activation",
                                                                  "waits for a gradient",
                                                                  "a message is in flight",
                                                                  "waits for a receiver",
                                                                  "waits for other stages' collectives",
                                                                  "a collective is in flight",
                                                                  "has no work left",
                                                                  "other"};
  return kTexts.at(static_cast<std::size_t>(cause));
}

std::string_view json_key(BubbleCause cause) {
  if (cause == BubbleCause::message) return "a message is in motion";
  return cause == BubbleCause::collective ? "a collective is in motion" : to_string(cause);
}

std::vector<BubbleGap> bubble_gaps(const Report& report) {
  const PlayedStages played(report);
  std::vector<BubbleGap> gaps;
  for (const SimulatedStep& step : played.stages) {
    const std::size_t first = gaps.size();
    const std::vector<graph::TaskId> computations = computations_of(step);
    double busy_until = 0;
    for (const graph::TaskId task : computations) {
      if (step.begin(task) > busy_until) add_gap(played, step.of_class, busy_until, step.begin(task), task, gaps);
      busy_until = std::max(busy_until, step.end(task));
    }
    const auto end = static_cast<double>(step.trace.end - step.trace.begin);
    if (busy_until < end) add_gap(played, step.of_class, busy_until, end, {}, gaps);
    find_fillers(step, computations, std::span(gaps).subspan(first));
  }
  return gaps;
}

std::vector<BubbleSums> bubble_sums(const std::vector<BubbleGap>& gaps, std::size_t stages) {
  std::vector<BubbleSums> sums(stages);
  for (const BubbleGap& gap : gaps) {
    sums[gap.stage].ns[static_cast<std::size_t>(gap.cause)] += gap.ns();
    sums[gap.stage].fill_ns += gap.fill_ns;
  }
  return sums;
}

std::string to_string(const BubbleGap& gap, const Report& report) {
  const auto name = [&](std::size_t stage, graph::TaskId task) {
    return report.classes[stage].graph().task(task).name;
  };
  std::string text = fmt::format("stage {} {} for {}", gap.stage, to_string(gap.cause), format_time(gap.ns()));
  if (gap.next.valid()) text += fmt::format(" before {}", name(gap.stage, gap.next));
  if (gap.waits_for.valid()) text += fmt::format(": {}", name(gap.stage, gap.waits_for));
  if (gap.made_by.valid())
    text += fmt::format(" comes from {} of stage {}", name(gap.other_stage, gap.made_by), gap.other_stage);
  if (gap.fill_ns > 0) {
    text +=
        fmt::format("; {} could run meanwhile: {}{}", format_time(gap.fill_ns), name(gap.stage, gap.fillers.front()),
                    gap.fillers.size() > 1 ? fmt::format(" and {} more", gap.fillers.size() - 1) : "");
  }
  return text;
}

}  // namespace weft::simulate
