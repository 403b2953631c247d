// The threads of a compute stream over a oneTBB arena; see parallel.h.
#include "kernels/cpu/parallel.h"

#include <signal.h>
#include <sys/mman.h>
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#if defined(__SSE2__)
#include <pmmintrin.h>
#include <xmmintrin.h>
#endif

// Of OpenMP's runtime, whose header only some compilers and tools have.
extern "C" void omp_set_num_threads(int threads);

namespace weft::cpu {
namespace {

// Allocates once and grows only before the first step; chunks see a plain pointer. From 2 MiB on it asks for large
// pages, which avoid most TLB misses: kernels walk through scratch in long strides.
class AlignedBytes {
 public:
  void reserve(std::size_t bytes) {
    if (bytes <= size_) return;
    const std::align_val_t alignment{bytes >= kLargePage ? kLargePage : kAlignment};
    bytes_ = {static_cast<std::byte*>(::operator new(bytes, alignment)), Free{alignment}};
    size_ = bytes;
#if defined(MADV_HUGEPAGE)
    if (bytes >= kLargePage) madvise(bytes_.get(), bytes / kLargePage * kLargePage, MADV_HUGEPAGE);
#endif
  }
  std::byte* get() const {
    return bytes_.get();
  }

 private:
  static constexpr std::size_t kAlignment = 64, kLargePage = std::size_t{2} << 20;
  struct Free {
    std::align_val_t alignment;
    void operator()(std::byte* bytes) const { ::operator delete(bytes, alignment); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  std::size_t size_ = 0;
};

// A second stack of this thread, for signal handlers that ask for it (SA_ONSTACK). oneDNN's sgemm of small matrices
// (2.6) computes with the stack pointer in a heap block of a few pages. A handler on the ordinary stack would write its
// frame, some KiB with AVX-512, over the heap below that block.
class SignalStack {
 public:
  SignalStack() {
    stack_t present{};
    if (::sigaltstack(nullptr, &present) != 0 || (present.ss_flags & SS_DISABLE) == 0) return;
    stack_t own{};
    own.ss_sp = bytes_.data();
    own.ss_size = bytes_.size();
    set_ = ::sigaltstack(&own, nullptr) == 0;
  }
  ~SignalStack() {
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    if (set_) ::sigaltstack(&none, nullptr);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  std::array<std::byte, std::size_t{64} << 10> bytes_;  // part of the thread's own memory, without an allocation
  bool set_ = false;
};

}  // namespace

void prepare_thread() {
  // Called before every kernel; only our code sets the number of threads, while the denormal mode changes with oneTBB's
  // tasks. Reading the mode is cheap, writing it isn't.
  static thread_local bool prepared = false;
  if (!prepared) {
    static thread_local SignalStack signal_stack;
    omp_set_num_threads(1);
    prepared = true;
  }
#if defined(__SSE2__)
  constexpr unsigned kFlush = _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON;
  if (const unsigned mode = _mm_getcsr(); (mode & kFlush) != kFlush) _mm_setcsr(mode | kFlush);
#elif defined(__aarch64__)
  std::uint64_t control = 0;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  control |= std::uint64_t{1} << 24;  // FZ flushes inputs and results
  asm volatile("msr fpcr, %0" : : "r"(control));
#endif
}

struct Workers::Impl {
  int threads = 1;
  std::function<void()> progress_hook;
  std::optional<int> caller;  // the calling thread's slot if chunks run in the arena
  AlignedBytes shared;
  std::vector<AlignedBytes> scratch;  // by arena slot
  std::optional<tbb::global_control> more_threads;
  std::optional<tbb::task_arena> arena;

  void run_here(std::int64_t chunks, const ChunkFunction& chunk) const {
    for (std::int64_t i = 0; i < chunks; ++i) {
      if (i > 0 && progress_hook) progress_hook();
      chunk(i);
    }
  }

  // Each participant takes the next chunk from a counter: this is cheaper than one TBB task for each chunk, and
  // balanced. Only the participant on the calling thread makes communication progress. Each participant prepares its
  // own thread, since oneTBB gives each task the floating-point mode in which its arena was made. `next` and `finished`
  // also order the chunks' writes for race detectors, which can't see oneTBB's own synchronisation.
  void run_in_arena(std::int64_t chunks, const ChunkFunction& chunk) {
    const auto participants = static_cast<int>(std::min<std::int64_t>(threads, chunks));
    arena->execute([&] {
      caller = tbb::this_task_arena::current_thread_index();
      std::atomic<std::int64_t> next, finished{0};
      next.store(0, std::memory_order_release);
      const auto participate = [&](int) {
        prepare_thread();
        const bool progress = progress_hook && is_caller();
        for (std::int64_t i = next.fetch_add(1, std::memory_order_acq_rel); i < chunks;
             i = next.fetch_add(1, std::memory_order_acq_rel)) {
          chunk(i);
          if (progress) progress_hook();
        }
        finished.fetch_add(1, std::memory_order_release);
      };
      tbb::parallel_for(0, participants, 1, participate, tbb::simple_partitioner{});
      finished.load(std::memory_order_acquire);
    });
  }

  bool is_caller() const { return !caller || tbb::this_task_arena::current_thread_index() == *caller; }
};

Workers::Workers(int threads) : impl_(std::make_unique<Impl>()) {
  if (threads < 1) throw std::invalid_argument("Workers: at least one thread is needed");
  impl_->threads = threads;
  impl_->scratch.resize(static_cast<std::size_t>(threads));
  if (threads > 1) {
    // oneTBB starts no more threads than cores unless asked to.
    if (threads > tbb::info::default_concurrency()) {
      impl_->more_threads.emplace(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads));
    }
    impl_->arena.emplace(threads);
  }
}

Workers::~Workers() = default;

int Workers::threads() const {
  return impl_->threads;
}

void Workers::run(std::int64_t chunks, ChunkFunction chunk) {
  if (chunks <= 1 || impl_->threads == 1) {
    prepare_thread();
    impl_->caller.reset();
    impl_->run_here(chunks, chunk);
  } else {
    impl_->run_in_arena(chunks, chunk);
  }
}

void Workers::set_progress_hook(std::function<void()> hook) {
  impl_->progress_hook = std::move(hook);
}

void Workers::progress() const {
  if (impl_->progress_hook && impl_->is_caller()) impl_->progress_hook();
}

void Workers::reserve(std::size_t worker_bytes, std::size_t shared_bytes) {
  for (AlignedBytes& bytes : impl_->scratch) bytes.reserve(worker_bytes);
  impl_->shared.reserve(shared_bytes);
}

std::byte* Workers::worker_scratch() {
  // Outside the arena (one thread, or a kernel of one chunk) the caller is the only worker.
  const int slot = impl_->threads == 1 ? 0 : tbb::this_task_arena::current_thread_index();
  const bool inside = slot >= 0 && slot < impl_->threads;
  return impl_->scratch[inside ? static_cast<std::size_t>(slot) : 0].get();
}

std::byte* Workers::shared_scratch() {
  return impl_->shared.get();
}

}  // namespace weft::cpu
