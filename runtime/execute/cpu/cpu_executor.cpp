#include "runtime/execute/cpu/cpu_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/buffer.h"
#include "base/error.h"
#include "base/log.h"
#include "kernels/cpu/parallel.h"
#include "runtime/comm/backoff.h"
#include "runtime/execute/cpu/cpu_kernels.h"
#include "runtime/execute/non_finite.h"
#include "runtime/execute/stream_batches.h"
#include "runtime/execute/task_arguments.h"
#include "runtime/execute/tick_clock.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft {
namespace {

// A collective advances at least so often while a compute thread works: within a long task the hook is called after
// every slice, but looks at the network only when this much time has passed.
constexpr std::int64_t kPollInterval = 100'000;  // ns

// A stream that waits for another looks so often in quick succession, for some microseconds, before it gives its core
// away: what crosses the streams most often is a short task, and a yield costs as much as one.
constexpr int kQuickLooks = 100;

constexpr int kLooksBetweenSteps = 200;

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// The indices of an element, counted row-major: "[3, 17]".
std::string place(const Tensor& tensor, std::int64_t element) {
  std::vector<std::int64_t> indices(tensor.shape.size());
  for (std::size_t i = indices.size(); i-- > 0; element /= tensor.shape[i]) indices[i] = element % tensor.shape[i];
  return fmt::format("[{}]", fmt::join(indices, ", "));
}

}  // namespace

CommunicatorSet::CommunicatorSet(World& world, std::span<const Channel> channels, const Grid& grid)
    : CommunicatorSet(world, channels, [&](Channel channel) { return group_color(grid, channel, world.rank()); }) {}

CommunicatorSet::CommunicatorSet(World& world, std::span<const Channel> channels)
    : CommunicatorSet(world, channels, [](Channel) { return 0; }) {}

CommunicatorSet::CommunicatorSet(World& world, std::span<const Channel> channels,
                                 const std::function<std::int64_t(Channel)>& color) {
  communicators_.resize(static_cast<std::size_t>(Channel::world) + 1);
  for (Channel channel : channels) {
    auto& communicator = communicators_[static_cast<std::size_t>(channel)];
    if (communicator != nullptr) continue;
    communicator = world.split(static_cast<int>(color(channel)));
    Log(LogTopic::comm, world.rank())
        .debug("channel {}: rank {} of {}", to_string(channel), communicator->rank(), communicator->size());
  }
}

struct CpuExecutor::Impl {
  // What a stream's thread knows of another stream, so that it needn't look at what the other is writing. On its own
  // cache lines, like all that one thread writes while another reads.
  struct alignas(128) Known {
    std::int64_t before = 0;     // entries completed when this step began
    std::int64_t completed = 0;  // in this step
  };

  // One stream of a loaded plan. Counters are of entries since the plan was loaded, each written by one thread at a
  // time: `completed` is what other streams wait for, and set where one does; `finished` is exact, for the watchdog.
  struct StreamState {
    const StreamPlan* plan = nullptr;
    StreamBatches batches;              // of a compute stream
    std::vector<PreparedTask> tasks;    // of a compute stream
    std::vector<Known> known;           // of a compute stream, by stream
    std::vector<CollectiveCall> calls;  // of a communication stream
    Communicator* communicator = nullptr;
    std::size_t next = 0;  // of a communication stream: the entry to start or in flight
    bool in_flight = false;
    alignas(128) std::atomic<std::int64_t> completed{0};
    alignas(128) std::atomic<std::int64_t> finished{0};
  };

  // Times are ticks until somebody asks for the trace.
  struct KeptTrace {
    StepTrace trace;
    TickClock::Reading begin, end;
    bool in_ticks = false;
    bool complete = false;  // the step ended well

    const StepTrace& in_nanoseconds() {
      if (std::exchange(in_ticks, false)) {
        for (auto& stream : trace.times) {
          for (TaskTime& time : stream) {
            time = {nanoseconds(time.begin, begin, end), nanoseconds(time.end, begin, end)};
          }
        }
      }
      return trace;
    }
  };

  struct LoadedPlan {
    std::shared_ptr<const Plan> plan;
    std::deque<StreamState> streams;  // the compute streams first
    std::size_t compute_streams = 0;
    std::atomic<std::int64_t> runs{0};
    std::vector<KeptTrace> ring;  // traces of the last steps; run r is at r mod size
    KeptTrace* kept = nullptr;    // of the running step; null: none is kept

    TaskTime* times(std::size_t stream) const { return kept == nullptr ? nullptr : kept->trace.times[stream].data(); }
  };

  const State& state;
  const CpuExecutorOptions options;
  const TickClock clock;
  const std::int64_t poll_interval = clock.ticks_in(kPollInterval);
  std::vector<std::unique_ptr<LoadedPlan>> plans;
  bool prepared = false;
  std::int64_t arena_bytes = 0;
  cpu::Scratch kernel_scratch;
  Buffer arena;
  CommunicatorSet communicators;     // destroyed before the arena, which peers may be reading
  std::deque<cpu::Workers> workers;  // one a compute stream

  std::atomic<LoadedPlan*> running{nullptr};
  alignas(128) std::atomic_flag polling = ATOMIC_FLAG_INIT;
  std::atomic<std::int64_t> last_poll{0};  // ticks

  // Compute streams beyond the first have a thread each, which sleeps between steps. A step lasts until all of them
  // have left it: no thread sees two steps at once, or touches anything after run() has returned.
  std::vector<std::thread> threads;
  alignas(128) std::atomic<std::uint32_t> step_ticket{0};
  std::atomic<std::size_t> threads_in_step{0};
  alignas(128) std::atomic<bool> closing{false};  // read after every task, written once
  std::atomic<bool> failed{false};
  std::exception_ptr failure;  // written once, before `failed`
  std::atomic_flag failure_taken = ATOMIC_FLAG_INIT;

  std::mutex non_finite_mutex;
  std::optional<NonFiniteResult> non_finite;

  Impl(const State& s, CommunicatorSet c, const CpuExecutorOptions& o)
      : state(s), options(o), communicators(std::move(c)) {}

  cpu::Matrix matrix(const Plan& plan, const View& view) const {
    const Tensor& tensor = plan.graph->tensor(view.tensor);
    const std::int64_t offset = plan.offset[view.tensor.index()];
    return matrix_of(*plan.graph, view, is_state(tensor.role) ? state.data(tensor.name) : arena.data() + offset);
  }

  void resolve(LoadedPlan& loaded) {
    const Plan& plan = *loaded.plan;
    for (StreamState& stream : loaded.streams) {
      stream.tasks.clear();
      stream.calls.clear();
      for (const Entry& entry : stream.plan->entries) {
        const Task& task = plan.graph->task(entry.task);
        std::vector<cpu::Matrix> arguments;
        arguments.reserve(task.accesses.size());
        for (const Access& access : task.accesses) arguments.push_back(matrix(plan, access.view));
        if (stream.plan->stream.compute) {
          stream.tasks.emplace_back(task.operation, arguments, options.gemm_tuning.get());
          const cpu::Scratch scratch = stream.tasks.back().scratch();
          kernel_scratch.worker_bytes = std::max(kernel_scratch.worker_bytes, scratch.worker_bytes);
          kernel_scratch.shared_bytes = std::max(kernel_scratch.shared_bytes, scratch.shared_bytes);
        } else {
          stream.calls.push_back(collective_call(task, arguments));
        }
      }
    }
  }

  // Called once, at the first run: by then every plan is known, and so is the arena's size.
  void prepare() {
    arena = Buffer(arena_bytes);
    std::size_t compute_streams = 1;
    for (auto& loaded : plans) {
      resolve(*loaded);
      compute_streams = std::max(compute_streams, loaded->compute_streams);
    }
    for (std::size_t i = 0; i < compute_streams; ++i) {
      workers.emplace_back(options.threads);
      workers.back().reserve(kernel_scratch);
      if (communicates()) workers.back().set_progress_hook([this] { poll_if_due(clock.now()); });
    }
    for (std::size_t i = 1; i < compute_streams; ++i) {
      threads.emplace_back([this, i] { compute_thread(i); });
    }
    prepared = true;
  }

  bool communicates() const {
    return std::any_of(plans.begin(), plans.end(), [](const auto& loaded) {
      return std::any_of(loaded->streams.begin(), loaded->streams.end(),
                         [](const StreamState& stream) { return !stream.plan->stream.compute; });
    });
  }

  static bool passed(const LoadedPlan& loaded, const Wait& wait) {
    const StreamState& stream = loaded.streams[wait.stream.index()];
    const auto entries = static_cast<std::int64_t>(stream.plan->entries.size());
    const std::int64_t target = (loaded.runs - wait.distance) * entries + wait.entry + 1;
    return stream.completed.load(std::memory_order_acquire) >= target;
  }

  // Moves every communication stream as far as it goes without blocking. One thread at a time.
  void poll() {
    if (polling.test_and_set(std::memory_order_acquire)) return;
    struct Unlock {
      std::atomic_flag& flag;
      ~Unlock() { flag.clear(std::memory_order_release); }
    } unlock{polling};
    LoadedPlan& loaded = *running.load(std::memory_order_relaxed);
    for (std::size_t s = 0; s < loaded.streams.size(); ++s) {
      StreamState& stream = loaded.streams[s];
      if (stream.plan->stream.compute) continue;
      const auto& entries = stream.plan->entries;
      while (stream.next < entries.size()) {
        const Entry& entry = entries[stream.next];
        TaskTime* const times = loaded.times(s);
        if (!stream.in_flight) {
          if (!std::all_of(entry.waits.begin(), entry.waits.end(),
                           [&](const Wait& wait) { return passed(loaded, wait); })) {
            break;
          }
          if (times != nullptr) times[stream.next].begin = clock.now_after_loads();
          stream.communicator->start(stream.calls[stream.next]);
          stream.in_flight = true;
        }
        if (!stream.communicator->progress()) break;
        if (times != nullptr) times[stream.next].end = clock.now();
        if (options.check_finite) check_results(*loaded.plan, entry.task);
        stream.in_flight = false;
        ++stream.next;
        const std::int64_t entries_done = stream.finished.load(std::memory_order_relaxed) + 1;
        stream.finished.store(entries_done, std::memory_order_relaxed);
        stream.completed.store(entries_done, std::memory_order_release);
      }
    }
    last_poll.store(clock.now(), std::memory_order_relaxed);
  }

  void poll_if_due(std::int64_t now) {
    if (now - last_poll.load(std::memory_order_relaxed) >= poll_interval) poll();
  }

  // Spins briefly, then yields, then sleeps: a core that waits must not slow down the one that it waits for. False when
  // the step has failed.
  template <class Done>
  bool wait_until(const LoadedPlan& loaded, const Done& done) {
    const bool has_collectives = communicates_in(loaded);
    for (int look = 0; look < kQuickLooks && !has_collectives; ++look) {
      if (done()) return true;
      relax();
    }
    for (Backoff backoff; !done(); backoff.pause()) {
      if (failed.load(std::memory_order_acquire)) return false;
      if (!has_collectives) continue;
      poll();
      if (done()) return true;
    }
    return true;
  }

  bool wait_for(const LoadedPlan& loaded, const StreamWait& wait, Known& known) {
    const std::atomic<std::int64_t>& completed = loaded.streams[wait.stream].completed;
    return wait_until(loaded, [&] {
      known.completed = completed.load(std::memory_order_acquire) - known.before;
      return known.completed >= wait.entries;
    });
  }

  void run_stream(LoadedPlan& loaded, std::size_t s) {
    StreamState& stream = loaded.streams[s];
    cpu::Workers& own_workers = workers[s];
    TaskTime* const times = loaded.times(s);
    const bool has_collectives = communicates_in(loaded);
    // Whatever else this thread does between two tasks isn't the second one's time.
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
        Known& known = stream.known[wait.stream];
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
        if (options.check_finite) check_results(*loaded.plan, stream.plan->entries[e].task);
        stream.finished.store(before + e + 1, std::memory_order_relaxed);
        if (has_collectives && e + 1 < batch.end) poll_if_due(clock.now());
      }
      if (batch.signals) stream.completed.store(before + batch.end, std::memory_order_release);
      // Somebody waits for this task: a collective should start now, not at the next poll.
      if (has_collectives) batch.signals ? poll() : poll_if_due(clock.now());
    }
  }

  // Before the task counts as completed: until then nobody overwrites what it wrote.
  void check_results(const Plan& plan, TaskId id) {
    const Task& task = plan.graph->task(id);
    for (const Access& access : task.accesses) {
      const View& view = access.view;
      const Tensor& tensor = plan.graph->tensor(view.tensor);
      if (access.mode == AccessMode::read || tensor.role == Role::workspace) continue;
      const auto found = first_non_finite(matrix(plan, view));
      if (!found) continue;
      const std::lock_guard lock(non_finite_mutex);
      if (non_finite && non_finite->task.index() <= id.index()) return;
      const std::int64_t element = view.offset + *found / view.cols * view.row_stride + *found % view.cols;
      non_finite = {id, fmt::format("task '{}' wrote a NaN or an infinity to '{}' at {}", task.name, tensor.name,
                                    place(tensor, element))};
      return;
    }
  }

  static bool communicates_in(const LoadedPlan& loaded) { return !loaded.plan->collectives.empty(); }

  void fail(std::exception_ptr exception) {
    if (!failure_taken.test_and_set()) {
      failure = std::move(exception);
      failed.store(true, std::memory_order_release);
    }
  }

  void compute_thread(std::size_t index) {
    cpu::prepare_thread();
    for (std::uint32_t seen = 0;; ++seen) {
      // Steps often follow one another at once; waking a thread that sleeps takes longer than some of them.
      for (int look = 0; look < kLooksBetweenSteps && step_ticket.load(std::memory_order_relaxed) == seen; ++look) {
        look < kQuickLooks ? relax() : std::this_thread::yield();
      }
      step_ticket.wait(seen, std::memory_order_acquire);
      if (closing.load(std::memory_order_acquire)) return;
      LoadedPlan& loaded = *running.load(std::memory_order_acquire);
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

  void begin_step(LoadedPlan& loaded, std::int64_t step) {
    loaded.kept = nullptr;
    if (!loaded.ring.empty()) {
      loaded.kept = &loaded.ring[static_cast<std::size_t>(loaded.runs) % loaded.ring.size()];
      loaded.kept->begin = clock.read();
      loaded.kept->in_ticks = true;
      loaded.kept->complete = false;
      loaded.kept->trace.step = step;
      loaded.kept->trace.begin = loaded.kept->begin.ns;
    }
    for (StreamState& stream : loaded.streams) stream.next = 0;
    non_finite.reset();
    running.store(&loaded, std::memory_order_release);
    if (loaded.compute_streams == 1) return;
    threads_in_step.store(threads.size(), std::memory_order_relaxed);
    step_ticket.fetch_add(1, std::memory_order_release);
    step_ticket.notify_all();
  }

  void run(LoadedPlan& loaded, std::int64_t step) {
    if (failed.load()) throw std::logic_error("an executor that has failed or was stopped can't run again");
    cpu::prepare_thread();  // the sums of collectives, too, flush denormals
    try {
      if (!prepared) prepare();
      begin_step(loaded, step);
      run_stream(loaded, 0);
      // The step ends when every stream has: what follows (metrics, checkpoints, new inputs) may touch the state.
      for (const StreamState& stream : loaded.streams) {
        const auto entries = static_cast<std::int64_t>(stream.plan->entries.size());
        const std::int64_t target = (loaded.runs + 1) * entries;
        wait_until(loaded, [&] { return stream.completed.load(std::memory_order_acquire) >= target; });
      }
    } catch (...) {
      fail(std::current_exception());
    }
    for (Backoff backoff; threads_in_step.load(std::memory_order_acquire) > 0;) backoff.pause();
    if (failed.load(std::memory_order_acquire)) std::rethrow_exception(failure);
    if (loaded.kept != nullptr) {
      loaded.kept->end = clock.read();
      loaded.kept->trace.end = loaded.kept->end.ns;
      loaded.kept->complete = true;
    }
    ++loaded.runs;
    running.store(nullptr, std::memory_order_release);
  }
};

CpuExecutor::CpuExecutor(const State& state, CommunicatorSet communicators, const CpuExecutorOptions& options)
    : impl_(std::make_unique<Impl>(state, std::move(communicators), options)) {}

CpuExecutor::~CpuExecutor() {
  stop();
}

const std::optional<NonFiniteResult>& CpuExecutor::non_finite() const {
  return impl_->non_finite;
}

void CpuExecutor::stop() {
  impl_->closing.store(true, std::memory_order_release);
  impl_->failed.store(true, std::memory_order_release);
  impl_->step_ticket.fetch_add(1, std::memory_order_release);
  impl_->step_ticket.notify_all();
  for (std::thread& thread : impl_->threads) thread.join();
  impl_->threads.clear();
}

Executor::PlanHandle CpuExecutor::load(std::shared_ptr<const Plan> plan) {
  if (impl_->prepared) throw std::logic_error("plans are loaded before the first run");
  auto loaded = std::make_unique<Impl::LoadedPlan>();
  loaded->plan = std::move(plan);
  Impl::KeptTrace empty;
  const auto& streams = loaded->plan->streams;
  const auto is_compute = [](const StreamPlan& stream) { return stream.stream.compute; };
  loaded->compute_streams = static_cast<std::size_t>(std::count_if(streams.begin(), streams.end(), is_compute));
  if (loaded->compute_streams == 0 || !std::is_partitioned(streams.begin(), streams.end(), is_compute)) {
    throw std::logic_error("a plan's compute streams, at least one, come before its communication streams");
  }
  for (const StreamPlan& stream : streams) {
    Impl::StreamState& stream_state = loaded->streams.emplace_back();
    stream_state.plan = &stream;
    if (stream.stream.compute) {
      stream_state.batches = StreamBatches(*loaded->plan, StreamId(loaded->streams.size() - 1));
      stream_state.known.resize(streams.size());
    } else {
      stream_state.communicator = impl_->communicators.on(stream.stream.channel);
      if (stream_state.communicator == nullptr) {
        throw std::logic_error(fmt::format("no communicator for channel {}", to_string(stream.stream.channel)));
      }
    }
    empty.trace.times.emplace_back(stream.entries.size());
  }
  loaded->ring.assign(static_cast<std::size_t>(std::max<std::int64_t>(0, impl_->options.kept_steps)), empty);
  impl_->arena_bytes = std::max(impl_->arena_bytes, loaded->plan->scratch_bytes);
  impl_->plans.push_back(std::move(loaded));
  return impl_->plans.size() - 1;
}

bool CpuExecutor::start(PlanHandle plan, std::int64_t step) {
  impl_->run(*impl_->plans.at(plan), step);
  return false;
}

const StepTrace& CpuExecutor::last_trace(PlanHandle plan) const {
  Impl::LoadedPlan& loaded = *impl_->plans.at(plan);
  if (loaded.runs == 0) throw std::logic_error("a plan that has not run has no trace");
  if (loaded.ring.empty()) throw std::logic_error("an executor that keeps no steps has no trace");
  Impl::KeptTrace& last = loaded.ring[static_cast<std::size_t>(loaded.runs - 1) % loaded.ring.size()];
  if (!last.complete) throw std::logic_error("the step that failed took the place of the last trace");
  return last.in_nanoseconds();
}

std::int64_t CpuExecutor::last_step_ns(PlanHandle plan) const {
  const StepTrace& trace = last_trace(plan);
  return trace.end - trace.begin;
}

std::vector<StepTrace> CpuExecutor::traces(PlanHandle plan) const {
  Impl::LoadedPlan& loaded = *impl_->plans.at(plan);
  const auto size = static_cast<std::int64_t>(loaded.ring.size());
  std::vector<StepTrace> kept;
  for (std::int64_t run = std::max<std::int64_t>(0, loaded.runs - size); run < loaded.runs; ++run) {
    Impl::KeptTrace& of_run = loaded.ring[static_cast<std::size_t>(run % size)];
    if (of_run.complete) kept.push_back(of_run.in_nanoseconds());
  }
  return kept;
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
  ExecutorStatus status;
  const Impl::LoadedPlan* loaded = impl_->running.load(std::memory_order_acquire);
  if (loaded == nullptr || impl_->failed.load(std::memory_order_acquire)) return status;
  status.running = true;
  for (const auto& stream : loaded->streams) {
    status.completed += static_cast<std::uint64_t>(stream.finished.load(std::memory_order_relaxed));
  }
  return status;
}

std::string CpuExecutor::describe() const {
  const Impl::LoadedPlan* loaded = impl_->running.load(std::memory_order_acquire);
  std::string text = fmt::format("rank {}:", impl_->options.rank);
  if (loaded == nullptr) return text + " between steps";
  const Plan& plan = *loaded->plan;
  const auto name_of = [&](StreamId stream, std::size_t entry) {
    return plan.graph->task(plan.streams[stream.index()].entries[entry].task).name;
  };
  for (std::size_t s = 0; s < loaded->streams.size(); ++s) {
    const Impl::StreamState& stream = loaded->streams[s];
    const auto entries = static_cast<std::int64_t>(stream.plan->entries.size());
    const std::int64_t before = loaded->runs * entries;  // read first: the step may end meanwhile
    const std::int64_t at = stream.finished.load(std::memory_order_acquire) - before;
    text += fmt::format("\n  stream {}: ", stream.plan->stream.name);
    if (at >= entries) {
      text += fmt::format("done, {} of {} tasks", entries, entries);
      continue;
    }
    const auto entry = static_cast<std::size_t>(at);
    text += fmt::format("{} of {} tasks done, at {} '{}'", at, entries,
                        stream.plan->stream.compute ? "task" : "collective", name_of(StreamId(s), entry));
    std::string missing;
    for (const Wait& wait : stream.plan->entries[entry].waits) {
      if (Impl::passed(*loaded, wait)) continue;
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

}  // namespace weft
