// Shared by tests on a GPU: they are skipped without a GPU, and own the device memory that they use.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda/launch.h"
#include "runtime/execute/device/devices.h"

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

  std::byte* upload(const std::vector<std::byte>& bytes) {
    std::byte* const memory = poisoned(static_cast<std::int64_t>(bytes.size()));
    write(memory, bytes);
    return memory;
  }
  void write(std::byte* to, const std::vector<std::byte>& bytes) {
    cuda::check(cudaMemcpy(to, bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  std::vector<std::byte> download(const std::byte* from, std::int64_t count) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(count));
    cuda::check(cudaMemcpy(bytes.data(), from, bytes.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return bytes;
  }
  std::byte* poisoned(std::int64_t bytes) { return filled(bytes, 0xff); }
  std::byte* zeroed(std::int64_t bytes) { return filled(bytes, 0); }
  void synchronize() { cuda::check(cudaDeviceSynchronize(), "a kernel"); }

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
