// Waiting for another rank: a few tries in a row, then the thread yields its core for a while, then it sleeps.
//
// A spinning waiter occupies a core that the awaited rank may need. With more runnable threads than cores, each such
// wait costs a time slice of the scheduler (several milliseconds). That is why the yields end by time, not by number:
// one yield to a thread that computes takes such a slice, and the next try would take as much of the core again.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace weft::comm {

/// State of one wait. Call pause() after each try that failed:
///
///   for (Backoff backoff; !communicator.progress();) backoff.pause();
class Backoff {
 public:
  using Duration = std::chrono::steady_clock::duration;

  Backoff() = default;
  /// For long waits in which tries cost others more than a late end costs the waiter: sleeps grow to a sixteenth of the
  /// time waited so far, up to `longest_sleep`.
  explicit Backoff(Duration longest_sleep) : longest_sleep_(longest_sleep) {}

  void pause() {
    if (tries_ < kSpins) {
      ++tries_;
      return;
    }
    const auto now = std::chrono::steady_clock::now();
    if (tries_ == kSpins) {
      ++tries_;
      begin_ = now;
    }
    const Duration waited = now - begin_;
    if (waited < kYielding) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::clamp(waited / 16, kShortestSleep, longest_sleep_));
    }
  }

 private:
  static constexpr int kSpins = 50;
  static constexpr Duration kYielding = std::chrono::milliseconds(2), kShortestSleep = std::chrono::microseconds(50);
  Duration longest_sleep_ = kShortestSleep;
  std::chrono::steady_clock::time_point begin_;
  int tries_ = 0;
};

}  // namespace weft::comm
