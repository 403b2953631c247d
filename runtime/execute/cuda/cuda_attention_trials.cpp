// cuDNN's engines for attention against one another and against Weft's own kernel; see
// runtime/execute/tuning/gemm_trials.h.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/cudnn_attention.h"
#include "runtime/execute/cuda/cuda_tasks.h"
#include "runtime/execute/cuda/trial_timer.h"
#include "runtime/execute/device/devices.h"
#include "runtime/execute/tuning/gemm_trials.h"

namespace weft::execute {
namespace {

// Device memory of one attention and its gradient. What the forward pass writes is what the backward pass reads.
class AttentionOperands {
 public:
  explicit AttentionOperands(const AttentionProblem& p) : shape_{p.batch, p.seq, p.heads, p.kv_heads, p.head_dim} {
    const std::int64_t tokens = p.batch * p.seq;
    const auto matrix = [&](std::size_t stride, std::int64_t heads) {
      const std::int64_t width = heads * p.head_dim;
      return with_memory({nullptr, tokens, width, std::max(width, p.strides[stride]), DType::bf16});
    };
    tensors_.q = matrix(0, p.heads), tensors_.k = matrix(1, p.kv_heads);
    tensors_.v = matrix(2, p.kv_heads), tensors_.out = matrix(3, p.heads);
    tensors_.log_sum_exp = with_memory({nullptr, 1, tokens * p.heads, tokens * p.heads, DType::f32});
    if (!p.backward) return;
    gradients_.dout = matrix(4, p.heads), gradients_.dq = matrix(5, p.heads);
    gradients_.dk = matrix(6, p.kv_heads), gradients_.dv = matrix(7, p.kv_heads);
  }

  const cuda::AttentionShape& shape() const { return shape_; }
  const cuda::AttentionTensors& tensors() const { return tensors_; }
  const cuda::AttentionGradients& gradients() const { return gradients_; }
  cuda::AttentionPointers pointers(std::byte* workspace) const {
    return {workspace,
            tensors_.q.data,
            tensors_.k.data,
            tensors_.v.data,
            tensors_.out.data,
            tensors_.log_sum_exp.f32(),
            gradients_.dout.data,
            gradients_.dq.data,
            gradients_.dk.data,
            gradients_.dv.data};
  }

 private:
  cpu::Matrix with_memory(cpu::Matrix matrix) {
    memory_.push_back(random_numbers(matrix));
    matrix.data = memory_.back().get();
    return matrix;
  }

  cuda::AttentionShape shape_;
  std::vector<cuda::DeviceBuffer> memory_;
  cuda::AttentionTensors tensors_;
  cuda::AttentionGradients gradients_ = {};
};

class CudaAttentionTrials {
 public:
  CudaAttentionTrials(const GemmTrialOptions& options, std::int64_t most_workspace)
      : options_(options), most_workspace_(most_workspace), timer_(options.cold_gpu) {}

  AttentionTrial run(const AttentionProblem& p) {
    const AttentionOperands operands(p);
    const auto engines =
        cuda::CudnnAttention::by_every_engine(cudnn_, layout_of(p), p.backward, {most_workspace_, p.any_bits});
    std::int64_t bytes = p.backward ? cuda::attention_backward_scratch_bytes(operands.shape()) : 0;
    for (const auto& engine : engines) bytes = std::max(bytes, engine->workspace_bytes());
    const cuda::DeviceBuffer workspace = cuda::allocate(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)));
    cuda::Launch launch = libraries_.launch();
    launch.scratch = workspace.get();

    std::vector<AttentionMethod> methods;
    std::vector<std::function<void()>> runs;
    const auto add = [&](const AttentionMethod& method, std::function<void()> run) {
      if (std::ranges::find(methods, method) != methods.end()) return;  // cuDNN may propose an engine twice
      methods.push_back(method);
      runs.push_back(std::move(run));
    };
    std::vector<cuda::CudnnAttention::Bound> bound;
    bound.reserve(engines.size());
    for (const auto& engine : engines) {
      const auto& by_engine = bound.emplace_back(engine->bind(operands.pointers(workspace.get())));
      add({engine->engine(), engine->deterministic()}, [&by_engine] { by_engine.run(nullptr); });
    }
    const auto forward = [&] { cuda::attention_forward(launch, operands.shape(), operands.tensors()); };
    forward();
    if (p.backward) {
      add({}, [&] { cuda::attention_backward(launch, operands.shape(), operands.tensors(), operands.gradients()); });
    } else {
      add({}, forward);
    }
    const GemmTimer timer = [&](std::size_t candidate) { return timer_(runs[candidate]); };
    AttentionTrial trial = choose_method(p, methods, timer, options_);
    cuda::check(cudaDeviceSynchronize(), "trying attention");  // no kernel may use the freed memory
    return trial;
  }

 private:
  GemmTrialOptions options_;
  std::int64_t most_workspace_;
  CudaLibraries libraries_;
  cuda::CudnnHandle cudnn_;
  TrialTimer timer_;
};

}  // namespace

TryAttention device_attention_trials(const GemmTrialOptions& options, std::int64_t most_workspace) {
  expect_cuda_device();
  return [trials = std::make_shared<CudaAttentionTrials>(options, most_workspace)](const AttentionProblem& problem) {
    return trials->run(problem);
  };
}

}  // namespace weft::execute
