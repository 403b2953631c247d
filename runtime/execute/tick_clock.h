// The clock of traces: a counter that is read in a few nanoseconds, tied to steady_clock at both ends of a step.
#pragma once

#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace weft::execute {

/// Of steady_clock, in nanoseconds.
inline std::int64_t steady_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Ticks are the CPU's time-stamp counter if the CPU has a constant rate for it, else nanoseconds of steady_clock.
/// Ticks of all threads are on one clock.
///
///   const TickClock clock;
///   const TickClock::Reading begin = clock.read();
///   const std::int64_t event = clock.now();
///   nanoseconds(event, begin, clock.read());   // of steady_clock
class TickClock {
 public:
  /// Measures the length of a tick for some ten microseconds.
  TickClock();
  /// For tests: `counter` replaces the CPU's report.
  explicit TickClock(bool counter);

  /// Earlier writes may not have reached memory yet, but no later write is visible to other threads.
  std::int64_t now() const {
#if defined(__x86_64__)
    if (counter_) return static_cast<std::int64_t>(__rdtsc());
#endif
    return steady_now();
  }

  /// After all loads before it: no earlier than the end of what this thread has waited for.
  std::int64_t now_after_loads() const {
#if defined(__x86_64__)
    if (counter_) _mm_lfence();
#endif
    return now();
  }

  /// The approximate number of ticks in `ns` nanoseconds.
  std::int64_t ticks_in(std::int64_t ns) const {
    return static_cast<std::int64_t>(static_cast<double>(ns) * per_ns_);
  }

  /// One moment by both clocks.
  struct Reading {
    std::int64_t ticks = 0, ns = 0;
  };
  Reading read() const;

 private:
  bool counter_ = false;
  double per_ns_ = 1;
};

/// The nanosecond of steady_clock at which the counter stood at `ticks`, on the line through two readings; never
/// outside of them, and never falling as ticks rise.
std::int64_t nanoseconds(std::int64_t ticks, const TickClock::Reading& begin, const TickClock::Reading& end);

}  // namespace weft::execute
