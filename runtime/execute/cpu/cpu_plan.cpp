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

}  // namespace weft::execute
