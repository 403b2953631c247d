// The machine's speed at this moment: fp32 multiply-adds in registers, and a triad through memory, on N threads. On a
// shared machine it is measured right before every timing. Prints one JSON line. Needs no library:
//   c++ -std=c++20 -O3 -march=native -pthread bench/fma_peak.cpp -o fma_peak && ./fma_peak --threads 2
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif
using Floats = float __attribute__((vector_size(kVectorBytes)));

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The compiler must assume that `value` changes here, so it can't drop the computation of `value`.
void keep(Floats& value) {
#if defined(__x86_64__)
  asm volatile("" : "+x"(value));
#else
  asm volatile("" : "+w"(value));
#endif
}

// Floating-point operations per second of one thread, in independent chains.
double multiply_adds(double seconds) {
  constexpr int kChains = 12, kRepeats = 20000;
  constexpr double kFlops = 2.0 * kRepeats * kChains * (kVectorBytes / sizeof(float));
  Floats chains[kChains];
  for (Floats& chain : chains) chain = Floats{} + 1.0F;
  Floats factor = Floats{} + 0.999F, term = Floats{} + 0.001F;
  double flops = 0;
  const Clock::time_point begin = Clock::now();
  do {
    for (int i = 0; i < kRepeats; ++i) {
      keep(factor);
      for (Floats& chain : chains) chain = chain * factor + term;
    }
    flops += kFlops;
  } while (seconds_since(begin) < seconds);
  for (Floats& chain : chains) keep(chain);
  return flops / seconds_since(begin);
}

// Bytes per second of one thread: a = b + s·c counts two reads and one write.
double triad(std::vector<float>& a, const std::vector<float>& b, const std::vector<float>& c, double seconds) {
  double bytes = 0;
  const Clock::time_point begin = Clock::now();
  do {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = b[i] + 3.0F * c[i];
    bytes += 3.0 * sizeof(float) * static_cast<double>(a.size());
    asm volatile("" : : "r"(a.data()) : "memory");
  } while (seconds_since(begin) < seconds);
  return bytes / seconds_since(begin);
}

// The sum of the results of `work` on `threads` threads.
double on_threads(int threads, const std::function<double()>& work) {
  std::vector<double> results(static_cast<std::size_t>(threads));
  std::vector<std::thread> running;
  for (double& result : results) running.emplace_back([&result, &work] { result = work(); });
  for (std::thread& thread : running) thread.join();
  double sum = 0;
  for (const double result : results) sum += result;
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  int threads = 1;
  double seconds = 0.3;  // for each of the two measurements
  for (int i = 1; i < argc; i += 2) {
    const bool has_value = i + 1 < argc;
    if (has_value && std::strcmp(argv[i], "--threads") == 0) {
      threads = std::atoi(argv[i + 1]);
    } else if (has_value && std::strcmp(argv[i], "--seconds") == 0) {
      seconds = std::atof(argv[i + 1]);
    } else {
      threads = 0;
    }
  }
  if (threads < 1 || threads > 4096 || !(seconds > 0 && seconds <= 60)) {
    std::fprintf(stderr, "usage: %s [--threads N] [--seconds S]\n", argv[0]);
    return 2;
  }
  const double flops = on_threads(threads, [&] { return multiply_adds(seconds); });
  const double bytes = on_threads(threads, [&] {
    constexpr std::size_t kElements = std::size_t{16} << 20;  // 64 MiB for each array: more than caches hold
    std::vector<float> a(kElements), b(kElements, 1.0F), c(kElements, 2.0F);
    return triad(a, b, c, seconds);
  });
  std::printf("{\"threads\": %d, \"fma_gflops\": %.1f, \"triad_gb_per_s\": %.2f}\n", threads, flops * 1e-9,
              bytes * 1e-9);
  return 0;
}
