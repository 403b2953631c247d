#include "runtime/execute/cpu/cpu_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "runtime/execute/non_finite.h"

namespace weft::execute {

StreamBatches::StreamBatches(const plan::Plan& plan, plan::StreamId stream) {
  const std::vector<plan::Entry>& entries = plan.streams[stream.index()].entries;
  for (std::uint32_t e = 0; e < entries.size(); ++e) {
    const plan::Entry& entry = entries[e];
    if (batches_.empty() || batches_.back().signals || !entry.waits.empty()) {
      const auto first = static_cast<std::uint32_t>(waits_.size());
      for (const plan::Wait& wait : entry.waits) {
        const auto length = static_cast<std::int64_t>(plan.streams[wait.stream.index()].entries.size());
        waits_.push_back({wait.stream.value, std::int64_t{wait.entry} + 1 - wait.distance * length});
      }
      batches_.push_back({e, e, first, static_cast<std::uint32_t>(waits_.size()), false});
    }
    batches_.back().end = e + 1;
    batches_.back().signals = entry.signals || e + 1 == entries.size();
  }
}

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

cpu::Scratch CpuPlan::prepare(const PlanMemory& memory, const GemmTuning* tuning) {
  cpu::Scratch most;
  for (CpuStream& stream : streams) {
    stream.tasks.clear();
    stream.calls.clear();
    for (const plan::Entry& entry : stream.plan->entries) {
      const graph::Task& task = plan->graph->task(entry.task);
      const std::vector<cpu::Matrix> arguments = memory.arguments(*plan, task);
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
