// The state of a team's steps for a watchdog, readable from any thread while one thread enqueues them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/execute/device/step_marks.h"
#include "runtime/execute/executor.h"

namespace weft::execute {

/// Of steady_clock, in nanoseconds.
std::int64_t steady_now();

/// The state of the running step, by its marks; a captured graph has no marks, but a time limit.
class StepWatch {
 public:
  /// The marks of the step being enqueued: none in a capture, whose events never pass; signals, which are recorded in
  /// any case; or all, for steps long enough for a watchdog's query.
  enum class Marking : std::uint8_t { none, signals, all };

  explicit StepWatch(Device& device) : marks_(device) {}

  void add_stream(DeviceStream stream, std::size_t rank, std::string name) {
    marks_.add_stream(stream, rank, std::move(name));
  }
  /// Forgets the last step's marks; `marking` selects the marks of the next step.
  void clear(Marking marking) {
    marks_.clear();
    marking_ = marking;
  }
  bool marks_all() const { return marking_ == Marking::all; }
  void mark(DeviceStream stream, DeviceEvent event, std::string_view task) {
    if (marking_ != Marking::none) marks_.add(stream, event, task);
  }

  /// The host came to a step at `now`; `replay_due`: when a replayed one should long be over, 0 for another.
  void begin(std::int64_t now, std::int64_t replay_due);
  /// A step is finished, the last one if no other is under way.
  void finish(bool last);
  /// Marks that no step runs.
  void stop() { running_.store(false, std::memory_order_release); }

  ExecutorStatus status();
  std::string describe(std::size_t rank);

 private:
  StepMarks marks_;
  Marking marking_ = Marking::none;
  std::atomic<std::int64_t> begun_at_{0};  // of the step that is running, steady nanoseconds
  std::atomic<std::int64_t> replay_due_at_{
      0};  // when a replayed step, which has no marks, should long be over; 0: none
  std::atomic<std::uint64_t> looks_at_replay_{0};
  std::atomic<bool> running_{false};
  std::atomic<std::uint64_t> completed_{0};
};

}  // namespace weft::execute
