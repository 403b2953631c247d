// The state of a team's steps for a watchdog, readable from any thread while one thread enqueues them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/execute/device/device.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/tick_clock.h"

namespace weft::execute {

/// The progress of the running step by its marks: events after some of its tasks, which any thread may query while the
/// host waits for the step's end. A captured graph has no marks, but a time limit.
///
///   watch.clear(StepWatch::Marking::all);
///   device.record(event, stream);
///   watch.mark(stream, event, task.name);
///   …                                           // meanwhile, a watchdog:
///   watch.describe(0);                          // "…; compute0 has passed 'a', not yet passed 'b'"
class StepWatch {
 public:
  /// The marks of the step being enqueued: none in a capture, whose events never pass; signals, which are recorded in
  /// any case; or all, for steps long enough for a watchdog's query.
  enum class Marking : std::uint8_t { none, signals, all };

  explicit StepWatch(Device& device) : device_(device) {}

  /// Once a stream, before its first mark.
  void add_stream(DeviceStream stream, std::size_t rank, std::string name);
  /// Forgets the marks of the last step and never queries their events again, so that these may be recorded again, also
  /// in a capture. `marking` selects the marks of the next step.
  void clear(Marking marking);
  bool marks_all() const { return marking_ == Marking::all; }
  /// The event was just recorded on the stream, after the task. It must not be recorded again in this step, and the
  /// name must live as long as the plan.
  void mark(DeviceStream stream, DeviceEvent event, std::string_view task);

  /// The host came to a step at `now`; `replay_due`: when a replayed one should long be over, 0 for another.
  void begin(std::int64_t now, std::int64_t replay_due);
  /// A step is finished, the last one if no other is under way.
  void finish(bool last);
  /// Marks that no step runs.
  void stop() { running_.store(false, std::memory_order_release); }

  /// Counts the marks that the device has passed. A device that failed passes none.
  ExecutorStatus status();
  /// The streams of a rank that have marks.
  std::string describe(std::size_t rank);

 private:
  struct Mark {
    DeviceEvent event;
    std::string_view task;
  };
  struct Lane {
    DeviceStream stream;
    std::size_t rank = 0;
    std::string name;
    std::vector<Mark> marks;  // of this step, in order
    std::size_t passed = 0;   // how many of them
  };

  void look();  // under the mutex

  Device& device_;
  Marking marking_ = Marking::none;
  std::mutex mutex_;  // of the lanes
  std::vector<Lane> lanes_;
  std::uint64_t passed_ = 0;                    // marks of all steps
  std::atomic<std::int64_t> begun_at_{0};       // of the step that is running, steady nanoseconds
  std::atomic<std::int64_t> replay_due_at_{0};  // when a replayed step should long be over; 0: none
  std::atomic<std::uint64_t> looks_at_replay_{0};
  std::atomic<bool> running_{false};
  std::atomic<std::uint64_t> completed_{0};
};

}  // namespace weft::execute
