// Calls of CUDA kernels for operations: one overload per operation, so that an operation without a kernel doesn't
// compile.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "graph/operation.h"
#include "kernels/cpu/matrix.h"
#include "kernels/cuda/attention/cudnn_attention.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/launch.h"
#include "runtime/execute/device/device.h"
#include "runtime/execute/device/devices.h"
#include "runtime/execute/tuning/gemm_tuning.h"

namespace weft::execute {

/// A product on matrices of device memory (a Gemm's slots: A, B and C come first), as a key for cuBLASLt, with the
/// matrices' strides.
cuda::GemmKey key_of(const GemmProblem& problem, std::span<const cpu::Matrix> slots);

/// As cuDNN is asked for it.
cuda::AttentionLayout layout_of(const AttentionProblem& problem);

/// The library handles of one device, and objects that are slow to make and that tasks of equal shape share.
class CudaLibraries {
 public:
  cuda::CublasLt& cublas() { return cublas_; }
  const GemmTuning* tuning() const { return settings_.tuning.get(); }
  /// As the settings have it computed.
  GemmProblem problem_of(const graph::Gemm& operation, std::span<const cpu::Matrix> slots) const;

  /// cuDNN's plan by the table's engine, or by its first one. Null if the table wants Weft's own kernels, or cuDNN has
  /// no engine within the settings. An engine of the table that isn't there is told as a warning, and replaced.
  const cuda::CudnnAttention* attention(AttentionProblem problem);

  /// Numbers that kernels read, copied to the device once.
  const float* constants(const std::vector<float>& values);

  /// A launch without addresses: what a block can have, and which forms of kernels were asked for and can run.
  const cuda::Launch& launch() const { return launch_; }

  /// On the current device.
  explicit CudaLibraries(CudaSettings settings = {});
  CudaLibraries(const CudaLibraries&) = delete;
  CudaLibraries& operator=(const CudaLibraries&) = delete;

 private:
  const CudaSettings settings_;
  cuda::CublasLt cublas_;
  cuda::CudnnHandle cudnn_;
  std::map<AttentionProblem, std::unique_ptr<cuda::CudnnAttention>> attention_;
  std::map<std::vector<float>, cuda::DeviceBuffer> constants_;
  cuda::Launch launch_;
};

/// Work with its device addresses. run() enqueues and allocates nothing.
class CudaWork : public DeviceTask {
 public:
  virtual void run(cudaStream_t stream, cuda::Fault* fault) const = 0;
};

/// A graph's computation.
class CudaTask : public CudaWork {
 public:
  /// The operation and the slots of its arguments from which it was prepared (runtime/execute/task_arguments.h).
  virtual graph::Operation operation() const = 0;
  virtual std::span<const cpu::Matrix> slots() const = 0;
};

/// `arguments` are the task's accesses in device memory, in the order of the operation's schema. Throws
/// std::logic_error as fitted_arguments() does.
std::unique_ptr<CudaTask> prepare_cuda_task(const graph::Operation& operation,
                                            const std::vector<cpu::Matrix>& arguments, std::byte* scratch,
                                            CudaLibraries& libraries);

/// Bytes of scratch of such a task; the arguments need no data.
std::int64_t cuda_scratch_bytes(const graph::Operation& operation, const std::vector<cpu::Matrix>& arguments,
                                CudaLibraries& libraries);

/// One task for the updates, or the sums of squares, of many parameters; null for other tasks and for tasks that can't
/// be fused.
std::unique_ptr<CudaTask> fuse_cuda_tasks(std::span<const CudaTask* const> tasks);

}  // namespace weft::execute
