// Compares the CPU kernels with the machine's limits, over sizes beyond the cache and inside it.
//
// Each line compares a kernel's time with its floor: the larger of the time to move its bytes and the time to do its
// floating-point operations. Both rates are measured alternately with the kernel, on the same threads: a triad a = b +
// s·c over as many bytes as the kernel touches, and independent chains of fused multiply-adds.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/median.h"
#include "bench/kernel_cases.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {
namespace {

constexpr std::string_view kUsage =
    "usage: bench_kernels [--filter TEXT] [--dtype f32|bf16] [--threads N] [--repetitions N] [--json]\n"
    "\n"
    "  --filter TEXT    only lines whose name, e.g. \"gelu_backward bf16 1024x3072\", contains TEXT\n"
    "  --dtype          one element type; default: both\n"
    "  --threads N      number of threads; default: 1 and 2\n"
    "  --repetitions N  runs of a kernel; the median counts; default: 9\n"
    "  --json           print one JSON object on each line instead of a table\n"
    "\n"
    "columns:\n"
    "  r+w MB    bytes that the kernel must read and write once, in 10^6 bytes\n"
    "  alloc     bytes that the cache reads in addition, for stores to memory that isn't read (write-allocate)\n"
    "  GB/s      r+w over the kernel's time; `triad` counts in the same way: two reads and a write\n"
    "  % triad   GB/s over triad\n"
    "  % bus     GB/s over triad, both with write-allocate, so that kernels with few stores gain nothing\n"
    "  GFLOP/s   floating-point operations over time, and the `peak` of fused multiply-adds, where it counts\n"
    "  % floor   the floor's time (the larger of bus and peak) over the kernel's time\n";

struct Options {
  std::string filter;
  std::vector<DType> dtypes = {DType::f32, DType::bf16};
  std::vector<int> threads = {1, 2};
  int repetitions = 9;
  bool json = false;
};

// --- the machine's own rates

struct Triad {
  float *a, *b, *c;
  std::int64_t count;

  void run(Workers& workers) const {
    workers.run(ceil_div(count, kChunkElements), [&](std::int64_t chunk) {
      const std::int64_t begin = chunk * kChunkElements, end = std::min(count, begin + kChunkElements);
      for (std::int64_t i = begin; i < end; i += kLanes) store(a + i, load(b + i) + 3.0F * load(c + i));
    });
  }
};

constexpr std::int64_t kPeakRounds = 1 << 16, kChains = 12;  // few enough to stay in registers

// Chains long enough to hide the latency; storing to `sink` keeps the compiler from dropping them.
// NOLINTNEXTLINE(clang-diagnostic-unknown-attributes)
[[gnu::noipa]] void multiply_adds(float* sink) {
  Floats chains[kChains];
  for (Floats& chain : chains) chain = load(sink);
  const Floats factor = load(sink + kLanes);
  for (std::int64_t round = 0; round < kPeakRounds; ++round) {
    for (Floats& chain : chains) chain = chain * factor + factor;
  }
  Floats total{};
  for (const Floats& chain : chains) total += chain;
  store(sink, total);
}

double seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// --- measuring

// A run takes a few milliseconds: a shorter kernel is repeated within a run.
std::int64_t inner_runs(double estimate) {
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(2e-3 / std::max(estimate, 1e-7)), 1, 1000);
}

void measure(const KernelCase& one, int threads, const Options& options, CasePool& pool) {
  Workers workers(threads);
  workers.reserve(one.scratch);
  const std::size_t used = pool.used();
  const std::int64_t moved = one.cost.read + one.cost.written;
  const std::int64_t elements = round_up(std::max<std::int64_t>(moved / 12, 1024), kLanes);
  const Triad triad{reinterpret_cast<float*>(pool.take(elements * 4)),
                    reinterpret_cast<float*>(pool.take(elements * 4)),
                    reinterpret_cast<float*>(pool.take(elements * 4)), elements};
  std::memset(triad.a, 0, static_cast<std::size_t>(elements) * 4);
  std::memset(triad.b, 0, static_cast<std::size_t>(elements) * 4);
  std::memset(triad.c, 0, static_cast<std::size_t>(elements) * 4);
  pool.release(used);
  std::vector<float> sinks(static_cast<std::size_t>(threads) * 64, 0.5F);

  const auto kernel = [&] { one.run(workers); };
  const auto stream = [&] { triad.run(workers); };
  const auto peak = [&] { workers.run(threads, [&](std::int64_t i) { multiply_adds(sinks.data() + i * 64); }); };
  kernel(), stream();
  const std::int64_t kernel_runs = inner_runs(seconds(kernel)), triad_runs = inner_runs(seconds(stream));
  std::vector<double> kernel_times, triad_times, peak_times;
  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    // Once untimed: the triad's data has pushed the kernel's data out of the cache, and vice versa.
    if (kernel_runs > 1) kernel();
    kernel_times.push_back(seconds([&] {
                             for (std::int64_t i = 0; i < kernel_runs; ++i) kernel();
                           }) /
                           static_cast<double>(kernel_runs));
    if (triad_runs > 1) stream();
    triad_times.push_back(seconds([&] {
                            for (std::int64_t i = 0; i < triad_runs; ++i) stream();
                          }) /
                          static_cast<double>(triad_runs));
    if (one.cost.flops > 0) peak_times.push_back(seconds(peak));
  }
  const double time = median(kernel_times), triad_rate = 12e-9 * static_cast<double>(elements) / median(triad_times);
  const double rate = 1e-9 * static_cast<double>(moved) / time;
  const double bus_time = 1e-9 * static_cast<double>(moved + one.cost.allocated) / (triad_rate * 4 / 3);
  const double flop_rate = 1e-9 * static_cast<double>(one.cost.flops) / time;
  double peak_rate = 0, floor = bus_time;
  if (one.cost.flops > 0) {
    peak_rate = 1e-9 * static_cast<double>(threads * kPeakRounds * kChains * kLanes * 2) / median(peak_times);
    floor = std::max(floor, 1e-9 * static_cast<double>(one.cost.flops) / peak_rate);
  }
  if (options.json) {
    fmt::print(
        R"({{"kernel": "{}", "threads": {}, "seconds": {:.4e}, "read": {}, "written": {}, "write_allocated": {}, )"
        R"("GBps": {:.2f}, "triad_GBps": {:.2f}, "flops": {}, "peak_GFLOPs": {:.1f}, "of_triad": {:.3f}, )"
        R"("of_bus": {:.3f}, "of_floor": {:.3f}}})"
        "\n",
        one.name, threads, time, one.cost.read, one.cost.written, one.cost.allocated, rate, triad_rate, one.cost.flops,
        peak_rate, rate / triad_rate, bus_time / time, floor / time);
  } else {
    fmt::print("{:<40} {:>2} {:>9.3f} {:>7.1f} {:>6.1f} {:>6.1f} {:>6.1f} {:>5.0f} {:>5.0f}", one.name, threads,
               time * 1e3, 1e-6 * static_cast<double>(moved), 1e-6 * static_cast<double>(one.cost.allocated), rate,
               triad_rate, 100 * rate / triad_rate, 100 * bus_time / time);
    if (one.cost.flops > 0) {
      fmt::print(" {:>7.1f} {:>6.1f}", flop_rate, peak_rate);
    } else {
      fmt::print(" {:>7} {:>6}", "", "");
    }
    fmt::print(" {:>5.0f}\n", 100 * floor / time);
  }
  std::fflush(stdout);
}

int run(const Options& options) {
  CasePool pool(std::int64_t{1800} << 20);
  if (!options.json) {
    fmt::print("{:<40} {:>2} {:>9} {:>7} {:>6} {:>6} {:>6} {:>5} {:>5} {:>7} {:>6} {:>5}\n", "kernel", "T", "ms",
               "r+w MB", "alloc", "GB/s", "triad", "%tri", "%bus", "GFLOP/s", "peak", "%flr");
  }
  for (DType dtype : options.dtypes) {
    visit_kernel_cases(pool, dtype, options.filter, [&](const KernelCase& one) {
      for (int threads : options.threads) measure(one, threads, options, pool);
    });
  }
  return 0;
}

}  // namespace
}  // namespace weft::cpu

int main(int argc, char** argv) {
  weft::cpu::Options options;
  const auto usage_error = [](const std::string& what) {
    fmt::print(stderr, "bench_kernels: {}\n{}", what, weft::cpu::kUsage);
    return 2;
  };
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--help") {
      fmt::print("{}", weft::cpu::kUsage);
      return 0;
    }
    if (option == "--json") {
      options.json = true;
      continue;
    }
    if (i + 1 == argc) return usage_error(fmt::format("found '{}', expected an option and its value", option));
    const std::string_view value = argv[++i];
    int number = 0;
    const auto end = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool is_count = end.ec == std::errc{} && end.ptr == value.data() + value.size() && number >= 1;
    if (option == "--filter") {
      options.filter = value;
    } else if (option == "--dtype" && value == "f32") {
      options.dtypes = {weft::DType::f32};
    } else if (option == "--dtype" && value == "bf16") {
      options.dtypes = {weft::DType::bf16};
    } else if (option == "--threads" && is_count) {
      options.threads = {number};
    } else if (option == "--repetitions" && is_count) {
      options.repetitions = number;
    } else {
      return usage_error(fmt::format("found '{} {}', which is not an option with a valid value", option, value));
    }
  }
  return weft::cpu::run(options);
}
