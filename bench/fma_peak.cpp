// The machine's speed at this moment: fp32 multiply-adds in registers, and a triad through memory, on N threads. On a
// shared machine it is measured right before every timing. Prints one JSON line. Needs no library:
//   c++ -std=c++20 -O3 -march=native -pthread -I. bench/fma_peak.cpp -o fma_peak && ./fma_peak --threads 2
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "bench/multiply_adds.h"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Floating-point operations per second of one thread.
double multiply_adds(double seconds) {
  constexpr int kRepeats = 20000;
  double flops = 0;
  const Clock::time_point begin = Clock::now();
  do {
    weft::bench::multiply_add(kRepeats);
    flops += kRepeats * weft::bench::kFlopsARepeat;
  } while (seconds_since(begin) < seconds);
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
