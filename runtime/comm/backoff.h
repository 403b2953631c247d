// How Weft waits for another rank: try a few times at once, then give the core away, then sleep.
//
// A waiter that spins takes the core that the awaited rank may need: with more runnable threads than cores each such
// wait costs a scheduler slice (several milliseconds).
#pragma once

#include <chrono>
#include <thread>

namespace weft::comm {

/// One wait. Call pause() after each fruitless try:
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
