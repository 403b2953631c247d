#include "runtime/execute/cpu/collective_progress.h"

#include <algorithm>

namespace weft::execute {

void CollectiveProgress::poll(CpuPlan& loaded) {
  if (polling_.test_and_set(std::memory_order_acquire)) return;
  struct Unlock {
    std::atomic_flag& flag;
    ~Unlock() { flag.clear(std::memory_order_release); }
  } unlock{polling_};
  for (std::size_t s = loaded.compute_streams; s < loaded.streams.size(); ++s) {
    advance(loaded, loaded.streams[s], loaded.traces.times(s));
  }
  last_.store(clock_.now(), std::memory_order_relaxed);
}

void CollectiveProgress::advance(CpuPlan& loaded, CpuStream& stream, plan::TaskTime* times) {
  const auto& entries = stream.plan->entries;
  while (stream.next < entries.size()) {
    const plan::Entry& entry = entries[stream.next];
    if (!stream.in_flight) {
      if (!std::ranges::all_of(entry.waits, [&](const plan::Wait& wait) { return loaded.passed(wait); })) return;
      if (times != nullptr) times[stream.next].begin = clock_.now_after_loads();
      stream.communicator->start(stream.calls[stream.next]);
      stream.in_flight = true;
    }
    if (!stream.communicator->progress()) return;
    if (times != nullptr) times[stream.next].end = clock_.now();
    if (check_ != nullptr) check_->look_at(*loaded.plan, entry.task);
    stream.in_flight = false;
    ++stream.next;
    const std::int64_t done = stream.finished.load(std::memory_order_relaxed) + 1;
    stream.finished.store(done, std::memory_order_relaxed);
    stream.completed.store(done, std::memory_order_release);
  }
}

}  // namespace weft::execute
