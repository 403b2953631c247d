// How far the device has come with a step: events behind some of its tasks, which anybody may ask while the host waits
// for the last of them.
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
///   marks.describe(0);                          // "compute0 is behind 'a', not yet behind 'b'"
class StepMarks {
 public:
  explicit StepMarks(Device& device) : device_(device) {}

  /// Once a stream, before its first mark.
  void add_stream(DeviceStream stream, std::size_t rank, std::string name);
  /// What the last step left is forgotten, and its events are not asked about again: from here on they may be recorded
  /// anew, in a capture as well.
  void clear();
  /// The event was just recorded on the stream, behind the task. It isn't recorded again in this step, and the name
  /// lives as long as the plan.
  void add(DeviceStream stream, DeviceEvent event, std::string_view task);

  /// Grows with every mark that the device comes past. A device that fails passes none.
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
