// For benchmarks on a GPU: device memory with random numbers, and the median time of what runs there.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <vector>

#include "base/dtype.h"
#include "base/median.h"
#include "kernels/cuda/elementwise/elementwise.h"
#include "kernels/cuda/launch.h"

namespace weft::bench {

/// Device memory for the arguments of one line, filled with random numbers.
class GpuPool {
 public:
  GpuPool() = default;
  ~GpuPool() { clear(); }
  GpuPool(const GpuPool&) = delete;
  GpuPool& operator=(const GpuPool&) = delete;
  void clear() {
    for (void* memory : memory_) cudaFree(memory);
    memory_.clear();
  }

  cuda::Matrix matrix(DType dtype, std::int64_t rows, std::int64_t cols) {
    const std::vector<std::byte>& pattern = pattern_of(dtype);
    const auto bytes = static_cast<std::size_t>(rows * cols) * size_of(dtype);
    std::byte* const memory = allocate(bytes);
    // Matrices begin at different places of the pattern, so that none is like another.
    std::size_t from = random_() % (kPattern / kPatternUnit) * kPatternUnit;
    for (std::size_t at = 0; at < bytes; from = 0) {
      const std::size_t count = std::min(kPattern - from, bytes - at);
      cuda::check(cudaMemcpy(memory + at, pattern.data() + from, count, cudaMemcpyDefault), "cudaMemcpy");
      at += count;
    }
    return {memory, rows, cols, cols, dtype};
  }
  cuda::Matrix tokens(std::int64_t count, std::int64_t below) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(count));
    for (auto& value : values) value = static_cast<std::int32_t>(random_() % static_cast<std::uint64_t>(below));
    std::byte* const memory = allocate(values.size() * 4);
    cuda::check(cudaMemcpy(memory, values.data(), values.size() * 4, cudaMemcpyDefault), "cudaMemcpy");
    return {memory, 1, count, count, DType::i32};
  }
  std::byte* allocate(std::size_t bytes) {
    void* memory = nullptr;
    cuda::check(cudaMalloc(&memory, std::max<std::size_t>(bytes, 256)), "cudaMalloc");
    memory_.push_back(memory);
    return static_cast<std::byte*>(memory);
  }

 private:
  static constexpr std::size_t kPattern = std::size_t{4} << 20, kPatternUnit = 256;

  /// Of f32 or bf16, made when it is first needed, because that takes a tenth of a second.
  const std::vector<std::byte>& pattern_of(DType dtype) {
    std::vector<std::byte>& pattern = patterns_[dtype];
    if (!pattern.empty()) return pattern;
    pattern.resize(kPattern);
    std::normal_distribution<float> normal(0.0F, 1.0F);
    for (std::size_t at = 0; at < kPattern; at += size_of(dtype)) {
      const float value = normal(random_);
      const bf16 narrow(value);
      std::memcpy(pattern.data() + at, dtype == DType::f32 ? static_cast<const void*>(&value) : &narrow,
                  size_of(dtype));
    }
    return pattern;
  }

  std::mt19937_64 random_{1};
  std::map<DType, std::vector<std::byte>> patterns_;
  std::vector<void*> memory_;
};

class GpuTimer {
 public:
  explicit GpuTimer(bool quick) : runs_(quick ? 1 : kRuns), first_runs_(quick ? 0 : 3) {
    cuda::check(cudaEventCreate(&begin_), "cudaEventCreate");
    cuda::check(cudaEventCreate(&end_), "cudaEventCreate");
    busy_ = matrix(quick ? 1 << 10 : kBusyElements);
    partial_ = matrix(1);
    launch_.scratch = static_cast<std::byte*>(matrix(cuda::sum_squares_scratch_bytes(busy_)).data);
  }
  ~GpuTimer() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  GpuTimer(const GpuTimer&) = delete;
  GpuTimer& operator=(const GpuTimer&) = delete;

  /// Median milliseconds of a run.
  double operator()(const std::function<void()>& run) const {
    for (int i = 0; i < first_runs_; ++i) run();
    std::vector<double> times;
    for (int i = 0; i < runs_; ++i) {
      // Fills the cache with other data, and keeps the GPU busy until the following launches are made. It only reads:
      // written data would still be on its way to memory while the kernel is timed.
      cuda::sum_squares(launch_, busy_, partial_, nullptr);
      cuda::check(cudaEventRecord(begin_, nullptr), "cudaEventRecord");
      run();
      cuda::check(cudaEventRecord(end_, nullptr), "cudaEventRecord");
      cuda::check(cudaEventSynchronize(end_), "a kernel");
      float ms = 0;
      cuda::check(cudaEventElapsedTime(&ms, begin_, end_), "cudaEventElapsedTime");
      times.push_back(static_cast<double>(ms));
    }
    return median(times);
  }

 private:
  static constexpr int kRuns = 20;
  static constexpr std::int64_t kBusyElements = 96 << 20;

  cuda::Matrix matrix(std::int64_t elements) {
    const auto bytes = static_cast<std::size_t>(elements) * sizeof(float);
    std::byte* const memory = pool_.allocate(bytes);
    cuda::check(cudaMemset(memory, 0, bytes), "cudaMemset");
    return {memory, 1, elements, elements, DType::f32};
  }

  int runs_, first_runs_;
  GpuPool pool_;
  cuda::Matrix busy_, partial_;
  cuda::Launch launch_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace weft::bench
