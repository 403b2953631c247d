// Notices that a run makes no progress, reports its position and ends it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/comm/communicator.h"

namespace weft::execute {

/// A rank that waits for a collective which a lost or confused peer never joins would wait for ever, silently. The
/// watchdog is a thread that looks at a counter of finished tasks; when the counter hasn't changed for the timeout, it
/// calls `on_stuck`, once per stall.
///
///   Watchdog watchdog(300, [&] { return executor.tasks_done(); },
///                     report_and_exit([&] { return executor.describe_position(); }, world, 5));
class Watchdog {
 public:
  /// Calls `progress` several times within the timeout, on its own thread; a stall is noticed after at most 1.25
  /// timeouts. Time in which the whole process is suspended doesn't count. The callbacks must not throw.
  Watchdog(double timeout_seconds, std::function<std::uint64_t()> progress, std::function<void()> on_stuck);
  /// Returns at once, unless `on_stuck` is running.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch(double timeout_seconds);

  std::function<std::uint64_t()> progress_;
  std::function<void()> on_stuck_;
  std::mutex mutex_;
  std::condition_variable stop_requested_;
  bool stop_ = false;
  std::thread thread_;
};

/// A limit for the end of a run that has failed, which may wait for ever for a device or a peer: a process that still
/// has the result after `seconds` prints `text` and ends with exit code 3. The result must be destroyed in the same
/// scope.
///
///   const Watchdog limit = exit_after(30, "rank 0: no peers; the GPU didn't leave its collectives within 30 s");
///   transport.stop();
Watchdog exit_after(double seconds, std::string text);

/// Prints `text` and ends the process with exit code 3: where a device may still use what its owner would free.
[[noreturn]] void exit_now(const std::string& text);

/// The usual `on_stuck`: prints the text of `describe` (one rank's streams, tasks and pending collectives) to stderr
/// and to the log, lets `grace_seconds` pass if there are other ranks, so that those that are stuck as well can report
/// too, and ends the process, with MPI all processes, with exit code 3.
std::function<void()> report_and_exit(std::function<std::string()> describe, comm::World& world, double grace_seconds);

}  // namespace weft::execute
