#include "runtime/execute/device/step_watch.h"

#include <fmt/format.h>

#include <chrono>

namespace weft::execute {

std::int64_t steady_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void StepWatch::begin(std::int64_t now, std::int64_t replay_due) {
  begun_at_.store(now);
  replay_due_at_.store(replay_due);
  running_.store(true, std::memory_order_release);
}

void StepWatch::finish(bool last) {
  if (last) stop();
  completed_.fetch_add(1, std::memory_order_relaxed);
}

// A captured step has no marks; it is given twice the time that the last took.
ExecutorStatus StepWatch::status() {
  if (steady_now() < replay_due_at_.load()) looks_at_replay_.fetch_add(1, std::memory_order_relaxed);
  return {running_.load(std::memory_order_acquire), completed_.load(std::memory_order_relaxed) + marks_.passed() +
                                                        looks_at_replay_.load(std::memory_order_relaxed)};
}

std::string StepWatch::describe(std::size_t rank) {
  if (!running_.load(std::memory_order_acquire)) return "between steps";
  const double seconds = static_cast<double>(steady_now() - begun_at_.load()) * 1e-9;
  std::string text = fmt::format("the device is running a step, for {:.1f} s", seconds);
  if (replay_due_at_.load() != 0) return text + ", as one captured graph";
  const std::string streams = marks_.describe(rank);
  return streams.empty() ? text : text + "; " + streams;
}

}  // namespace weft::execute
