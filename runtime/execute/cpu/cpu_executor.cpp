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

/// A stream's completion is a counter: waiting for entry e of stream s means waiting until s has passed e. Compute
/// threads advance the collectives between their tasks, between the slices of a task, and while they wait. No other
/// thread polls, so no core is spent on it.
///
/// After the first run of a plan nothing is allocated and no lock is taken.
class CpuExecutor final : public Executor {
 public:
  CpuExecutor(const State& state, CommunicatorSet communicators, const CpuExecutorOptions& options)
      : options_(options), memory_{&state, state.begin()}, communicators_(std::move(communicators)) {}
  ~CpuExecutor() override {
    closing_.store(true, std::memory_order_release);
    step_ticket_.fetch_add(1, std::memory_order_release);
    step_ticket_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  CpuExecutor(const CpuExecutor&) = delete;
  CpuExecutor& operator=(const CpuExecutor&) = delete;

  PlanHandle load(std::shared_ptr<const plan::Plan> plan) override {
    if (prepared_) throw std::logic_error("plans are loaded before the first run");
    plans_.push_back(std::make_unique<CpuPlan>(std::move(plan), communicators_, options_.kept_steps));
    arena_bytes_ = std::max(arena_bytes_, plans_.back()->plan->scratch_bytes);
    return plans_.size() - 1;
  }

  /// Runs the whole step.
  bool start(PlanHandle plan, std::int64_t step) override {
    run_step(*plans_.at(plan), step);
    return false;
  }
  void finish() override {}

  const plan::StepTrace& last_trace(PlanHandle plan) const override { return plans_.at(plan)->traces.last(); }
  std::int64_t last_step_ns(PlanHandle plan) const override {
    const plan::StepTrace& trace = last_trace(plan);
    return trace.end - trace.begin;
  }
  std::vector<plan::StepTrace> traces(PlanHandle plan) const override { return plans_.at(plan)->traces.all(); }
  std::optional<NonFiniteResult> non_finite() const override { return finite_check_.first(); }

  std::int64_t scratch_bytes() const override {
    std::int64_t bytes = arena_bytes_;
    for (const cpu::Workers& of_stream : workers_) {
      bytes += static_cast<std::int64_t>(kernel_scratch_.shared_bytes) +
               of_stream.threads() * static_cast<std::int64_t>(kernel_scratch_.worker_bytes);
    }
    return bytes;
  }

  ExecutorStatus status() const override {
    const CpuPlan* loaded = running_.load(std::memory_order_acquire);
    if (loaded == nullptr || failed_.load(std::memory_order_acquire)) return {};
    return {.running = true, .completed = loaded->finished_entries()};
  }
  std::string describe() const override {
    const CpuPlan* loaded = running_.load(std::memory_order_acquire);
    return fmt::format("rank {}:{}", options_.rank, loaded == nullptr ? " between steps" : loaded->describe_position());
  }

 private:
  // Called once, at the first run: by then every plan is known, and so is the arena's size.
  void prepare() {
    arena_ = Buffer(arena_bytes_);
    memory_.arena = arena_.data();
    std::size_t compute_streams = 1;
    for (auto& loaded : plans_) {
      kernel_scratch_ = larger(kernel_scratch_, loaded->prepare(memory_, options_.gemm_tuning.get()));
      compute_streams = std::max(compute_streams, loaded->compute_streams);
    }
    const bool communicates = std::ranges::any_of(plans_, [](const auto& loaded) { return loaded->communicates(); });
    for (std::size_t i = 0; i < compute_streams; ++i) {
      workers_.emplace_back(options_.threads);
      workers_.back().reserve(kernel_scratch_);
      if (communicates) workers_.back().set_progress_hook([this] { poll_if_due(clock_.now()); });
    }
    for (std::size_t i = 1; i < compute_streams; ++i) {
      threads_.emplace_back([this, i] { compute_thread(i); });
    }
    prepared_ = true;
  }

  void poll_if_due(std::int64_t now) {
    if (progress_.due(now)) progress_.poll(*running_.load(std::memory_order_relaxed));
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
    comm::Backoff backoff = options_.shares_cores ? comm::Backoff(kLongestSleep) : comm::Backoff();
    for (; !done(); backoff.pause()) {
      if (failed_.load(std::memory_order_acquire)) return false;
      if (!has_collectives) continue;
      progress_.poll(loaded);
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
    cpu::Workers& own_workers = workers_[s];
    plan::TaskTime* const times = loaded.traces.times(s);
    const bool has_collectives = loaded.communicates();
    // If the thread does other work between two tasks, this time doesn't belong to the second task.
    const bool pauses = has_collectives || options_.check_finite;
    for (std::size_t other = 0; other < loaded.streams.size(); ++other) {
      const auto entries = static_cast<std::int64_t>(loaded.streams[other].plan->entries.size());
      stream.known[other] = {loaded.runs.load(std::memory_order_relaxed) * entries, 0};
    }
    const std::int64_t before = stream.known[s].before;
    const PreparedTask* const tasks = stream.tasks.data();
    std::int64_t time = times == nullptr ? 0 : clock_.now_after_loads();
    for (const StreamBatch& batch : stream.batches.batches()) {
      const std::span<const StreamWait> waits = stream.batches.waits(batch);
      for (const StreamWait& wait : waits) {
        KnownProgress& known = stream.known[wait.stream];
        if (known.completed < wait.entries && !wait_for(loaded, wait, known)) return;
      }
      if (times != nullptr && !waits.empty()) time = std::max(time, clock_.now_after_loads());
      for (std::uint32_t e = batch.begin; e < batch.end; ++e) {
        if (failed_.load(std::memory_order_acquire)) return;
        if (times != nullptr && pauses) time = std::max(time, clock_.now());
        tasks[e].run(own_workers);
        if (times != nullptr) {
          times[e].begin = time;
          time = times[e].end = std::max(time, clock_.now());
        }
        if (options_.check_finite) finite_check_.look_at(*loaded.plan, stream.plan->entries[e].task);
        stream.finished.store(before + e + 1, std::memory_order_relaxed);
        if (has_collectives && e + 1 < batch.end) poll_if_due(clock_.now());
      }
      if (batch.signals) stream.completed.store(before + batch.end, std::memory_order_release);
      // Another stream waits for this task: a collective should start now, not at the next poll.
      if (has_collectives) batch.signals ? progress_.poll(loaded) : poll_if_due(clock_.now());
    }
  }

  void fail(std::exception_ptr exception) {
    if (!failure_taken_.test_and_set()) {
      failure_ = std::move(exception);
      failed_.store(true, std::memory_order_release);
    }
  }

  void compute_thread(std::size_t index) {
    cpu::prepare_thread();
    for (std::uint32_t seen = 0;; ++seen) {
      // Steps often follow each other at once, and waking a sleeping thread takes longer than a short step.
      for (int look = 0; look < kLooksBetweenSteps && step_ticket_.load(std::memory_order_relaxed) == seen; ++look) {
        look < kQuickLooks ? relax() : std::this_thread::yield();
      }
      step_ticket_.wait(seen, std::memory_order_acquire);
      if (closing_.load(std::memory_order_acquire)) return;
      CpuPlan& loaded = *running_.load(std::memory_order_acquire);
      if (index < loaded.compute_streams) {
        try {
          run_stream(loaded, index);
        } catch (...) {
          fail(std::current_exception());
        }
      }
      threads_in_step_.fetch_sub(1, std::memory_order_release);
    }
  }

  void begin_step(CpuPlan& loaded, std::int64_t step) {
    loaded.traces.begin(step, clock_);
    for (CpuStream& stream : loaded.streams) stream.next = 0;
    finite_check_.begin_step();
    running_.store(&loaded, std::memory_order_release);
    if (loaded.compute_streams == 1) return;
    threads_in_step_.store(threads_.size(), std::memory_order_relaxed);
    step_ticket_.fetch_add(1, std::memory_order_release);
    step_ticket_.notify_all();
  }

  void run_step(CpuPlan& loaded, std::int64_t step) {
    if (failed_.load()) throw std::logic_error("an executor that has failed can't run again");
    cpu::prepare_thread();  // the sums of collectives, too, flush denormals
    try {
      if (!prepared_) prepare();
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
    for (comm::Backoff backoff; threads_in_step_.load(std::memory_order_acquire) > 0;) backoff.pause();
    if (failed_.load(std::memory_order_acquire)) std::rethrow_exception(failure_);
    loaded.traces.end(clock_);
    ++loaded.runs;
    running_.store(nullptr, std::memory_order_release);
  }

  const CpuExecutorOptions options_;
  const TickClock clock_;
  std::vector<std::unique_ptr<CpuPlan>> plans_;
  bool prepared_ = false;
  std::int64_t arena_bytes_ = 0;
  cpu::Scratch kernel_scratch_;
  Buffer arena_;
  PlanMemory memory_;
  CommunicatorSet communicators_;     // destroyed before the memory, which peers may be reading
  std::deque<cpu::Workers> workers_;  // one a compute stream

  FiniteCheck finite_check_{memory_};
  std::atomic<CpuPlan*> running_{nullptr};
  CollectiveProgress progress_{clock_, options_.check_finite ? &finite_check_ : nullptr};

  // Compute streams beyond the first have a thread each, which sleeps between steps. A step lasts until all of them
  // have left it: no thread sees two steps at once, or touches anything after start() has returned.
  std::vector<std::thread> threads_;
  alignas(128) std::atomic<std::uint32_t> step_ticket_{0};
  std::atomic<std::size_t> threads_in_step_{0};
  alignas(128) std::atomic<bool> closing_{false};  // read after every task, written once
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;  // written once, before `failed_`
  std::atomic_flag failure_taken_ = ATOMIC_FLAG_INIT;
};

}  // namespace

std::unique_ptr<Executor> make_cpu_executor(const State& state, CommunicatorSet communicators,
                                            const CpuExecutorOptions& options) {
  return std::make_unique<CpuExecutor>(state, std::move(communicators), options);
}

}  // namespace weft::execute
