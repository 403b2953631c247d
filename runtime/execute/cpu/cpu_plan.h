// A plan that a CPU executor has loaded: its streams with prepared tasks and counters, and the progress of its
// collectives.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/matrix.h"
#include "runtime/execute/channel_groups.h"
#include "runtime/execute/cpu/cpu_kernels.h"
#include "runtime/execute/cpu/kept_traces.h"
#include "runtime/execute/state.h"
#include "runtime/execute/task_arguments.h"
#include "runtime/execute/tick_clock.h"
#include "runtime/plan/plan.h"

namespace weft::execute {

class FiniteCheck;  // runtime/execute/non_finite.h

/// "`stream` has completed `entries` entries of this step": 0 or less means entries of the step before.
struct StreamWait {
  std::uint32_t stream = 0;
  std::int64_t entries = 0;
};

/// Only a batch's first entry waits, and other streams only wait for its last entry.
struct StreamBatch {
  std::uint32_t begin = 0, end = 0;             // entries
  std::uint32_t first_wait = 0, last_wait = 0;  // in the flat array
  bool signals = false;                         // another stream waits for the last entry, or the stream ends here
};

/// The entries of one stream, cut into batches, with all of their waits in one flat array.
///
///   entries   a b c(waits) d e(signals) f      batches   [a b] [c d e] [f]
class StreamBatches {
 public:
  StreamBatches() = default;
  StreamBatches(const plan::Plan& plan, plan::StreamId stream);

  std::span<const StreamBatch> batches() const { return batches_; }
  std::span<const StreamWait> waits(const StreamBatch& batch) const {
    return std::span(waits_).subspan(batch.first_wait, batch.last_wait - batch.first_wait);
  }

 private:
  std::vector<StreamBatch> batches_;
  std::vector<StreamWait> waits_;
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
  cpu::Scratch prepare(const PlanMemory& memory, const GemmTuning* tuning);

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

/// Advances the collectives of a running step; any thread may do it between its tasks.
class CollectiveProgress {
 public:
  /// Checks results with `check`, unless it is null.
  CollectiveProgress(const TickClock& clock, FiniteCheck* check)
      : clock_(clock), check_(check), interval_(clock.ticks_in(kInterval)) {}

  /// Advances every communication stream as far as possible without blocking; does nothing while another thread does
  /// so.
  void poll(CpuPlan& loaded);
  /// Has the poll interval passed since the last poll?
  bool due(std::int64_t now) const { return now - last_.load(std::memory_order_relaxed) >= interval_; }

 private:
  // The longest time between two polls while a compute thread works: the hook runs after every slice of a task, but
  // polls the network only once this time has passed.
  static constexpr std::int64_t kInterval = 100'000;  // ns

  void advance(CpuPlan& loaded, CpuStream& stream, plan::TaskTime* times);

  const TickClock& clock_;
  FiniteCheck* const check_;
  const std::int64_t interval_;  // ticks
  alignas(128) std::atomic_flag polling_ = ATOMIC_FLAG_INIT;
  std::atomic<std::int64_t> last_{0};  // ticks
};

}  // namespace weft::execute
