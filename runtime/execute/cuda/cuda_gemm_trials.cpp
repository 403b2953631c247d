// cuBLASLt's algorithms against one another, in the layouts that a product can be shown in; see
// runtime/execute/tuning/device_gemm_trials.h.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/gemm/gemm_epilogue.h"
#include "runtime/execute/cuda/cuda_tasks.h"
#include "runtime/execute/device/devices.h"
#include "runtime/execute/tuning/device_gemm_layouts.h"
#include "runtime/execute/tuning/device_gemm_trials.h"

namespace weft::execute {
namespace {

constexpr int kMostCandidates = 16, kMostInOtherLayout = 4;
constexpr int kRepeats = 4;  // runs between two events

class TrialMemory {
 public:
  explicit TrialMemory(std::int64_t bytes) {
    cuda::check(cudaMalloc(&memory_, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 256))), "cudaMalloc");
  }
  ~TrialMemory() { cudaFree(memory_); }
  TrialMemory(const TrialMemory&) = delete;
  TrialMemory& operator=(const TrialMemory&) = delete;
  void* get() const { return memory_; }

 private:
  void* memory_ = nullptr;
};

// Random numbers: products of zeros run faster.
void fill(const TrialMemory& memory, std::int64_t elements, DType dtype) {
  std::vector<float> values(static_cast<std::size_t>(std::min<std::int64_t>(elements, 1 << 20)));
  std::uint32_t state = 12345;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(state >> 8) / static_cast<float>(1 << 24) - 0.5F;
  }
  std::vector<bf16> narrow;
  for (const float value : values) narrow.emplace_back(value);
  const auto* from = dtype == DType::f32 ? static_cast<const void*>(values.data()) : narrow.data();
  const std::size_t element = size_of(dtype);
  for (std::int64_t at = 0; at < elements; at += static_cast<std::int64_t>(values.size())) {
    const auto count = static_cast<std::size_t>(std::min<std::int64_t>(elements - at, std::ssize(values)));
    cuda::check(cudaMemcpy(static_cast<std::byte*>(memory.get()) + static_cast<std::size_t>(at) * element, from,
                           count * element, cudaMemcpyHostToDevice),
                "cudaMemcpy");
  }
}

class CudaGemmTrials final : public DeviceGemmTrials {
 public:
  explicit CudaGemmTrials(const GemmTrialOptions& options) : options_(options) {
    cuda::check(cudaEventCreate(&begin_), "cudaEventCreate");
    cuda::check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  ~CudaGemmTrials() override {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  CudaGemmTrials(const CudaGemmTrials&) = delete;
  CudaGemmTrials& operator=(const CudaGemmTrials&) = delete;

  GemmTrial run(const GemmProblem& p) override {
    const std::array<std::int64_t, 3> rows = {p.trans_a ? p.k : p.m, p.trans_b ? p.n : p.k, p.m};
    const std::array<std::int64_t, 3> cols = {p.trans_a ? p.m : p.k, p.trans_b ? p.k : p.n, p.n};
    std::vector<std::unique_ptr<TrialMemory>> memory;
    std::vector<cpu::Matrix> matrices;
    const auto add = [&](std::int64_t r, std::int64_t c, std::int64_t stride, DType dtype) {
      memory.push_back(std::make_unique<TrialMemory>(r * stride * static_cast<std::int64_t>(size_of(dtype))));
      fill(*memory.back(), r * stride, dtype);
      matrices.push_back({memory.back()->get(), r, c, stride, dtype});
    };
    for (std::size_t i = 0; i < 3; ++i) add(rows[i], cols[i], p.strides[i], i == 2 ? p.output : p.inputs);
    if (p.has_bias) add(1, p.n, p.n, p.output);
    if (p.epilogue != Epilogue::none) add(p.m, p.n, p.strides[2], p.output);
    const cuda::GemmKey key = key_of(p, matrices);
    const auto product = [&](const cuda::GemmAlgorithm* algorithm, cuda::GemmLayout layout) {
      return cuda::GemmWithEpilogue(library_, key, matrices[0], matrices[1], matrices[2],
                                    p.has_bias ? &matrices[3] : nullptr,
                                    p.epilogue != Epilogue::none ? &matrices.back() : nullptr, algorithm, layout);
    };
    std::vector<cuda::GemmWithEpilogue> prepared;
    std::vector<GemmMethod> methods;
    const auto add_layout = [&](cuda::GemmLayout layout, int most) {
      std::optional<cuda::GemmWithEpilogue> first;
      try {
        first.emplace(product(nullptr, layout));
      } catch (const RuntimeFault&) {
        return;  // the library has no algorithm
      }
      reserve(first->scratch_bytes());
      for (const cuda::GemmAlgorithm& algorithm : first->candidates(most)) {
        prepared.push_back(product(&algorithm, layout));
        // The heuristic may propose algorithms that the library then refuses.
        try {
          prepared.back().run(launch());
          methods.emplace_back(DeviceGemmMethod{cuda::to_hex(algorithm), layout});
        } catch (const RuntimeFault&) {
          prepared.pop_back();
        }
      }
    };
    add_layout(cuda::GemmLayout::own, kMostCandidates);
    for (const cuda::GemmLayout layout : device_gemm_layouts(p)) add_layout(layout, kMostInOtherLayout);
    if (methods.empty()) throw RuntimeFault("cuBLASLt has no algorithm for the product " + to_string(p));
    const GemmTimer timer = [&](std::size_t candidate) { return seconds(prepared[candidate]); };
    const GemmVerdict verdict = choose_candidate(methods.size(), timer, options_);
    return {p,
            methods.front(),
            methods[verdict.chosen],
            verdict.usual_seconds,
            verdict.chosen_seconds,
            verdict.gain,
            methods.size()};
  }

 private:
  void reserve(std::int64_t bytes) {
    if (bytes <= scratch_bytes_) return;
    cuda::check(cudaDeviceSynchronize(), "trying products");  // no kernel may use the freed memory
    scratch_.reset();
    scratch_ = std::make_unique<TrialMemory>(bytes);
    scratch_bytes_ = bytes;
  }

  cuda::Launch launch() const { return {nullptr, static_cast<std::byte*>(scratch_->get()), nullptr}; }

  double seconds(const cuda::GemmWithEpilogue& product) const {
    product.run(launch());
    cuda::check(cudaEventRecord(begin_, nullptr), "cudaEventRecord");
    for (int i = 0; i < kRepeats; ++i) product.run(launch());
    cuda::check(cudaEventRecord(end_, nullptr), "cudaEventRecord");
    cuda::check(cudaEventSynchronize(end_), "timing a product");
    float milliseconds = 0;
    cuda::check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3 / kRepeats;
  }

  GemmTrialOptions options_;
  cuda::CublasLt library_;
  std::unique_ptr<TrialMemory> scratch_;
  std::int64_t scratch_bytes_ = 0;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace

TuningMachine device_tuning_machine() {
  const DeviceReport report = report_devices();
  if (report.devices.empty()) return {"no GPU", "cuBLASLt, which has no GPU here"};
  const auto library =
      std::ranges::find_if(report.libraries, [](const std::string& name) { return name.starts_with("cuBLASLt"); });
  return {report.devices.front(), library == report.libraries.end() ? "cuBLASLt" : *library};
}

std::unique_ptr<DeviceGemmTrials> make_device_gemm_trials(const GemmTrialOptions& options) {
  expect_cuda_device();
  return std::make_unique<CudaGemmTrials>(options);
}

}  // namespace weft::execute
