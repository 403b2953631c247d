// Signals that arrive during a product of small matrices don't damage the heap.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>

#include <atomic>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {
namespace {

std::atomic<std::uint64_t> signals{0};

extern "C" void count_signal(int) {
  ++signals;
}

/// Raises SIGALRM repeatedly while it exists.
class SignalStorm {
 public:
  SignalStorm() {
    struct sigaction action {};
    action.sa_handler = count_signal;
    action.sa_flags = SA_ONSTACK | SA_RESTART;
    ::sigaction(SIGALRM, &action, &before_);
    set_timer(50);
  }
  ~SignalStorm() {
    set_timer(0);
    ::sigaction(SIGALRM, &before_, nullptr);
  }
  SignalStorm(const SignalStorm&) = delete;
  SignalStorm& operator=(const SignalStorm&) = delete;

 private:
  static void set_timer(suseconds_t microseconds) {
    const itimerval timer{{0, microseconds}, {0, microseconds}};
    ::setitimer(ITIMER_REAL, &timer, nullptr);
  }
  struct sigaction before_ {};
};

TEST(SignalStack, EveryPreparedThreadHasOne) {
  std::jthread([] {
    prepare_thread();
    stack_t stack{};
    ASSERT_EQ(::sigaltstack(nullptr, &stack), 0);
    EXPECT_EQ(stack.ss_flags & SS_DISABLE, 0);
    EXPECT_GE(stack.ss_size, std::size_t{16} << 10);
  });
}

TEST(SignalStack, SignalsDuringProductsDoNoHarm) {
  prepare_thread();
  constexpr std::int64_t kSizes[] = {8, 16, 24, 32, 33, 48, 257};
  std::mt19937 random(1);
  std::uniform_int_distribution<std::size_t> pick(0, std::size(kSizes) - 1);
  const std::vector<float> a(257 * 257, 1.0F), b(257 * 257, 1.0F);
  std::vector<float> c(257 * 257);
  const SignalStorm storm;
  const std::uint64_t before = signals;
  while (signals < before + 2000) {
    const std::int64_t m = kSizes[pick(random)], n = kSizes[pick(random)], k = kSizes[pick(random)];
    const bool trans_a = random() % 2 == 0, trans_b = random() % 2 == 0;
    multiply_tiles(trans_a, trans_b, m, n, k, a.data(), trans_a ? m : k, b.data(), trans_b ? k : n, 0.0F, c.data(), n);
    ASSERT_EQ(c[static_cast<std::size_t>(m * n - 1)], static_cast<float>(k));
  }
}

}  // namespace
}  // namespace weft::cpu
