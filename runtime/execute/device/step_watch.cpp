#include "runtime/execute/device/step_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace weft::execute {

void StepWatch::add_stream(DeviceStream stream, std::size_t rank, std::string name) {
  const std::lock_guard lock(mutex_);
  lanes_.push_back({stream, rank, std::move(name), {}, 0});
}

void StepWatch::clear(Marking marking) {
  const std::lock_guard lock(mutex_);
  for (Lane& lane : lanes_) {
    lane.marks.clear();
    lane.passed = 0;
  }
  marking_ = marking;
}

void StepWatch::mark(DeviceStream stream, DeviceEvent event, std::string_view task) {
  if (marking_ == Marking::none) return;
  const std::lock_guard lock(mutex_);
  std::ranges::find(lanes_, stream, &Lane::stream)->marks.push_back({event, task});
}

void StepWatch::begin(std::int64_t now, std::int64_t replay_due) {
  begun_at_.store(now);
  replay_due_at_.store(replay_due);
  running_.store(true, std::memory_order_release);
}

void StepWatch::finish(bool last) {
  if (last) stop();
  completed_.fetch_add(1, std::memory_order_relaxed);
}

void StepWatch::look() {
  try {
    for (Lane& lane : lanes_) {
      while (lane.passed < lane.marks.size() && device_.passed(lane.marks[lane.passed].event)) {
        ++lane.passed;
        ++passed_;
      }
    }
  } catch (const std::exception&) {  // the caller that waits for the step gets the error
  }
}

// A captured step has no marks; it is given twice the time that the last took.
ExecutorStatus StepWatch::status() {
  if (steady_now() < replay_due_at_.load()) looks_at_replay_.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  look();
  return {running_.load(std::memory_order_acquire),
          completed_.load(std::memory_order_relaxed) + passed_ + looks_at_replay_.load(std::memory_order_relaxed)};
}

std::string StepWatch::describe(std::size_t rank) {
  if (!running_.load(std::memory_order_acquire)) return "between steps";
  const double seconds = static_cast<double>(steady_now() - begun_at_.load()) * 1e-9;
  std::string text = fmt::format("the device is running a step, for {:.1f} s", seconds);
  if (replay_due_at_.load() != 0) return text + ", as one captured graph";
  const std::lock_guard lock(mutex_);
  look();
  for (const Lane& lane : lanes_) {
    if (lane.rank != rank || lane.marks.empty()) continue;
    text += fmt::format("; {} has", lane.name);
    if (lane.passed > 0) text += fmt::format(" passed '{}'", lane.marks[lane.passed - 1].task);
    if (lane.passed > 0 && lane.passed < lane.marks.size()) text += ",";
    if (lane.passed < lane.marks.size()) text += fmt::format(" not yet passed '{}'", lane.marks[lane.passed].task);
  }
  return text;
}

}  // namespace weft::execute
