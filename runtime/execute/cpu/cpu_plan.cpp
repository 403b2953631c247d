#include "runtime/execute/cpu/cpu_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace weft::execute {

CpuPlan::CpuPlan(std::shared_ptr<const plan::Plan> loaded, const CommunicatorSet& communicators,
                 std::int64_t kept_steps)
    : plan(std::move(loaded)), traces(*plan, kept_steps) {
  const auto is_compute = [](const plan::StreamPlan& stream) { return stream.stream.compute; };
  compute_streams = static_cast<std::size_t>(std::ranges::count_if(plan->streams, is_compute));
  if (compute_streams == 0 || !std::ranges::is_partitioned(plan->streams, is_compute)) {
    throw std::logic_error("a plan's compute streams, at least one, come before its communication streams");
  }
  for (const plan::StreamPlan& stream : plan->streams) {
    CpuStream& made = streams.emplace_back();
    made.plan = &stream;
    if (stream.stream.compute) {
      made.batches = StreamBatches(*plan, plan::StreamId(streams.size() - 1));
      made.known.resize(plan->streams.size());
    } else {
      made.communicator = communicators.on(stream.stream.channel);
      if (made.communicator == nullptr) {
        throw std::logic_error(fmt::format("no communicator for channel {}", graph::to_string(stream.stream.channel)));
      }
    }
  }
}

cpu::Scratch CpuPlan::prepare(const CpuMemory& memory, const GemmTuning* tuning) {
  cpu::Scratch most;
  for (CpuStream& stream : streams) {
    stream.tasks.clear();
    stream.calls.clear();
    for (const plan::Entry& entry : stream.plan->entries) {
      const graph::Task& task = plan->graph->task(entry.task);
      std::vector<cpu::Matrix> arguments;
      arguments.reserve(task.accesses.size());
      for (const graph::Access& access : task.accesses) arguments.push_back(memory.matrix(*plan, access.view));
      if (stream.plan->stream.compute) {
        stream.tasks.emplace_back(task.operation, arguments, tuning);
        most = larger(most, stream.tasks.back().scratch());
      } else {
        stream.calls.push_back(collective_call(task, arguments, stream.communicator->rank()));
      }
    }
  }
  return most;
}

std::uint64_t CpuPlan::finished_entries() const {
  std::uint64_t finished = 0;
  for (const CpuStream& stream : streams) {
    finished += static_cast<std::uint64_t>(stream.finished.load(std::memory_order_relaxed));
  }
  return finished;
}

std::string CpuPlan::describe_position() const {
  const auto name_of = [&](plan::StreamId stream, std::size_t entry) {
    return plan->graph->task(plan->streams[stream.index()].entries[entry].task).name;
  };
  std::string text;
  for (std::size_t s = 0; s < streams.size(); ++s) {
    const CpuStream& stream = streams[s];
    const auto entries = static_cast<std::int64_t>(stream.plan->entries.size());
    const std::int64_t before = runs * entries;  // read first: the step may end meanwhile
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
      if (passed(wait)) continue;
      missing += fmt::format("{}'{}' on {}", missing.empty() ? "" : ", ", name_of(wait.stream, wait.entry),
                             plan->streams[wait.stream.index()].stream.name);
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
