#include "runtime/plan/joint_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "graph/grid.h"

namespace weft::plan {
namespace {

constexpr std::uint32_t kNoEntry = std::numeric_limits<std::uint32_t>::max();

}  // namespace

JointReplay::JointReplay(std::span<const Plan* const> plans, Queues queues)
    : plans_(plans), queues_(queues), communicated_(plans.size()), changed_(plans.size(), true) {
  for (std::size_t stage = 0; stage < plans.size(); ++stage) {
    first_slot_.push_back(slots_.size());
    for (std::size_t stream = 0; stream < plans[stage]->streams.size(); ++stream) {
      slots_.push_back({.stage = stage, .stream = stream, .members = {}});
    }
  }
  first_slot_.push_back(slots_.size());
  find_members();
  run();
}

void JointReplay::find_members() {
  const auto slot_of = [&](std::size_t stage, graph::Channel channel) {
    const std::vector<StreamPlan>& streams = plans_[stage]->streams;
    const auto found = std::ranges::find_if(
        streams, [&](const StreamPlan& s) { return !s.stream.compute && s.stream.channel == channel; });
    return first_slot_[stage] + static_cast<std::size_t>(found - streams.begin());
  };
  for (Slot& slot : slots_) {
    if (!communicates(slot)) continue;
    const graph::Channel channel = plans_[slot.stage]->streams[slot.stream].stream.channel;
    if (graph::is_message(channel)) {
      const auto peer =
          graph::peer_stage(channel, static_cast<std::int64_t>(slot.stage), static_cast<std::int64_t>(plans_.size()));
      slot.members = {slot_of(slot.stage, channel), slot_of(static_cast<std::size_t>(peer), graph::other_end(channel))};
    } else {
      const std::vector<std::size_t> stages = graph::classes_of_channel(channel, plans_.size());
      if (stages.size() < 2) continue;
      for (const std::size_t stage : stages) slot.members.push_back(slot_of(stage, channel));
    }
  }
}

std::uint32_t JointReplay::length(const Slot& slot) const {
  return static_cast<std::uint32_t>(plans_[slot.stage]->streams[slot.stream].entries.size());
}

const Entry& JointReplay::entry(const Slot& slot, std::uint32_t number) const {
  return plans_[slot.stage]->streams[slot.stream].entries[number % length(slot)];
}

bool JointReplay::communicates(const Slot& slot) const {
  const Plan& plan = *plans_[slot.stage];
  const Stream& stream = plan.streams[slot.stream].stream;
  return !stream.compute && !plan.graph->is_local(stream.channel);
}

JointReplay::Number JointReplay::target(const Slot& slot, const Wait& wait) const {
  const std::size_t other = first_slot_[slot.stage] + wait.stream.index();
  const std::uint32_t step = slot.done < length(slot) ? 0 : 1;
  if (wait.distance > step) return {other, kNoEntry};
  return {other, (step - wait.distance) * length(slots_[other]) + wait.entry};
}

JointReplay::Number JointReplay::next_in_queue(std::size_t stage) const {
  const Plan& plan = *plans_[stage];
  const Position at = plan.position[plan.collectives[communicated_[stage] % plan.collectives.size()].index()];
  const std::size_t slot = first_slot_[stage] + at.stream.index();
  const auto step = static_cast<std::uint32_t>(communicated_[stage] / plan.collectives.size());
  return {slot, step * length(slots_[slot]) + at.entry, true};
}

bool JointReplay::may_start(const Slot& slot) const {
  for (const Wait& wait : entry(slot, slot.done).waits) {
    const Number number = target(slot, wait);
    if (number.number != kNoEntry && !has_ended(number)) return false;
  }
  if (queues_ == Queues::by_channel || !communicates(slot)) return true;
  const Number next = next_in_queue(slot.stage);
  return &slots_[next.slot] == &slot && next.number == slot.done;
}

void JointReplay::end(std::size_t index) {
  Slot& slot = slots_[index];
  slot.started = false;
  ++slot.done;
  if (communicates(slot)) ++communicated_[slot.stage];
  if (changed_[slot.stage]) return;
  changed_[slot.stage] = true;
  open_.push_back(slot.stage);
}

/// Runs the slot's entries as far as they can be run. Returns whether one ended.
bool JointReplay::advance(std::size_t index) {
  Slot& slot = slots_[index];
  bool any = false;
  while (slot.done < 2 * length(slot) && !slot.started && may_start(slot)) {
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

void JointReplay::run() {
  for (std::size_t stage = plans_.size(); stage-- > 0;) open_.push_back(stage);
  while (!open_.empty()) {
    const std::size_t stage = open_.back();
    open_.pop_back();
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t slot = first_slot_[stage]; slot < first_slot_[stage + 1]; ++slot) progress |= advance(slot);
    }
    changed_[stage] = false;
  }
  complete_ = std::ranges::all_of(slots_, [&](const Slot& slot) { return slot.done == 2 * length(slot); });
}

std::vector<JointReplay::Number> JointReplay::blockers(std::size_t index) const {
  const Slot& slot = slots_[index];
  std::vector<Number> found;
  if (slot.done == 2 * length(slot)) return found;
  if (slot.started) {
    for (const std::size_t member : slot.members) {
      if (!slots_[member].started) found.push_back({member, slot.done});
    }
    return found;
  }
  for (const Wait& wait : entry(slot, slot.done).waits) {
    const Number number = target(slot, wait);
    if (number.number != kNoEntry && !has_ended(number)) found.push_back(number);
  }
  if (queues_ == Queues::one && communicates(slot)) {
    const Number next = next_in_queue(slot.stage);
    if (next.slot != index || next.number != slot.done) found.push_back(next);
  }
  return found;
}

std::string JointReplay::name(Number number) const {
  const Slot& slot = slots_[number.slot];
  const Plan& plan = *plans_[slot.stage];
  return fmt::format("stage {}: {} ({}){}", slot.stage, plan.graph->task(entry(slot, number.number).task).name,
                     plan.streams[slot.stream].stream.name, number.number < length(slot) ? "" : " of the second step");
}

std::string JointReplay::circle() const {
  if (complete_) return "";
  std::vector<std::vector<Number>> blocked(slots_.size());
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) blocked[slot] = blockers(slot);
  // Every entry that stands still waits for another one that does, so there is a circle. A search from each slot by
  // breadth finds the shortest.
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
  std::string text = name({best.back().slot, slots_[best.back().slot].done});
  for (std::size_t i = 0; i < best.size(); ++i) {
    const Slot& slot = slots_[best[i].slot];
    text +=
        fmt::format("{} {} {}", i == 0 ? "" : ", which", best[i].by_queue ? "comes after" : "waits for", name(best[i]));
    if (best[i].number != slot.done)
      text += fmt::format(", which comes after {}", plans_[slot.stage]->graph->task(entry(slot, slot.done).task).name);
  }
  return text;
}

}  // namespace weft::plan
