#include "runtime/execute/cpu/cpu_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/buffer.h"
#include "kernels/cpu/parallel.h"
#include "runtime/comm/backoff.h"
#include "runtime/execute/cpu/cpu_plan.h"
#include "runtime/execute/non_finite.h"
#include "runtime/execute/tick_clock.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft::execute {
namespace {

// A stream that waits for another polls this often, for some microseconds, before it yields its core: most waits
// between streams are for short tasks, and a yield costs as much as a short task.
constexpr int kQuickLooks = 100;
// Of a rank whose cores others need. On a virtual machine a look costs about 0.1 ms: the timer and two switches.
constexpr std::chrono::milliseconds kLongestSleep{1};

constexpr int kLooksBetweenSteps = 200;

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

struct CpuExecutor::Impl {
  const CpuExecutorOptions options;
  const TickClock clock;
  std::vector<std::unique_ptr<CpuPlan>> plans;
  bool prepared = false;
  std::int64_t arena_bytes = 0;
  cpu::Scratch kernel_scratch;
  Buffer arena;
  PlanMemory memory;
  CommunicatorSet communicators;     // destroyed before the memory, which peers may be reading
  std::deque<cpu::Workers> workers;  // one a compute stream

  FiniteCheck finite_check{memory};
  std::atomic<CpuPlan*> running{nullptr};
  CollectiveProgress progress{clock, options.check_finite ? &finite_check : nullptr};

  // Compute streams beyond the first have a thread each, which sleeps between steps. A step lasts until all of them
  // have left it: no thread sees two steps at once, or touches anything after run() has returned.
  std::vector<std::thread> threads;
  alignas(128) std::atomic<std::uint32_t> step_ticket{0};
  std::atomic<std::size_t> threads_in_step{0};
  alignas(128) std::atomic<bool> closing{false};  // read after every task, written once
  std::atomic<bool> failed{false};
  std::exception_ptr failure;  // written once, before `failed`
  std::atomic_flag failure_taken = ATOMIC_FLAG_INIT;

  Impl(const State& s, CommunicatorSet c, const CpuExecutorOptions& o)
      : options(o), memory{&s, s.begin()}, communicators(std::move(c)) {}

  // Called once, at the first run: by then every plan is known, and so is the arena's size.
  void prepare() {
    arena = Buffer(arena_bytes);
    memory.arena = arena.data();
    std::size_t compute_streams = 1;
    for (auto& loaded : plans) {
      kernel_scratch = larger(kernel_scratch, loaded->prepare(memory, options.gemm_tuning.get()));
      compute_streams = std::max(compute_streams, loaded->compute_streams);
    }
    const bool communicates = std::ranges::any_of(plans, [](const auto& loaded) { return loaded->communicates(); });
    for (std::size_t i = 0; i < compute_streams; ++i) {
      workers.emplace_back(options.threads);
      workers.back().reserve(kernel_scratch);
      if (communicates) workers.back().set_progress_hook([this] { poll_if_due(clock.now()); });
    }
    for (std::size_t i = 1; i < compute_streams; ++i) {
      threads.emplace_back([this, i] { compute_thread(i); });
    }
    prepared = true;
  }

  void poll_if_due(std::int64_t now) {
    if (progress.due(now)) progress.poll(*running.load(std::memory_order_relaxed));
  }

  // Spins briefly, then yields, then sleeps: a core that waits must not slow down the one that it waits for. False when
  // the step has failed.
  template <class Done>
  bool wait_until(CpuPlan& loaded, const Done& done) {
    const bool has_collectives = loaded.communicates();
    for (int look = 0; look < kQuickLooks && !has_collectives; ++look) {
      if (done()) return true;
      relax();
    }
    comm::Backoff backoff = options.shares_cores ? comm::Backoff(kLongestSleep) : comm::Backoff();
    for (; !done(); backoff.pause()) {
      if (failed.load(std::memory_order_acquire)) return false;
      if (!has_collectives) continue;
      progress.poll(loaded);
      if (done()) return true;
    }
    return true;
  }

  bool wait_for(CpuPlan& loaded, const StreamWait& wait, KnownProgress& known) {
    const std::atomic<std::int64_t>& completed = loaded.streams[wait.stream].completed;
    return wait_until(loaded, [&] {
      known.completed = completed.load(std::memory_order_acquire) - known.before;
      return known.completed >= wait.entries;
    });
  }

  void run_stream(CpuPlan& loaded, std::size_t s) {
    CpuStream& stream = loaded.streams[s];
    cpu::Workers& own_workers = workers[s];
    plan::TaskTime* const times = loaded.traces.times(s);
    const bool has_collectives = loaded.communicates();
    // If the thread does other work between two tasks, this time doesn't belong to the second task.
    const bool pauses = has_collectives || options.check_finite;
    for (std::size_t other = 0; other < loaded.streams.size(); ++other) {
      const auto entries = static_cast<std::int64_t>(loaded.streams[other].plan->entries.size());
      stream.known[other] = {loaded.runs.load(std::memory_order_relaxed) * entries, 0};
    }
    const std::int64_t before = stream.known[s].before;
    const PreparedTask* const tasks = stream.tasks.data();
    std::int64_t time = times == nullptr ? 0 : clock.now_after_loads();
    for (const StreamBatch& batch : stream.batches.batches()) {
      const std::span<const StreamWait> waits = stream.batches.waits(batch);
      for (const StreamWait& wait : waits) {
        KnownProgress& known = stream.known[wait.stream];
        if (known.completed < wait.entries && !wait_for(loaded, wait, known)) return;
      }
      if (times != nullptr && !waits.empty()) time = std::max(time, clock.now_after_loads());
      for (std::uint32_t e = batch.begin; e < batch.end; ++e) {
        if (failed.load(std::memory_order_acquire)) return;
        if (times != nullptr && pauses) time = std::max(time, clock.now());
        tasks[e].run(own_workers);
        if (times != nullptr) {
          times[e].begin = time;
          time = times[e].end = std::max(time, clock.now());
        }
        if (options.check_finite) finite_check.look_at(*loaded.plan, stream.plan->entries[e].task);
        stream.finished.store(before + e + 1, std::memory_order_relaxed);
        if (has_collectives && e + 1 < batch.end) poll_if_due(clock.now());
      }
      if (batch.signals) stream.completed.store(before + batch.end, std::memory_order_release);
      // Another stream waits for this task: a collective should start now, not at the next poll.
      if (has_collectives) batch.signals ? progress.poll(loaded) : poll_if_due(clock.now());
    }
  }

  void fail(std::exception_ptr exception) {
    if (!failure_taken.test_and_set()) {
      failure = std::move(exception);
      failed.store(true, std::memory_order_release);
    }
  }

  void compute_thread(std::size_t index) {
    cpu::prepare_thread();
    for (std::uint32_t seen = 0;; ++seen) {
      // Steps often follow each other at once, and waking a sleeping thread takes longer than a short step.
      for (int look = 0; look < kLooksBetweenSteps && step_ticket.load(std::memory_order_relaxed) == seen; ++look) {
        look < kQuickLooks ? relax() : std::this_thread::yield();
      }
      step_ticket.wait(seen, std::memory_order_acquire);
      if (closing.load(std::memory_order_acquire)) return;
      CpuPlan& loaded = *running.load(std::memory_order_acquire);
      if (index < loaded.compute_streams) {
        try {
          run_stream(loaded, index);
        } catch (...) {
          fail(std::current_exception());
        }
      }
      threads_in_step.fetch_sub(1, std::memory_order_release);
    }
  }

  void begin_step(CpuPlan& loaded, std::int64_t step) {
    loaded.traces.begin(step, clock);
    for (CpuStream& stream : loaded.streams) stream.next = 0;
    finite_check.begin_step();
    running.store(&loaded, std::memory_order_release);
    if (loaded.compute_streams == 1) return;
    threads_in_step.store(threads.size(), std::memory_order_relaxed);
    step_ticket.fetch_add(1, std::memory_order_release);
    step_ticket.notify_all();
  }

  void run(CpuPlan& loaded, std::int64_t step) {
    if (failed.load()) throw std::logic_error("an executor that has failed can't run again");
    cpu::prepare_thread();  // the sums of collectives, too, flush denormals
    try {
      if (!prepared) prepare();
      begin_step(loaded, step);
      run_stream(loaded, 0);
      // The step ends when every stream has ended, since the caller may then access the state (metrics, checkpoints,
      // inputs).
      for (const CpuStream& stream : loaded.streams) {
        const auto entries = static_cast<std::int64_t>(stream.plan->entries.size());
        const std::int64_t target = (loaded.runs + 1) * entries;
        wait_until(loaded, [&] { return stream.completed.load(std::memory_order_acquire) >= target; });
      }
    } catch (...) {
      fail(std::current_exception());
    }
    for (comm::Backoff backoff; threads_in_step.load(std::memory_order_acquire) > 0;) backoff.pause();
    if (failed.load(std::memory_order_acquire)) std::rethrow_exception(failure);
    loaded.traces.end(clock);
    ++loaded.runs;
    running.store(nullptr, std::memory_order_release);
  }
};

CpuExecutor::CpuExecutor(const State& state, CommunicatorSet communicators, const CpuExecutorOptions& options)
    : impl_(std::make_unique<Impl>(state, std::move(communicators), options)) {}

CpuExecutor::~CpuExecutor() {
  impl_->closing.store(true, std::memory_order_release);
  impl_->step_ticket.fetch_add(1, std::memory_order_release);
  impl_->step_ticket.notify_all();
  for (std::thread& thread : impl_->threads) thread.join();
}

std::optional<NonFiniteResult> CpuExecutor::non_finite() const {
  return impl_->finite_check.first();
}

Executor::PlanHandle CpuExecutor::load(std::shared_ptr<const plan::Plan> plan) {
  if (impl_->prepared) throw std::logic_error("plans are loaded before the first run");
  auto loaded = std::make_unique<CpuPlan>(std::move(plan), impl_->communicators, impl_->options.kept_steps);
  impl_->arena_bytes = std::max(impl_->arena_bytes, loaded->plan->scratch_bytes);
  impl_->plans.push_back(std::move(loaded));
  return impl_->plans.size() - 1;
}

bool CpuExecutor::start(PlanHandle plan, std::int64_t step) {
  impl_->run(*impl_->plans.at(plan), step);
  return false;
}

const plan::StepTrace& CpuExecutor::last_trace(PlanHandle plan) const {
  return impl_->plans.at(plan)->traces.last();
}

std::int64_t CpuExecutor::last_step_ns(PlanHandle plan) const {
  const plan::StepTrace& trace = last_trace(plan);
  return trace.end - trace.begin;
}

std::vector<plan::StepTrace> CpuExecutor::traces(PlanHandle plan) const {
  return impl_->plans.at(plan)->traces.all();
}

std::int64_t CpuExecutor::scratch_bytes() const {
  std::int64_t bytes = impl_->arena_bytes;
  for (const cpu::Workers& workers : impl_->workers) {
    bytes += static_cast<std::int64_t>(impl_->kernel_scratch.shared_bytes) +
             workers.threads() * static_cast<std::int64_t>(impl_->kernel_scratch.worker_bytes);
  }
  return bytes;
}

ExecutorStatus CpuExecutor::status() const {
  const CpuPlan* loaded = impl_->running.load(std::memory_order_acquire);
  if (loaded == nullptr || impl_->failed.load(std::memory_order_acquire)) return {};
  return {.running = true, .completed = loaded->finished_entries()};
}

std::string CpuExecutor::describe() const {
  const CpuPlan* loaded = impl_->running.load(std::memory_order_acquire);
  return fmt::format("rank {}:{}", impl_->options.rank,
                     loaded == nullptr ? " between steps" : loaded->describe_position());
}

}  // namespace weft::execute
