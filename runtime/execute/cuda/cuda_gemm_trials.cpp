// cuBLASLt's algorithms against one another, in the layouts that a product can be shown in; see
// runtime/execute/tuning/gemm_trials.h.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/buffer.h"
#include "base/error.h"
#include "kernels/cuda/elementwise/elementwise.h"
#include "kernels/cuda/gemm/gemm.h"
#include "runtime/execute/cuda/cuda_tasks.h"
#include "runtime/execute/device/devices.h"
#include "runtime/execute/tuning/gemm_trials.h"

namespace weft::execute {
namespace {

constexpr int kMostCandidates = 16, kMostInOtherLayout = 4;
constexpr int kRepeats = 4;  // runs of a round

// Of a matrix with random numbers: products of zeros run faster.
cuda::DeviceBuffer random_numbers(const cpu::Matrix& shape) {
  Buffer numbers((shape.rows * shape.row_stride) * static_cast<std::int64_t>(size_of(shape.dtype)));
  cpu::Matrix matrix = shape;
  matrix.data = numbers.data();
  fill_with_small_numbers(matrix);
  return cuda::on_device({numbers.data(), static_cast<std::size_t>(numbers.size())});
}

// Takes the place of all other data in the device's cache. It only reads: written data would still be on its way to
// memory while the next kernel is timed.
class CacheFiller {
 public:
  CacheFiller() {
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
  void operator()() const { cuda::sum_squares({nullptr, memory_.back().get(), nullptr}, data_, sum_, nullptr); }

 private:
  std::vector<cuda::DeviceBuffer> memory_;
  cpu::Matrix data_, sum_;
};

class CudaGemmTrials {
 public:
  explicit CudaGemmTrials(const GemmTrialOptions& options) : options_(options) {
    if (options.cold_gpu) filler_.emplace();
    cuda::check(cudaEventCreate(&begin_), "cudaEventCreate");
    cuda::check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  ~CudaGemmTrials() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  CudaGemmTrials(const CudaGemmTrials&) = delete;
  CudaGemmTrials& operator=(const CudaGemmTrials&) = delete;

  GemmTrial run(const GemmProblem& p) {
    const auto operands = operands_of(p);
    std::vector<cpu::Matrix> matrices(operands.begin(), operands.end());
    if (p.has_bias) matrices.push_back({nullptr, 1, p.n, p.n, p.output});
    if (p.epilogue == Epilogue::bias_gradient) {
      matrices.push_back({nullptr, 1, p.m, p.m, DType::f32});
    } else if (p.epilogue != Epilogue::none) {
      matrices.push_back(matrices[2]);
    }
    std::vector<cuda::DeviceBuffer> memory;
    for (cpu::Matrix& matrix : matrices) {
      memory.push_back(random_numbers(matrix));
      matrix.data = memory.back().get();
    }
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
    return choose_method(p, methods, timer, options_);
  }

 private:
  void reserve(std::int64_t bytes) {
    if (bytes <= scratch_bytes_) return;
    cuda::check(cudaDeviceSynchronize(), "trying products");  // no kernel may use the freed memory
    scratch_.reset();
    scratch_ = cuda::allocate(static_cast<std::size_t>(bytes));
    scratch_bytes_ = bytes;
  }

  cuda::Launch launch() const { return {nullptr, scratch_.get(), nullptr}; }

  double seconds(const cuda::GemmWithEpilogue& product) const {
    product.run(launch());
    if (!filler_) return seconds(product, kRepeats) / kRepeats;
    double total = 0;
    for (int i = 0; i < kRepeats; ++i) {
      (*filler_)();  // beside which the host makes the next launch
      total += seconds(product, 1);
    }
    return total / kRepeats;
  }

  double seconds(const cuda::GemmWithEpilogue& product, int runs) const {
    cuda::check(cudaEventRecord(begin_, nullptr), "cudaEventRecord");
    for (int i = 0; i < runs; ++i) product.run(launch());
    cuda::check(cudaEventRecord(end_, nullptr), "cudaEventRecord");
    cuda::check(cudaEventSynchronize(end_), "timing a product");
    float milliseconds = 0;
    cuda::check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3;
  }

  GemmTrialOptions options_;
  cuda::CublasLt library_;
  std::optional<CacheFiller> filler_;
  cuda::DeviceBuffer scratch_;
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

TryGemm device_gemm_trials(const GemmTrialOptions& options) {
  expect_cuda_device();
  return
      [trials = std::make_shared<CudaGemmTrials>(options)](const GemmProblem& problem) { return trials->run(problem); };
}

}  // namespace weft::execute
