#include "runtime/execute/cpu/step_position.h"

#include <fmt/format.h>

namespace weft::execute {

std::uint64_t finished_entries(const CpuPlan& loaded) {
  std::uint64_t finished = 0;
  for (const CpuStream& stream : loaded.streams) {
    finished += static_cast<std::uint64_t>(stream.finished.load(std::memory_order_relaxed));
  }
  return finished;
}

std::string describe_position(const CpuPlan& loaded) {
  const plan::Plan& plan = *loaded.plan;
  const auto name_of = [&](plan::StreamId stream, std::size_t entry) {
    return plan.graph->task(plan.streams[stream.index()].entries[entry].task).name;
  };
  std::string text;
  for (std::size_t s = 0; s < loaded.streams.size(); ++s) {
    const CpuStream& stream = loaded.streams[s];
    const auto entries = static_cast<std::int64_t>(stream.plan->entries.size());
    const std::int64_t before = loaded.runs * entries;  // read first: the step may end meanwhile
    const std::int64_t at = stream.finished.load(std::memory_order_acquire) - before;
    text += fmt::format("\n  stream {}: ", stream.plan->stream.name);
    if (at >= entries) {
      text += fmt::format("done, {} of {} tasks", entries, entries);
      continue;
    }
    const auto entry = static_cast<std::size_t>(at);
    text += fmt::format("{} of {} tasks done, at {} '{}'", at, entries,
                        stream.plan->stream.compute ? "task" : "collective", name_of(plan::StreamId(s), entry));
    std::string missing;
    for (const plan::Wait& wait : stream.plan->entries[entry].waits) {
      if (loaded.passed(wait)) continue;
      missing += fmt::format("{}'{}' on {}", missing.empty() ? "" : ", ", name_of(wait.stream, wait.entry),
                             plan.streams[wait.stream.index()].stream.name);
    }
    if (!missing.empty()) {
      text += ", waits for " + missing;
    } else {
      text += stream.plan->stream.compute ? ", running" : ", posted: waits for its peers";
    }
  }
  return text;
}

}  // namespace weft::execute
