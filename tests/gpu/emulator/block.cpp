// A fortified longjmp refuses jumps to another stack.
#undef _FORTIFY_SOURCE
#include "tests/gpu/emulator/block.h"

#include <fmt/format.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

namespace weft::emulator {
namespace {

constexpr unsigned kWarp = 32;
constexpr std::size_t kStackBytes = std::size_t{256} << 10;  // the system allocates only touched pages

class Cluster;
// Belongs to the CPU thread that runs kernels; kernel code has no parameter for it.
thread_local Cluster* running = nullptr;

// The thread sanitizer follows one stack a thread, and must be told of each switch to another.
class WatchedStack {
 public:
#ifdef __SANITIZE_THREAD__
  using Handle = void*;
  static Handle current() {
    return __tsan_get_current_fiber();
  }
  // Inline, because the sanitizer counts the ends of functions by stack.
  [[gnu::always_inline]] static void switch_to(Handle stack) {
    __tsan_switch_to_fiber(stack, 0);
  }

  WatchedStack() : handle(__tsan_create_fiber(0)) {}
  ~WatchedStack() {
    __tsan_destroy_fiber(handle);
  }
#else
  struct Handle {};
  static Handle current() {
    return {};
  }
  static void switch_to(Handle /*stack*/) {}

  WatchedStack() = default;
#endif
  WatchedStack(const WatchedStack&) = delete;
  WatchedStack& operator=(const WatchedStack&) = delete;

  const Handle handle{};
};

// A stack and a position on it. The system's context functions create it; switching is by jumps, which don't change
// signal masks.
class Fiber {
 public:
  // If all stacks began at the same offset in their pages, they would compete for the same cache sets.
  explicit Fiber(std::size_t number) : offset_(number % 64 * 320) {
    memory_ = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory_ == MAP_FAILED)
      throw std::system_error(errno, std::generic_category(), "a stack for an emulated thread");
  }
  ~Fiber() { munmap(memory_, kStackBytes); }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Continues this fiber, or begins it. `from` gets the position to return to.
  void enter(jmp_buf& from) {
    if (_setjmp(from) != 0) return;
    WatchedStack::switch_to(watched_.handle);
    if (std::exchange(begun_, true)) _longjmp(here, 1);
    begin();
  }

  jmp_buf here;  // where the fiber left

 private:
  // Apart, because a context is large and threads that wait keep the stack frame of enter().
  [[gnu::noinline]] void begin() {
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = memory_;
    context.uc_stack.ss_size = kStackBytes - offset_;
    context.uc_link = nullptr;
    makecontext(&context, &Fiber::run, 0);
    setcontext(&context);
  }
  static void run();

  void* memory_ = nullptr;
  std::size_t offset_;
  bool begun_ = false;
  WatchedStack watched_;
};

struct Copy {
  void* to;
  const void* from;
  int bytes, zeros;

  void run() const {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    std::memset(static_cast<std::byte*>(to) + bytes, 0, static_cast<std::size_t>(zeros));
  }
};

struct Thread {
  uint3 index{};
  std::unique_ptr<Fiber> fiber;
  const char* waits_at = nullptr;
  bool ended = false;
  std::vector<std::vector<Copy>> copies;  // groups, and the copies since the last group
};

// Threads that wait for one another.
struct Meeting {
  std::vector<unsigned> threads;
};

// One of the blocks that run together.
struct BlockOfCluster {
  uint3 index{};
  std::vector<uint4> area;
  unsigned left = 0;  // threads that have not ended
  Meeting at_barrier;
  std::array<Meeting, 16> numbered;
};

struct Warp {
  LaneOperation operation = nullptr;
  std::array<void*, kWarp> lanes{};
  Meeting meeting;
};

// The blocks of a cluster, mostly one. Their threads have one numbering, block after block.
class Cluster {
 public:
  Cluster(const GridShape& shape, std::uint64_t seed, const std::function<void()>& body,
          const std::function<void()>& earlier)
      : kernel_(shape.kernel),
        grid(shape.blocks),
        size(shape.threads),
        body_(body),
        earlier_(earlier),
        random_(seed),
        count_(size.x * size.y * size.z),
        blocks_(shape.cluster) {
    const unsigned all = count_ * shape.cluster;
    threads_.resize(all);
    warps_.resize((all + kWarp - 1) / kWarp);
    order_.resize(all);
    for (unsigned i = 0; i < all; ++i) {
      const unsigned t = i % count_;
      threads_[i].index = {t % size.x, t / size.x % size.y, t / (size.x * size.y)};
      order_[i] = i;
    }
    // Threads in order, in reverse order, or in random order; copies as early or as late as possible; warps
    // interleaved, or each as far as it gets before the next.
    switch (random_() % 3) {
      case 0:
        break;
      case 1:
        std::ranges::reverse(order_);
        break;
      default:
        std::ranges::shuffle(order_, random_);
    }
    copies_late_ = random_() % 2 == 0;
    woken_first_ = random_() % 2 == 0;
    for (BlockOfCluster& block : blocks_) block.area.resize(shape.shared_bytes / sizeof(uint4) + 1);
  }

  // The cluster whose first block has this number.
  void run(std::uint64_t first) {
    for (BlockOfCluster& block : blocks_) {
      block.index = {static_cast<unsigned>(first % grid.x), static_cast<unsigned>(first / grid.x % grid.y),
                     static_cast<unsigned>(first / grid.x / grid.y)};
      ++first;
      std::memset(block.area.data(), 0xff, block.area.size() * sizeof(uint4));
      block.left = count_;
    }
    for (Thread& thread : threads_) thread.ended = false, thread.copies.clear();
    left_ = static_cast<unsigned>(threads_.size());
    ready_.assign(order_.begin(), order_.end());
    scheduler_stack_ = WatchedStack::current();
    do {
      while (!ready_.empty()) {
        enter_next(scheduler_);
        if (current().ended) spare_fibers().push_back(std::move(current().fiber));
      }
    } while (earlier_has_run());
    if (left_ > 0) fail();
    if (earlier_) throw std::logic_error("kernel " + kernel_ + " was launched early and waits for no earlier kernel");
    if (stray_) throw std::logic_error("kernel " + kernel_ + " reads the shared memory of a block that has ended");
  }

  Thread& current() { return threads_[now]; }
  BlockOfCluster& block() { return blocks_[now / count_]; }
  std::byte* area() { return reinterpret_cast<std::byte*>(block().area.data()); }
  const std::byte* of_block(unsigned rank, const std::byte* mine) {
    if (blocks_.at(rank).left == 0) stray_ = true;
    return reinterpret_cast<const std::byte*>(blocks_[rank].area.data()) + (mine - area());
  }

  // Called on a fiber; returns when another thread wakes this thread.
  void wait(const char* where, Meeting& meeting) {
    Thread& thread = current();
    thread.waits_at = where;
    meeting.threads.push_back(now);
    leave();
  }
  void wake(Meeting& meeting) {
    ready_.insert(woken_first_ ? ready_.begin() : ready_.end(), meeting.threads.begin(), meeting.threads.end());
    meeting.threads.clear();
  }

  void await_earlier() {
    if (earlier_) wait("the wait for earlier kernels", for_earlier_);
  }
  void barrier() {
    Meeting& meeting = block().at_barrier;
    if (meeting.threads.size() + 1 == block().left) {
      wake(meeting);
    } else {
      wait("a barrier of the block", meeting);
    }
  }
  void cluster_barrier() {
    if (at_cluster_.threads.size() + 1 == left_) {
      wake(at_cluster_);
    } else {
      wait("a barrier of the cluster", at_cluster_);
    }
  }
  void barrier(unsigned number, unsigned threads) {
    Meeting& meeting = block().numbered.at(number);
    if (meeting.threads.size() + 1 == threads) {
      wake(meeting);
    } else {
      wait("a numbered barrier", meeting);
    }
  }
  void with_warp(LaneOperation operation, void* mine) {
    Warp& warp = warps_[now / kWarp];
    if (warp.meeting.threads.empty()) warp.operation = operation;
    if (warp.operation != operation) mixed_ = true;
    warp.lanes[now % kWarp] = mine;
    if (warp.meeting.threads.size() + 1 == kWarp && !mixed_) {
      operation(warp.lanes);
      wake(warp.meeting);
    } else {
      wait("an operation of its warp", warp.meeting);
    }
  }

  void begin_copy(const Copy& copy) {
    if (!copies_late_) return copy.run();
    if (current().copies.empty()) current().copies.emplace_back();
    current().copies.back().push_back(copy);
  }
  void commit_copies() {
    auto& copies = current().copies;
    if (copies.empty()) copies.emplace_back();
    copies.emplace_back();
  }
  void wait_for_copies(int groups_left) {
    auto& copies = current().copies;
    // The last group is still open.
    while (std::ssize(copies) > groups_left + 1) {
      for (const Copy& copy : copies.front()) copy.run();
      copies.erase(copies.begin());
    }
  }

  // Called on a fiber: runs one thread and returns, or continues with the next thread that has no fiber yet.
  void run_thread() {
    body_();
    current().ended = true;
    --left_;
    --block().left;
    if (block().at_barrier.threads.size() == block().left) wake(block().at_barrier);
    if (at_cluster_.threads.size() == left_) wake(at_cluster_);
    if (ready_.empty() || threads_[ready_.front()].fiber != nullptr) {
      if (_setjmp(current().fiber->here) == 0) return_to_scheduler();
    } else {
      const unsigned next = ready_.front();
      ready_.pop_front();
      threads_[next].fiber = std::move(current().fiber);
      now = next;
    }
  }

  const std::string& kernel_;
  const dim3 grid, size;
  unsigned now = 0;

 private:
  void enter_next(jmp_buf& from) {
    now = ready_.front();
    ready_.pop_front();
    Thread& thread = threads_[now];
    if (thread.fiber == nullptr) thread.fiber = take_fiber();
    thread.fiber->enter(from);
  }
  // Continues any thread that can run; if none can, returns to the scheduler.
  void leave() {
    jmp_buf& here = current().fiber->here;
    if (!ready_.empty()) {
      enter_next(here);
    } else if (_setjmp(here) == 0) {
      return_to_scheduler();
    }
  }
  // On the scheduler's stack: runs the work that threads wait for, of another kernel as it may be.
  bool earlier_has_run() {
    if (for_earlier_.threads.empty()) return false;
    std::exchange(earlier_, nullptr)();
    running = this;
    wake(for_earlier_);
    return true;
  }
  [[noreturn]] void return_to_scheduler() {
    WatchedStack::switch_to(scheduler_stack_);
    _longjmp(scheduler_, 1);
  }

  // Kept for following blocks, for each CPU thread, because a fiber belongs to the CPU thread that runs it.
  static std::vector<std::unique_ptr<Fiber>>& spare_fibers() {
    thread_local std::vector<std::unique_ptr<Fiber>> spare;
    return spare;
  }
  static std::unique_ptr<Fiber> take_fiber() {
    auto& spare = spare_fibers();
    thread_local std::size_t made = 0;
    if (spare.empty()) return std::make_unique<Fiber>(made++);
    std::unique_ptr<Fiber> fiber = std::move(spare.back());
    spare.pop_back();
    return fiber;
  }

  [[noreturn]] void fail() const {
    const uint3& index = blocks_.front().index;
    std::string text = fmt::format("kernel {}, block ({}, {}, {}): {} of {} threads wait forever{}", kernel_, index.x,
                                   index.y, index.z, left_, threads_.size(),
                                   mixed_ ? "; lanes of one warp came with different operations" : "");
    const auto waits = std::ranges::find_if(threads_, [](const Thread& thread) { return !thread.ended; });
    text += fmt::format("; thread ({}, {}, {}) at {}", waits->index.x, waits->index.y, waits->index.z, waits->waits_at);
    throw std::logic_error(text);
  }

  const std::function<void()>& body_;
  std::function<void()> earlier_;  // null once it has run
  Meeting for_earlier_;
  std::mt19937_64 random_;
  const unsigned count_;  // threads of a block
  std::vector<BlockOfCluster> blocks_;
  std::vector<Thread> threads_;
  std::vector<unsigned> order_;
  std::vector<Warp> warps_;
  bool copies_late_ = false, woken_first_ = false, mixed_ = false, stray_ = false;
  unsigned left_ = 0;
  std::deque<unsigned> ready_;
  Meeting at_cluster_;
  jmp_buf scheduler_;
  WatchedStack::Handle scheduler_stack_{};
};

void Fiber::run() {
  for (;;) running->run_thread();
}

}  // namespace

void run_grid(const GridShape& shape, std::uint64_t seed, const std::function<void()>& body,
              const std::function<void()>& earlier) {
  Cluster cluster(shape, seed, body, earlier);
  running = &cluster;
  const std::uint64_t count = std::uint64_t{shape.blocks.x} * shape.blocks.y * shape.blocks.z / shape.cluster;
  for (std::uint64_t i = 0; i < count; ++i) cluster.run((seed % 2 == 0 ? i : count - 1 - i) * shape.cluster);
}

const uint3& thread_index() {
  return running->current().index;
}
const uint3& block_index() {
  return running->block().index;
}
const dim3& block_size() {
  return running->size;
}
const dim3& grid_size() {
  return running->grid;
}
std::byte* shared_area() {
  return running->area();
}
const std::byte* of_block(unsigned rank, const std::byte* mine) {
  return running->of_block(rank, mine);
}
void await_earlier() {
  running->await_earlier();
}
void cluster_barrier() {
  running->cluster_barrier();
}
void barrier() {
  running->barrier();
}
void barrier(unsigned number, unsigned threads) {
  running->barrier(number, threads);
}
void with_warp(LaneOperation operation, void* mine) {
  running->with_warp(operation, mine);
}
void begin_copy(void* to, const void* from, int bytes, int zeros) {
  running->begin_copy({to, from, bytes, zeros});
}
void commit_copies() {
  running->commit_copies();
}
void wait_for_copies(int groups_left) {
  running->wait_for_copies(groups_left);
}

}  // namespace weft::emulator
