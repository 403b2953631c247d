// The watching thread, and the end of a stuck process.
#include "runtime/execute/watchdog.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/log.h"

namespace weft::execute {

Watchdog::Watchdog(double timeout_seconds, std::function<std::uint64_t()> progress, std::function<void()> on_stuck)
    : progress_(std::move(progress)),
      on_stuck_(std::move(on_stuck)),
      thread_([this, timeout_seconds] { watch(timeout_seconds); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stop_requested_.notify_all();
  thread_.join();
}

void Watchdog::watch(double timeout_seconds) {
  // Looks are counted, not seconds: a process that was suspended for an hour hasn't been stuck for an hour.
  // A look a second at least, so that ranks which stop together notice it together.
  const int looks = std::max(4, static_cast<int>(std::ceil(timeout_seconds)));
  const std::chrono::duration<double> interval(timeout_seconds / looks);
  std::uint64_t last = progress_();
  int unchanged = 0;
  std::unique_lock lock(mutex_);
  while (!stop_requested_.wait_for(lock, interval, [this] { return stop_; })) {
    const std::uint64_t now = progress_();
    unchanged = now == last ? unchanged + 1 : 0;
    last = now;
    if (unchanged != looks) continue;
    lock.unlock();
    on_stuck_();
    lock.lock();
  }
}

void exit_now(const std::string& text) {
  Log(LogTopic::watchdog).error("{}", text);
  std::_Exit(3);
}

Watchdog exit_after(double seconds, std::string text) {
  return {seconds, [] { return std::uint64_t{0}; }, [text = std::move(text)] { exit_now(text); }};
}

std::function<void()> report_and_exit(std::function<std::string()> describe, comm::World& world, double grace_seconds) {
  return [describe = std::move(describe), &world, grace_seconds] {
    const Log log(LogTopic::watchdog, world.rank());
    log.tell(LogLevel::error, describe());
    if (world.size() > 1) {
      std::this_thread::sleep_for(std::chrono::duration<double>(grace_seconds));
      log.tell(LogLevel::error, "weft: no progress, giving up; ranks without a report were not inside a step");
    }
    if (world.of_processes()) world.abort("stuck", 3);
    std::_Exit(3);
  };
}

}  // namespace weft::execute
