// Compares the CPU kernels with the machine's limits, over sizes beyond the cache and inside it.
//
// Each line compares a kernel's time with its floor: the larger of the time to move its bytes and the time to do its
// floating-point operations. Both rates are measured alternately with the kernel, on the same threads: a triad a = b +
// s·c over as many bytes as the kernel touches, and independent chains of fused multiply-adds.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/median.h"
#include "bench/kernel_cases.h"
#include "bench/program.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {
namespace {

constexpr std::string_view kColumns =
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
  std::vector<std::string> dtypes = {"f32", "bf16"};
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

double seconds(const std::function<void()>& work) {
  const bench::Stopwatch watch;
  work();
  return watch.seconds();
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

  const auto kernel = [&] { one.run(workers); };
  const auto stream = [&] { triad.run(workers); };
  kernel(), stream();
  const std::int64_t kernel_runs = inner_runs(seconds(kernel)), triad_runs = inner_runs(seconds(stream));
  std::vector<double> kernel_times, triad_times, peak_rates;
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
    if (one.cost.flops > 0) peak_rates.push_back(1e-9 * fma_rate(workers));
  }
  const double time = median(kernel_times), triad_rate = 12e-9 * static_cast<double>(elements) / median(triad_times);
  const double rate = 1e-9 * static_cast<double>(moved) / time;
  const double bus_time = 1e-9 * static_cast<double>(moved + one.cost.allocated) / (triad_rate * 4 / 3);
  const double flop_rate = 1e-9 * static_cast<double>(one.cost.flops) / time;
  double peak_rate = 0, floor = bus_time;
  if (one.cost.flops > 0) {
    peak_rate = median(peak_rates);
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
  for (const DType dtype : {DType::f32, DType::bf16}) {
    if (std::ranges::find(options.dtypes, to_string(dtype)) == options.dtypes.end()) continue;
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
  CLI::App app("CPU kernels against the machine's limits", "bench_kernels");
  app.footer(std::string(weft::cpu::kColumns));
  app.add_option("--filter", options.filter, "only lines whose name contains it: \"gelu_backward bf16 1024x3072\"");
  app.add_option("--dtype", options.dtypes, "element types")->check(CLI::IsMember(options.dtypes));
  app.add_option("--threads", options.threads, "numbers of threads")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--repetitions", options.repetitions, "runs of a kernel; the median counts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--json", options.json, "one JSON object a line instead of a table");
  return weft::bench::main_of(app, argc, argv, [&] { return weft::cpu::run(options); });
}
