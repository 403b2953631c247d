// Waiting for another rank: a few tries in a row, then the thread yields its core for a while, then it sleeps.
//
// A spinning waiter occupies a core that the awaited rank may need. With more runnable threads than cores, each such
// wait costs a time slice of the scheduler (several milliseconds).
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
  /// For a waiter on cores that the awaited rank needs. It yields for 2 ms and not for a number of tries: beside a
  /// thread that computes, each yield lasts a time slice, and each try takes as much of the core again. Its sleeps grow
  /// to a sixteenth of the time waited so far, up to `longest_sleep`.
  explicit Backoff(Duration longest_sleep) : longest_sleep_(longest_sleep) {}

  void pause() {
    ++tries_;
    if (tries_ <= kSpins) return;
    if (longest_sleep_ == kShortestSleep) {
      rest(tries_ <= kYields, kShortestSleep);
      return;
    }
    const auto now = std::chrono::steady_clock::now();
    if (tries_ == kSpins + 1) begin_ = now;
    const Duration waited = now - begin_;
    rest(waited < kYielding, std::clamp(waited / 16, kShortestSleep, longest_sleep_));
  }

 private:
  static constexpr int kSpins = 50, kYields = 2000;
  static constexpr Duration kYielding = std::chrono::milliseconds(2), kShortestSleep = std::chrono::microseconds(50);

  static void rest(bool yields, Duration sleep) {
    if (yields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(sleep);
    }
  }

  Duration longest_sleep_ = kShortestSleep;
  std::chrono::steady_clock::time_point begin_;
  int tries_ = 0;
};

}  // namespace weft::comm
