// Waiting for another rank: a few tries in a row, then the thread yields its core, then it sleeps.
//
// A spinning waiter occupies a core that the awaited rank may need. With more runnable threads than cores, each such
// wait costs a time slice of the scheduler (several milliseconds).
#pragma once

#include <chrono>
#include <thread>

namespace weft::comm {

/// State of one wait. Call pause() after each try that failed:
///
///   for (Backoff backoff; !communicator.progress();) backoff.pause();
class Backoff {
 public:
  void pause() {
    ++tries_;
    if (tries_ <= kSpins) return;
    if (tries_ <= kYields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  static constexpr int kSpins = 50, kYields = 2000;
  int tries_ = 0;
};

}  // namespace weft::comm
