// Shared by tests on a GPU: they are skipped without a GPU, and own the device memory that they use.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda/launch.h"
#include "runtime/execute/device/devices.h"
#include "tests/kernels/reference.h"

namespace weft::testing {

/// Whether the GPU is emulated (tests/gpu/emulator): its results are as accurate, but it is far slower.
#ifdef WEFT_EMULATED_GPU
inline constexpr bool kEmulated = true;
#else
inline constexpr bool kEmulated = false;
#endif

/// A fixture that skips its tests, with the reason, if no GPU can be used.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const execute::DeviceReport report = execute::report_devices();
    if (!report.missing.empty()) GTEST_SKIP() << "no GPU: " << report.missing;
  }
};

/// Skips its tests where there are fewer GPUs.
template <std::size_t kGpus>
class SeveralGpus : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    const std::size_t found = execute::report_devices().devices.size();
    if (found < kGpus) GTEST_SKIP() << "needs " << kGpus << " GPUs, found " << found;
  }
};

/// Device memory for one test.
class GpuMemory {
 public:
  GpuMemory() = default;
  ~GpuMemory() {
    for (void* memory : memory_) cudaFree(memory);
  }
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  /// A copy of the tensor.
  cpu::Matrix upload(cpu::testing::Tensor& tensor) {
    cpu::Matrix matrix = tensor.view();
    matrix.data = poisoned(static_cast<std::int64_t>(tensor.bytes().size()));
    write(matrix, tensor);
    return matrix;
  }
  static void write(const cpu::Matrix& to, cpu::testing::Tensor& tensor) {
    cuda::check(cudaMemcpy(to.data, tensor.bytes().data(), tensor.bytes().size(), cudaMemcpyHostToDevice),
                "cudaMemcpy");
  }
  /// Once all kernels have ended.
  static cpu::testing::Tensor download(const cpu::Matrix& from) {
    cuda::check(cudaDeviceSynchronize(), "a kernel");
    cpu::testing::Tensor tensor(from.dtype, from.rows, from.cols, from.row_stride - from.cols);
    cuda::check(cudaMemcpy(tensor.bytes().data(), from.data, tensor.bytes().size(), cudaMemcpyDeviceToHost),
                "cudaMemcpy");
    return tensor;
  }
  std::byte* poisoned(std::int64_t bytes) { return filled(bytes, 0xff); }
  std::byte* zeroed(std::int64_t bytes) { return filled(bytes, 0); }

 private:
  std::byte* filled(std::int64_t bytes, int value) {
    void* memory = nullptr;
    cuda::check(cudaMalloc(&memory, static_cast<std::size_t>(bytes)), "cudaMalloc");
    memory_.push_back(memory);
    cuda::check(cudaMemset(memory, value, static_cast<std::size_t>(bytes)), "cudaMemset");
    return static_cast<std::byte*>(memory);
  }

  std::vector<void*> memory_;
};

}  // namespace weft::testing
