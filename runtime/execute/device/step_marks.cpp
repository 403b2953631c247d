#include "runtime/execute/device/step_marks.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace weft::execute {

void StepMarks::add_stream(DeviceStream stream, std::size_t rank, std::string name) {
  const std::lock_guard lock(mutex_);
  lanes_.push_back({stream, rank, std::move(name), {}, 0});
}

void StepMarks::clear() {
  const std::lock_guard lock(mutex_);
  for (Lane& lane : lanes_) {
    lane.marks.clear();
    lane.passed = 0;
  }
}

void StepMarks::add(DeviceStream stream, DeviceEvent event, std::string_view task) {
  const std::lock_guard lock(mutex_);
  std::ranges::find(lanes_, stream, &Lane::stream)->marks.push_back({event, task});
}

void StepMarks::look() {
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

std::uint64_t StepMarks::passed() {
  const std::lock_guard lock(mutex_);
  look();
  return passed_;
}

std::string StepMarks::describe(std::size_t rank) {
  const std::lock_guard lock(mutex_);
  look();
  std::string text;
  for (const Lane& lane : lanes_) {
    if (lane.rank != rank || lane.marks.empty()) continue;
    text += fmt::format("{}{} has", text.empty() ? "" : "; ", lane.name);
    if (lane.passed > 0) text += fmt::format(" passed '{}'", lane.marks[lane.passed - 1].task);
    if (lane.passed > 0 && lane.passed < lane.marks.size()) text += ",";
    if (lane.passed < lane.marks.size()) text += fmt::format(" not yet passed '{}'", lane.marks[lane.passed].task);
  }
  return text;
}

}  // namespace weft::execute
