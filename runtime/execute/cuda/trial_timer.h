// Times work on a GPU for trials of `weft tune`: by events, with the operands in the GPU's cache or out of it.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <optional>
#include <vector>

#include "kernels/cpu/matrix.h"
#include "kernels/cuda/launch.h"

namespace weft::execute {

/// Memory of a matrix, with random numbers: kernels on zeros run faster.
cuda::DeviceBuffer random_numbers(const cpu::Matrix& shape);

/// Takes the place of all other data in the device's cache. It only reads: written data would still be on its way to
/// memory while the next kernel is timed.
class CacheFiller {
 public:
  CacheFiller();
  void operator()() const;

 private:
  std::vector<cuda::DeviceBuffer> memory_;
  cpu::Matrix data_, sum_;
};

/// On the device that is current.
///
///   const TrialTimer timer(cold);
///   const double seconds = timer([&] { product.run(launch); });
class TrialTimer {
 public:
  explicit TrialTimer(bool cold);
  ~TrialTimer();
  TrialTimer(const TrialTimer&) = delete;
  TrialTimer& operator=(const TrialTimer&) = delete;

  /// Of one run of several, after one that isn't timed; `run` enqueues on the default stream. If `cold`, other data
  /// fills the cache before each.
  double operator()(const std::function<void()>& run) const;

 private:
  double of_runs(const std::function<void()>& run, int runs) const;

  std::optional<CacheFiller> filler_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace weft::execute
