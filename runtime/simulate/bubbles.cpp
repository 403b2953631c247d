#include "runtime/simulate/bubbles.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/units.h"

namespace weft::simulate {
namespace {

/// A simulated step of all stages, with times by task.
class PlayedStep {
 public:
  explicit PlayedStep(const Report& report) : played_(report.played()) {}

  std::size_t stages() const { return played_.plans.size(); }
  const plan::Plan& plan(std::size_t stage) const { return *played_.plans[stage]; }
  const plan::StepTrace& step(std::size_t stage) const { return *played_.steps[stage]; }
  const graph::Task& task(std::size_t stage, graph::TaskId id) const { return plan(stage).graph->task(id); }
  plan::TaskTime time(std::size_t stage, graph::TaskId id) const {
    const plan::Position at = plan(stage).position[id.index()];
    return step(stage).times[at.stream.index()][at.entry];
  }
  Interval flight(std::size_t stage, graph::TaskId id) const {
    return played_.flight(stage, plan(stage).position[id.index()]);
  }
  bool computes(std::size_t stage, graph::TaskId id) const {
    return graph::channel_of(task(stage, id).operation) == nullptr;
  }

  /// Of the tasks that an entry waits for, the one that ended last; invalid if it waits for none.
  graph::TaskId last_wait(std::size_t stage, graph::TaskId id) const {
    const plan::Position at = plan(stage).position[id.index()];
    graph::TaskId last;
    for (const plan::Wait& wait : plan(stage).streams[at.stream.index()].entries[at.entry].waits) {
      if (wait.distance != 0) continue;
      const graph::TaskId source = plan(stage).streams[wait.stream.index()].entries[wait.entry].task;
      if (!last.valid() || time(stage, source).end > time(stage, last).end) last = source;
    }
    return last;
  }

  /// The member of another stage that comes last, of a message or of a collective of several stages: its stage and the
  /// task. The stage itself and an invalid task if there is none.
  std::pair<std::size_t, graph::TaskId> last_member(std::size_t stage, graph::TaskId id) const {
    std::pair<std::size_t, graph::TaskId> last = {stage, graph::TaskId()};
    for (const auto& [other, at] : played_.members(stage, plan(stage).position[id.index()])) {
      if (other == stage) continue;
      const graph::TaskId member = plan(other).streams[at.stream.index()].entries[at.entry].task;
      if (!last.second.valid() || time(other, member).begin > time(last.first, last.second).begin)
        last = {other, member};
    }
    return last;
  }

 private:
  PlayedClasses played_;
};

/// A stage's computations by begin, without those that take no time.
std::vector<graph::TaskId> computations_of(const PlayedStep& step, std::size_t stage) {
  std::vector<graph::TaskId> tasks;
  for (const graph::TaskId task : step.plan(stage).sequence) {
    const plan::TaskTime time = step.time(stage, task);
    if (step.computes(stage, task) && time.end > time.begin) tasks.push_back(task);
  }
  std::ranges::stable_sort(tasks, {}, [&](graph::TaskId task) { return step.time(stage, task).begin; });
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

/// Adds the gap from `begin` to `end`, on the trace's clock, divided by cause.
void add_gap(const PlayedStep& step, std::size_t stage, Interval gap, graph::TaskId next,
             std::vector<BubbleGap>& gaps) {
  const std::int64_t origin = step.step(stage).begin;
  BubbleGap base;
  base.stage = base.other_stage = stage;
  base.next = next;
  const auto add = [&](std::int64_t begin, std::int64_t end, BubbleCause cause) {
    if (begin >= end) return;
    BubbleGap part = base;
    part.begin_ns = static_cast<double>(begin - origin);
    part.end_ns = static_cast<double>(end - origin);
    part.cause = cause;
    gaps.push_back(std::move(part));
  };
  if (!next.valid()) return add(gap.begin, gap.end, BubbleCause::step_end);
  const graph::TaskId wait = step.last_wait(stage, next);
  if (!wait.valid() || step.time(stage, wait).end <= gap.begin || step.computes(stage, wait))
    return add(gap.begin, gap.end, BubbleCause::other);
  base.waits_for = wait;
  const auto [other, member] = step.last_member(stage, wait);
  if (member.valid()) {
    base.other_stage = other;
    base.made_by = step.last_wait(other, member);
  }
  // The task for which it waits may itself be late because of this stage: then there is no other to blame.
  const Interval flight = step.flight(stage, wait);
  const std::int64_t own = std::clamp(step.time(stage, wait).begin, gap.begin, gap.end),
                     moves = std::clamp(flight.begin, own, gap.end), ends = std::clamp(flight.end, moves, gap.end);
  const graph::Task& awaited = step.task(stage, wait);
  const graph::Direction direction = step.plan(stage).graph->direction(*graph::channel_of(awaited.operation));
  const auto [before, during] = causes_of(awaited, direction);
  add(gap.begin, own, BubbleCause::other);
  add(own, moves, before);
  add(moves, ends, during);
  add(ends, gap.end, BubbleCause::other);
}

/// Finds for each gap of a stage the computations that could have run in it.
void find_fillers(const PlayedStep& step, std::size_t stage, const std::vector<graph::TaskId>& computations,
                  std::span<BubbleGap> gaps) {
  const graph::Graph& graph = *step.plan(stage).graph;
  const std::int64_t origin = step.step(stage).begin;
  struct Candidate {
    double ready, begin, ns;
    graph::TaskId task;
  };
  std::vector<Candidate> candidates;
  for (const graph::TaskId task : computations) {
    const plan::TaskTime time = step.time(stage, task);
    Candidate candidate{0, static_cast<double>(time.begin - origin), static_cast<double>(time.end - time.begin), task};
    for (const graph::Edge& edge : graph.in_edges(task)) {
      if (edge.distance == 0)
        candidate.ready = std::max(candidate.ready, static_cast<double>(step.time(stage, edge.from).end - origin));
    }
    candidates.push_back(candidate);
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
  switch (cause) {
    case BubbleCause::activation:
      return "waits for an activation";
    case BubbleCause::gradient:
      return "waits for a gradient";
    case BubbleCause::message:
      return "a message is in flight";
    case BubbleCause::receiver:
      return "waits for a receiver";
    case BubbleCause::members:
      return "waits for other stages' collectives";
    case BubbleCause::collective:
      return "a collective is in flight";
    case BubbleCause::step_end:
      return "has no work left";
    case BubbleCause::other:
      break;
  }
  return "other";
}

std::string_view json_key(BubbleCause cause) {
  if (cause == BubbleCause::message) return "a message is in motion";
  return cause == BubbleCause::collective ? "a collective is in motion" : to_string(cause);
}

std::vector<BubbleGap> bubble_gaps(const Report& report) {
  const PlayedStep step(report);
  std::vector<BubbleGap> gaps;
  for (std::size_t stage = 0; stage < step.stages(); ++stage) {
    const std::size_t first = gaps.size();
    const std::vector<graph::TaskId> computations = computations_of(step, stage);
    std::int64_t busy_until = step.step(stage).begin;
    for (const graph::TaskId task : computations) {
      const plan::TaskTime time = step.time(stage, task);
      if (time.begin > busy_until) add_gap(step, stage, {busy_until, time.begin}, task, gaps);
      busy_until = std::max(busy_until, time.end);
    }
    if (busy_until < step.step(stage).end) add_gap(step, stage, {busy_until, step.step(stage).end}, {}, gaps);
    find_fillers(step, stage, computations, std::span(gaps).subspan(first));
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
