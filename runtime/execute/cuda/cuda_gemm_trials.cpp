// cuBLASLt's algorithms against one another, in the layouts that a product can be shown in; see
// runtime/execute/tuning/gemm_trials.h.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/gemm/gemm.h"
#include "runtime/execute/cuda/cuda_tasks.h"
#include "runtime/execute/cuda/trial_timer.h"
#include "runtime/execute/device/devices.h"
#include "runtime/execute/tuning/gemm_trials.h"

namespace weft::execute {
namespace {

constexpr int kMostCandidates = 16, kMostInOtherLayout = 4;

class CudaGemmTrials {
 public:
  explicit CudaGemmTrials(const GemmTrialOptions& options) : options_(options), timer_(options.cold_gpu) {}

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
    const GemmTimer timer = [&](std::size_t candidate) { return timer_([&] { prepared[candidate].run(launch()); }); };
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

  GemmTrialOptions options_;
  cuda::CublasLt library_;
  TrialTimer timer_;
  cuda::DeviceBuffer scratch_;
  std::int64_t scratch_bytes_ = 0;
};

}  // namespace

TuningMachine device_tuning_machine() {
  const DeviceReport report = report_devices();
  if (report.devices.empty()) return {"no GPU", "cuBLASLt, which has no GPU here", "cuDNN, which has no GPU here"};
  const auto library = [&](const std::string& name) {
    const auto found =
        std::ranges::find_if(report.libraries, [&](const std::string& each) { return each.starts_with(name); });
    return found == report.libraries.end() ? name : *found;
  };
  return {report.devices.front(), library("cuBLASLt"), library("cuDNN")};
}

TryGemm device_gemm_trials(const GemmTrialOptions& options) {
  expect_cuda_device();
  return
      [trials = std::make_shared<CudaGemmTrials>(options)](const GemmProblem& problem) { return trials->run(problem); };
}

}  // namespace weft::execute
