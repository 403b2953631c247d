// See gpu_rate.h. A short burst shows the algorithm's rate; under load the card lowers its clocks to keep within its
// power limit.
#include "bench/gpu_rate.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <deque>
#include <memory>
#include <stdexcept>
#include <thread>
#include <variant>
#include <vector>

#include "bench/gpu_timing.h"
#include "kernels/cuda/gemm/gemm.h"
#include "runtime/execute/cuda/cuda_tasks.h"
#include "runtime/execute/tuning/device_gemm_trials.h"

namespace weft::bench {
namespace {

class Rate {
 public:
  explicit Rate(bool quick) : size_(quick ? 256 : 8192), rest_(quick ? 0 : 1000) {
    const auto trials = execute::make_device_gemm_trials({.rounds = quick ? 1 : 7});
    const std::vector<cuda::Matrix> matrices = {matrix(), matrix(), matrix()};
    const execute::GemmProblem problem =
        execute::problem_of(graph::Gemm{size_, size_, size_}, {matrices.begin(), matrices.end()});
    const execute::GemmTrial trial = trials->run(problem);
    std::size_t scratch = 0;
    for (const execute::GemmMethod& method : {trial.usual, trial.chosen}) {
      const auto& [text, layout] = std::get<execute::DeviceGemmMethod>(method);
      const auto algorithm = cuda::parse_hex(text);
      if (!algorithm) throw std::logic_error("a method without an algorithm");
      products_.emplace_back(library_, execute::key_of(problem, matrices), matrices[0], matrices[1], matrices[2],
                             nullptr, &*algorithm, layout);
      scratch = std::max(scratch, static_cast<std::size_t>(products_.back().scratch_bytes()));
    }
    launch_.scratch = pool_.allocate(scratch);
    for (cudaEvent_t& event : events_) cuda::check(cudaEventCreate(&event), "cudaEventCreate");
  }
  ~Rate() {
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  Rate(const Rate&) = delete;
  Rate& operator=(const Rate&) = delete;

  /// TFLOP/s of 30 products after a rest and three others.
  double burst(bool tuned) const {
    constexpr int kFirst = 3, kCount = 30;
    cuda::check(cudaDeviceSynchronize(), "a product");
    std::this_thread::sleep_for(rest_);
    enqueue(tuned, kFirst);
    record(0);
    enqueue(tuned, kCount);
    record(1);
    return rate(kCount, milliseconds(0));
  }

  struct Sustained {
    double all, first, last;
  };
  /// TFLOP/s of tuned products over all the time, over its first half second, and over its last quarter.
  Sustained sustained(double seconds) const {
    constexpr int kCount = 20;
    std::vector<double> times;  // of kCount products each, in milliseconds
    double sum = 0;
    record(0);
    enqueue(true, kCount);
    record(1);
    // Two batches are enqueued at any time, between three events.
    for (std::size_t batch = 1; sum < 1e3 * seconds; ++batch) {
      enqueue(true, kCount);
      record(batch + 1);
      times.push_back(milliseconds(batch - 1));
      sum += times.back();
    }
    cuda::check(cudaDeviceSynchronize(), "a product");
    const auto rate_within = [&](double from, double to) {
      double at = 0, taken = 0;
      int count = 0;
      for (const double time : times) {
        if (at + time > from && at < to) taken += time, count += kCount;
        at += time;
      }
      return rate(count, taken);
    };
    return {rate_within(0, sum), rate_within(0, std::min(500.0, sum)), rate_within(0.75 * sum, sum)};
  }

 private:
  cuda::Matrix matrix() { return pool_.matrix(DType::bf16, size_, size_); }

  double rate(int count, double ms) const {
    const auto n = static_cast<double>(size_);
    return ms > 0 ? 2 * n * n * n * count / ms * 1e-9 : 0;
  }
  void enqueue(bool tuned, int count) const {
    for (int i = 0; i < count; ++i) products_[tuned ? 1 : 0].run(launch_);
  }
  void record(std::size_t event) const {
    cuda::check(cudaEventRecord(events_[event % events_.size()], nullptr), "cudaEventRecord");
  }
  /// From an event to the next one, which is waited for.
  double milliseconds(std::size_t event) const {
    const cudaEvent_t begin = events_[event % events_.size()], end = events_[(event + 1) % events_.size()];
    cuda::check(cudaEventSynchronize(end), "a product");
    float ms = 0;
    cuda::check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
    return static_cast<double>(ms);
  }

  std::int64_t size_;
  std::chrono::milliseconds rest_;
  GpuPool pool_;
  cuda::CublasLt library_;
  std::vector<cuda::PreparedGemm> products_;  // the library's first guess, and the tuned one
  cuda::Launch launch_;
  std::array<cudaEvent_t, 3> events_{};
};

}  // namespace

void print_rate(double seconds, bool quick) {
  const Rate rate(quick);
  const auto print = [](const char* name, double value) {
    fmt::print("{}\t{:.4g}\tTFLOP/s\n", name, value);
    std::fflush(stdout);
  };
  print("burst by the first guess", rate.burst(false));
  print("burst", rate.burst(true));
  const auto [all, first, last] = rate.sustained(seconds);
  print("sustained", all);
  print("sustained, first half second", first);
  print("sustained, last quarter", last);
}

}  // namespace weft::bench
