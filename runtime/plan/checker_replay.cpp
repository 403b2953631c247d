#include "runtime/plan/checker_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/meetings.h"
#include "runtime/plan/checker_classes.h"

namespace weft::plan {

Clocks::Clocks(const Plan& plan)
    : plan_(&plan),
      tasks_(plan.graph->tasks().size()),
      streams_(plan.streams.size()),
      latest_(streams_ * streams_),
      clocks_(2 * tasks_ * streams_) {}

void Clocks::start(std::size_t stream, std::uint32_t number) {
  const std::uint32_t step = number < first(stream, 1) ? 0 : 1;
  const Entry& entry = plan_->streams[stream].entries[number - first(stream, step)];
  std::uint32_t* const now = latest_.data() + stream * streams_;
  for (const Wait& wait : entry.waits) {
    if (wait.distance > step) continue;
    const std::uint32_t of_step = step - wait.distance;
    const std::size_t other = wait.stream.index();
    const graph::TaskId source = plan_->streams[other].entries[wait.entry].task;
    const std::uint32_t* const known = clocks_.data() + (of_step * tasks_ + source.index()) * streams_;
    for (std::size_t i = 0; i < streams_; ++i) now[i] = std::max(now[i], known[i]);
    now[other] = std::max(now[other], first(other, of_step) + wait.entry + 1);
  }
  std::copy_n(now, streams_, clocks_.data() + (step * tasks_ + entry.task.index()) * streams_);
  now[stream] = number + 1;
}

Replay::Replay(std::span<const Plan* const> plans, Queues queues)
    : plans_(plans.begin(), plans.end()), queues_(queues), communicated_(plans.size()), changed_(plans.size(), true) {
  for (std::size_t k = 0; k < plans.size(); ++k) {
    first_slot_.push_back(slots_.size());
    for (std::size_t stream = 0; stream < plans[k]->streams.size(); ++stream)
      slots_.push_back({.of_class = k, .stream = stream, .entries = &plans[k]->streams[stream].entries});
    if (queues == Queues::by_channel) clocks_.emplace_back(*plans[k]);
  }
  first_slot_.push_back(slots_.size());
  find_members();
  run();
}

void Replay::find_members() {
  const auto slot_of = [&](std::size_t of_class, graph::Channel channel) {
    const std::vector<StreamPlan>& streams = plans_[of_class]->streams;
    const auto found = std::ranges::find_if(
        streams, [&](const StreamPlan& s) { return !s.stream.compute && s.stream.channel == channel; });
    return first_slot_[of_class] + static_cast<std::size_t>(found - streams.begin());
  };
  if (plans_.size() == 1) return;
  for (Slot& slot : slots_) {
    const Stream& stream = plans_[slot.of_class]->streams[slot.stream].stream;
    if (stream.compute || slot.length() == 0) continue;
    const std::vector<graph::ClassChannel> together =
        graph::channels_together(*plans_[slot.of_class]->graph, slot.of_class, plans_.size(), stream.channel);
    if (together.size() < 2) continue;
    for (const graph::ClassChannel& each : together) slot.members.push_back(slot_of(each.of_class, each.channel));
  }
}

const graph::Task& Replay::task(const Slot& slot, std::uint32_t number) const {
  return plans_[slot.of_class]->graph->task(slot.entry(number).task);
}

std::optional<Replay::Number> Replay::target(const Slot& slot, const Wait& wait) const {
  const std::size_t other = first_slot_[slot.of_class] + wait.stream.index();
  const std::uint32_t step = slot.done < slot.length() ? 0 : 1;
  if (wait.distance > step) return std::nullopt;
  return Number{other, (step - wait.distance) * slots_[other].length() + wait.entry};
}

std::optional<Replay::Number> Replay::ahead_in_queue(std::size_t index) const {
  const Slot& slot = slots_[index];
  if (queues_ == Queues::by_channel || !graph::is_collective(task(slot, slot.done).operation)) return std::nullopt;
  const Plan& plan = *plans_[slot.of_class];
  const std::size_t ended = communicated_[slot.of_class], all = plan.collectives.size();
  const Position at = plan.position[plan.collectives[ended % all].index()];
  const std::size_t next = first_slot_[slot.of_class] + at.stream.index();
  const std::uint32_t number = (ended < all ? 0 : slots_[next].length()) + at.entry;
  if (next == index && number == slot.done) return std::nullopt;
  return Number{next, number, true};
}

bool Replay::may_start(std::size_t index) const {
  const Slot& slot = slots_[index];
  for (const Wait& wait : slot.entry(slot.done).waits) {
    const std::optional<Number> number = target(slot, wait);
    if (number && !has_ended(*number)) return false;
  }
  return !ahead_in_queue(index);
}

void Replay::end(std::size_t index) {
  Slot& slot = slots_[index];
  if (queues_ == Queues::one && graph::is_collective(task(slot, slot.done).operation)) ++communicated_[slot.of_class];
  slot.started = false;
  ++slot.done;
  if (changed_[slot.of_class]) return;
  changed_[slot.of_class] = true;
  open_.push_back(slot.of_class);
}

/// Runs the slot's entries as far as they can be run. Returns whether one ended.
bool Replay::advance(std::size_t index) {
  Slot& slot = slots_[index];
  bool any = false;
  while (!slot.finished() && !slot.started && may_start(index)) {
    if (queues_ == Queues::by_channel) clocks_[slot.of_class].start(slot.stream, slot.done);
    if (slot.members.empty()) {
      end(index);
    } else {
      slot.started = true;
      if (!std::ranges::all_of(slot.members, [&](std::size_t member) { return slots_[member].started; })) break;
      for (const std::size_t member : slot.members) end(member);
    }
    any = true;
  }
  return any;
}

void Replay::run() {
  for (std::size_t k = plans_.size(); k-- > 0;) open_.push_back(k);
  while (!open_.empty()) {
    const std::size_t k = open_.back();
    open_.pop_back();
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t slot = first_slot_[k]; slot < first_slot_[k + 1]; ++slot) progress |= advance(slot);
    }
    changed_[k] = false;
  }
  complete_ = std::ranges::all_of(slots_, &Slot::finished);
}

std::vector<Replay::Number> Replay::blockers(std::size_t index) const {
  const Slot& slot = slots_[index];
  std::vector<Number> found;
  if (slot.finished()) return found;
  if (slot.started) {
    for (const std::size_t member : slot.members) {
      if (!slots_[member].started) found.push_back({member, slot.done});
    }
    return found;
  }
  for (const Wait& wait : slot.entry(slot.done).waits) {
    const std::optional<Number> number = target(slot, wait);
    if (number && !has_ended(*number)) found.push_back(*number);
  }
  if (const std::optional<Number> ahead = ahead_in_queue(index)) found.push_back(*ahead);
  return found;
}

/// Every entry that can't start waits for another one that can't, so there is a cycle. A search from each slot by
/// breadth finds the shortest. Each entry waits for the next one, the last for the first slot's.
std::vector<Replay::Number> Replay::shortest_cycle() const {
  std::vector<std::vector<Number>> blocked(slots_.size());
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) blocked[slot] = blockers(slot);
  std::vector<Number> best;
  for (std::size_t first = 0; first < slots_.size(); ++first) {
    std::vector<std::pair<std::size_t, Number>> by(slots_.size(), {slots_.size(), {}});  // reached from, over
    std::vector<std::size_t> open = {first};
    for (std::size_t i = 0; i < open.size() && by[first].first == slots_.size(); ++i) {
      for (const Number& next : blocked[open[i]]) {
        if (by[next.slot].first != slots_.size()) continue;
        by[next.slot] = {open[i], next};
        open.push_back(next.slot);
      }
    }
    if (by[first].first == slots_.size()) continue;
    std::vector<Number> path;
    for (std::size_t at = first; path.empty() || at != first; at = by[at].first) path.push_back(by[at].second);
    if (best.empty() || path.size() < best.size()) best = std::move(path);
  }
  std::ranges::reverse(best);
  return best;
}

std::string Replay::name(const Number& number) const {
  const Slot& slot = slots_[number.slot];
  return fmt::format("{}{} ({}){}", prefix_of_class(slot.of_class, plans_.size()), task(slot, number.number).name,
                     plans_[slot.of_class]->streams[slot.stream].stream.name,
                     number.number < slot.length() ? "" : " of the second step");
}

Replay::Cycle Replay::cycle() const {
  const std::vector<Number> path = shortest_cycle();
  const std::size_t last = path.back().slot;
  Cycle cycle{.text = name({last, slots_[last].done})};
  for (std::size_t i = 0; i < path.size(); ++i) {
    const Slot& slot = slots_[path[i].slot];
    cycle.of_one_class = cycle.of_one_class && slot.of_class == slots_[last].of_class;
    cycle.text +=
        fmt::format("{} {} {}", i == 0 ? "" : ", which", path[i].by_queue ? "comes after" : "waits for", name(path[i]));
    if (path[i].number != slot.done) cycle.text += ", which comes after " + task(slot, slot.done).name;
  }
  return cycle;
}

}  // namespace weft::plan
