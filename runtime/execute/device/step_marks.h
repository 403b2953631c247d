// The progress of the device in a step: events after some of its tasks, which any thread may query while the host waits
// for the step's end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/execute/device/device.h"

namespace weft::execute {

/// One thread enqueues; any thread asks.
///
///   marks.clear();
///   device.record(event, stream);
///   marks.add(stream, event, task.name);
///   …                                           // meanwhile, a watchdog:
///   marks.passed();                             // 17
///   marks.describe(0);                          // "compute0 has passed 'a', not yet passed 'b'"
class StepMarks {
 public:
  explicit StepMarks(Device& device) : device_(device) {}

  /// Once a stream, before its first mark.
  void add_stream(DeviceStream stream, std::size_t rank, std::string name);
  /// Forgets the marks of the last step and never queries their events again, so that these may be recorded again, also
  /// in a capture.
  void clear();
  /// The event was just recorded on the stream, after the task. It must not be recorded again in this step, and the
  /// name must live as long as the plan.
  void add(DeviceStream stream, DeviceEvent event, std::string_view task);

  /// Counts the marks that the device has passed. A device that failed passes none.
  std::uint64_t passed();
  /// Of a rank's streams that have marks; "" if there are none.
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
  std::mutex mutex_;
  std::vector<Lane> lanes_;
  std::uint64_t passed_ = 0;
};

}  // namespace weft::execute
