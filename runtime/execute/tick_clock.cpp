#include "runtime/execute/tick_clock.h"

#include <algorithm>
#include <limits>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace weft::execute {
namespace {

bool counter_is_constant() {
#if defined(__x86_64__)
  constexpr unsigned kPowerManagement = 0x80000007, kInvariantCounter = 1U << 8;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(kPowerManagement, &a, &b, &c, &d) != 0 && (d & kInvariantCounter) != 0;
#else
  return false;
#endif
}

}  // namespace

TickClock::TickClock() : TickClock(counter_is_constant()) {}

TickClock::TickClock(bool counter) : counter_(counter) {
  if (!counter) return;
  constexpr std::int64_t kLook = 20'000;  // ns
  const Reading begin = read();
  Reading end = begin;
  while (end.ns < begin.ns + kLook) end = read();
  per_ns_ = static_cast<double>(end.ticks - begin.ticks) / static_cast<double>(end.ns - begin.ns);
}

TickClock::Reading TickClock::read() const {
  constexpr int kTries = 3;  // an interrupt between the two clocks would tear the moment apart
  Reading best;
  std::int64_t best_width = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < kTries; ++i) {
    const std::int64_t before = now_after_loads(), ns = steady_now(), after = now_after_loads();
    if (after - before >= best_width) continue;
    best_width = after - before;
    best = {before + (after - before) / 2, ns};
  }
  return best;
}

std::int64_t nanoseconds(std::int64_t ticks, const TickClock::Reading& begin, const TickClock::Reading& end) {
  if (ticks <= begin.ticks) return begin.ns;
  if (ticks >= end.ticks) return end.ns;
  const double part = static_cast<double>(ticks - begin.ticks) / static_cast<double>(end.ticks - begin.ticks);
  return std::min(end.ns, begin.ns + static_cast<std::int64_t>(part * static_cast<double>(end.ns - begin.ns)));
}

}  // namespace weft::execute
