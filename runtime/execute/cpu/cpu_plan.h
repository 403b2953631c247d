// A plan that a CPU executor has loaded: its streams with prepared tasks and counters, and its tensors in host memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "kernels/cpu/matrix.h"
#include "runtime/execute/channel_groups.h"
#include "runtime/execute/cpu/cpu_kernels.h"
#include "runtime/execute/cpu/kept_traces.h"
#include "runtime/execute/state.h"
#include "runtime/execute/stream_batches.h"
#include "runtime/execute/task_arguments.h"
#include "runtime/plan/plan.h"

namespace weft::execute {

/// The state, and the arena that the plans share, one at a time.
class CpuMemory {
 public:
  explicit CpuMemory(const State& state) : state_(state) {}
  /// Once, before the first matrix().
  void allocate(std::int64_t arena_bytes) { arena_ = Buffer(arena_bytes); }
  cpu::Matrix matrix(const plan::Plan& plan, const graph::View& view) const {
    const graph::Tensor& tensor = plan.graph->tensor(view.tensor);
    const std::int64_t offset = plan.offset[view.tensor.index()];
    return matrix_of(*plan.graph, view,
                     graph::is_state(tensor.role) ? state_.data(tensor.name) : arena_.data() + offset);
  }

 private:
  const State& state_;
  Buffer arena_;
};

/// A stream's copy of another stream's progress, so that it needn't read memory that the other thread writes. It has
/// its own cache lines, like all data that one thread writes while another reads.
struct alignas(128) KnownProgress {
  std::int64_t before = 0;     // entries completed when this step began
  std::int64_t completed = 0;  // in this step
};

/// Counters count entries since the plan was loaded; one thread at a time writes each. Other streams wait for
/// `completed`, which is set only after entries that another stream waits for. `finished` is exact, for the watchdog.
struct CpuStream {
  const plan::StreamPlan* plan = nullptr;
  StreamBatches batches;                    // of a compute stream
  std::vector<PreparedTask> tasks;          // of a compute stream
  std::vector<KnownProgress> known;         // of a compute stream, by stream
  std::vector<comm::CollectiveCall> calls;  // of a communication stream
  comm::Communicator* communicator = nullptr;
  std::size_t next = 0;  // of a communication stream: the entry to start or in flight
  bool in_flight = false;
  alignas(128) std::atomic<std::int64_t> completed{0};
  alignas(128) std::atomic<std::int64_t> finished{0};
};

struct CpuPlan {
  /// Throws std::logic_error unless compute streams, at least one, come first and all channels have communicators.
  CpuPlan(std::shared_ptr<const plan::Plan> loaded, const CommunicatorSet& communicators, std::int64_t kept_steps);

  /// Resolves all addresses and prepares the kernels, which need scratch of this size.
  cpu::Scratch prepare(const CpuMemory& memory, const GemmTuning* tuning);

  bool communicates() const { return !plan->collectives.empty(); }
  bool passed(const plan::Wait& wait) const {
    const CpuStream& stream = streams[wait.stream.index()];
    const auto entries = static_cast<std::int64_t>(stream.plan->entries.size());
    const std::int64_t target = (runs - wait.distance) * entries + wait.entry + 1;
    return stream.completed.load(std::memory_order_acquire) >= target;
  }
  /// Entries that were finished since the plan was loaded, on all streams. For the watchdog, as the position of a
  /// running step: both may be read while its threads work.
  std::uint64_t finished_entries() const;
  /// One line per stream, each after a line break: its position and its waits.
  std::string describe_position() const;

  std::shared_ptr<const plan::Plan> plan;
  std::deque<CpuStream> streams;  // the compute streams first
  std::size_t compute_streams = 0;
  std::atomic<std::int64_t> runs{0};
  KeptTraces traces;
};

}  // namespace weft::execute
