#include "runtime/execute/cuda/trial_timer.h"

#include <cstdint>

#include "base/buffer.h"
#include "kernels/cuda/elementwise/elementwise.h"
#include "runtime/execute/tuning/gemm_trials.h"

namespace weft::execute {
namespace {

constexpr int kRepeats = 4;  // runs of a round

}  // namespace

cuda::DeviceBuffer random_numbers(const cpu::Matrix& shape) {
  Buffer numbers((shape.rows * shape.row_stride) * static_cast<std::int64_t>(size_of(shape.dtype)));
  cpu::Matrix matrix = shape;
  matrix.data = numbers.data();
  fill_with_small_numbers(matrix);
  return cuda::on_device({numbers.data(), static_cast<std::size_t>(numbers.size())});
}

CacheFiller::CacheFiller() {
  int device = 0, cache = 0;
  cuda::check(cudaGetDevice(&device), "cudaGetDevice");
  cuda::check(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, device), "cudaDeviceGetAttribute");
  const std::int64_t elements = 2 * std::int64_t{cache} / static_cast<std::int64_t>(sizeof(float));
  const auto zeros = [&](std::int64_t count) {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
    memory_.push_back(cuda::allocate(bytes));
    cuda::check(cudaMemset(memory_.back().get(), 0, bytes), "cudaMemset");
    return cpu::Matrix{memory_.back().get(), 1, count, count, DType::f32};
  };
  data_ = zeros(elements), sum_ = zeros(1);
  memory_.push_back(cuda::allocate(static_cast<std::size_t>(cuda::sum_squares_scratch_bytes(data_))));
}

void CacheFiller::operator()() const {
  cuda::sum_squares({nullptr, memory_.back().get(), nullptr}, data_, sum_, nullptr);
}

TrialTimer::TrialTimer(bool cold) {
  if (cold) filler_.emplace();
  cuda::check(cudaEventCreate(&begin_), "cudaEventCreate");
  cuda::check(cudaEventCreate(&end_), "cudaEventCreate");
}

TrialTimer::~TrialTimer() {
  cudaEventDestroy(begin_);
  cudaEventDestroy(end_);
}

double TrialTimer::operator()(const std::function<void()>& run) const {
  run();
  if (!filler_) return of_runs(run, kRepeats) / kRepeats;
  double total = 0;
  for (int i = 0; i < kRepeats; ++i) {
    (*filler_)();  // beside which the host makes the next launch
    total += of_runs(run, 1);
  }
  return total / kRepeats;
}

double TrialTimer::of_runs(const std::function<void()>& run, int runs) const {
  cuda::check(cudaEventRecord(begin_, nullptr), "cudaEventRecord");
  for (int i = 0; i < runs; ++i) run();
  cuda::check(cudaEventRecord(end_, nullptr), "cudaEventRecord");
  cuda::check(cudaEventSynchronize(end_), "timing a candidate");
  float milliseconds = 0;
  cuda::check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace weft::execute
