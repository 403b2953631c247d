// From operations to CUDA kernels; see cuda_tasks.h.
#include "runtime/execute/cuda/cuda_tasks.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "base/error.h"
#include "kernels/cpu/attention/rope.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/attention_decode.h"
#include "kernels/cuda/attention/rope.h"
#include "kernels/cuda/elementwise/activation.h"
#include "kernels/cuda/elementwise/cast.h"
#include "kernels/cuda/elementwise/columns.h"
#include "kernels/cuda/elementwise/dropout.h"
#include "kernels/cuda/elementwise/elementwise.h"
#include "kernels/cuda/elementwise/embedding.h"
#include "kernels/cuda/elementwise/optimizer.h"
#include "kernels/cuda/elementwise/optimizer_batch.h"
#include "kernels/cuda/gemm/bias_gradient.h"
#include "kernels/cuda/gemm/gemm_epilogue.h"
#include "kernels/cuda/loss/cross_entropy.h"
#include "kernels/cuda/loss/vocab_parallel.h"
#include "kernels/cuda/norm/layer_norm.h"
#include "kernels/cuda/norm/norm_parts.h"
#include "kernels/cuda/norm/rms_norm.h"
#include "runtime/execute/kernel_calls.h"
#include "runtime/execute/task_arguments.h"

namespace weft {
namespace {

using cpu::Matrix;
using cuda::Launch;

cpu::AttentionShape shape_of(const auto& op) {
  return {op.batch, op.seq, op.heads, op.kv_heads, op.head_dim};
}

// cuDNN's plan for a task, if it has one.
struct PreparedAttention {
  const cuda::CudnnAttention* plan = nullptr;
};

cuda::AttentionLayout layout_of(const auto& op, std::span<const Matrix> arguments) {
  const auto stride = [&](std::size_t i) { return arguments[i].row_stride; };
  cuda::AttentionLayout layout{op.batch,  op.seq,    op.heads,  op.kv_heads, op.head_dim,
                               stride(0), stride(1), stride(2), stride(3)};
  if (arguments.size() > 5) {
    layout.dout_stride = stride(5), layout.dq_stride = stride(6);
    layout.dk_stride = stride(7), layout.dv_stride = stride(8);
  }
  return layout;
}

[[noreturn]] void refuse_packed_weights() {
  throw UserError("the plan packs weights", "a plan for device = cuda: GPUs have no packed weights",
                  "write it with `weft plan --device cuda`");
}

// Library plans and tables that are made once.
struct Preparation {
  std::span<const Matrix> arguments;
  CudaLibraries& libraries;

  cuda::GemmWithEpilogue operator()(const Gemm& op) const {
    const GemmProblem problem = problem_of(op, arguments);
    const GemmTuning* const tuning = libraries.tuning();
    const DeviceGemmMethod* const method = tuning != nullptr ? tuning->find_on_device(problem) : nullptr;
    std::optional<cuda::GemmAlgorithm> algorithm;
    if (method != nullptr) algorithm = cuda::parse_hex(method->algorithm);
    return {libraries.cublas(),
            key_of(problem, arguments),
            arguments[0],
            arguments[1],
            arguments[2],
            op.has_bias ? &arguments[3] : nullptr,
            op.epilogue != Epilogue::none ? &arguments[op.has_bias ? 4 : 3] : nullptr,
            algorithm ? &*algorithm : nullptr,
            method != nullptr ? method->layout : cuda::GemmLayout::own};
  }
  // A plan that was made for the CPU: refused before its first step.
  std::monostate operator()(const PackWeight&) const { refuse_packed_weights(); }
  const float* operator()(const Rope& op) const {
    return libraries.constants(cpu::rope_frequencies(
        op.head_dim, op.theta, {op.scaling_factor, op.low_freq_factor, op.high_freq_factor, op.original_context}));
  }
  PreparedAttention operator()(const AttentionForward& op) const { return attention(op, false); }
  PreparedAttention operator()(const AttentionBackward& op) const { return attention(op, true); }
  std::monostate operator()(const auto&) const { return {}; }

  PreparedAttention attention(const auto& op, bool backward) const {
    if (arguments[0].dtype != DType::bf16) return {};
    return {libraries.attention(layout_of(op, arguments), backward)};
  }
};

template <class Op>
using PreparedFor = std::invoke_result_t<Preparation, const Op&>;

template <class Prepared>
struct ScratchOf {
  std::span<const Matrix> arguments;
  const Prepared& prepared;

  std::int64_t operator()(const Gemm&) const { return prepared.scratch_bytes(); }
  std::int64_t operator()(const BiasGradient& op) const { return cuda::bias_gradient_scratch_bytes(op.rows, op.cols); }
  std::int64_t operator()(const LayerNormBackward& op) const {
    return cuda::layer_norm_backward_scratch_bytes(op.rows, op.cols);
  }
  std::int64_t operator()(const RmsNormBackward& op) const {
    return cuda::rms_norm_backward_scratch_bytes(op.rows, op.cols);
  }
  std::int64_t operator()(const NormBackwardOfParts& op) const {
    return cuda::norm_backward_of_parts_scratch_bytes(op.centered, op.rows, op.cols);
  }
  std::int64_t operator()(const EmbeddingBackward& op) const {
    return cuda::embedding_backward_scratch_bytes(op.rows, op.cols, op.vocab);
  }
  std::int64_t operator()(const AttentionForward& op) const {
    return prepared.plan != nullptr ? prepared.plan->workspace_bytes()
                                    : cuda::attention_forward_scratch_bytes(shape_of(op));
  }
  std::int64_t operator()(const AttentionBackward& op) const {
    return prepared.plan != nullptr ? prepared.plan->workspace_bytes()
                                    : cuda::attention_backward_scratch_bytes(shape_of(op));
  }
  std::int64_t operator()(const SumSquares&) const { return cuda::sum_squares_scratch_bytes(arguments[0]); }
  std::int64_t operator()(const auto&) const { return 0; }
};

template <class Prepared>
struct Run : KernelCalls<const Launch, const std::int64_t*> {
  const Prepared& prepared;
  const std::optional<cuda::CudnnAttention::Bound>& bound;

  using KernelCalls::operator();

  void operator()(const Gemm&) const { prepared.run(where); }
  void operator()(const PackWeight&) const { refuse_packed_weights(); }
  void operator()(const AddBias&) const { cuda::add_bias(where, at(0), at(1), scalar(2)); }
  void operator()(const TakeColumns& op) const {
    cuda::take_columns(where, at(0), scalar(1), op.ranks_per_window, at(2));
  }
  void operator()(const PutColumns& op) const {
    cuda::put_columns(where, at(0), scalar(1), op.ranks_per_window, at(2));
  }
  void operator()(const EmbeddingForward& op) const {
    const std::size_t out = op.positions ? 3 : 2;
    cuda::embedding_forward(where, at(0), at(1), op.positions ? &at(2) : nullptr, op.seq_len,
                            op.has_offset ? scalar(out + 1) : nullptr, at(out), last_scalar_if(op.sharded));
  }
  void operator()(const EmbeddingBackward& op) const {
    cuda::embedding_backward(where, at(0), at(1), at(2), op.accumulate, last_scalar_if(op.sharded));
  }
  void operator()(const Rope& op) const {
    cuda::rope(where, prepared, op.heads, op.seq_len, last_scalar_if(op.has_offset), op.inverse, at(0));
  }
  void operator()(const AttentionForward& op) const { bound ? bound->run(where.stream) : KernelCalls::operator()(op); }
  void operator()(const AttentionBackward& op) const { bound ? bound->run(where.stream) : KernelCalls::operator()(op); }
  void operator()(const Dropout& op) const {
    const cuda::DropoutMask mask{op.site, op.row_offset, op.p, op.parts, scalar(1), last_scalar_if(op.parts > 1)};
    cuda::dropout(where, mask, at(0), op.residual ? &at(3) : nullptr, at(2));
  }
  void operator()(const LossSum& op) const {
    cuda::loss_sum(where, at(0), at(1), at(2), op.accumulate, last_scalar_if(op.owned));
  }
  void operator()(const SumSquares& op) const { cuda::sum_squares(where, at(0), at(1), last_scalar_if(op.owned)); }
};

template <class Op>
class CudaTaskOf final : public CudaTask {
 public:
  CudaTaskOf(const Op& operation, std::vector<Matrix> arguments, CudaLibraries& libraries)
      : operation_(operation),
        arguments_(std::move(arguments)),
        prepared_(Preparation{arguments_, libraries}(operation_)) {}

  std::int64_t scratch_bytes() const override { return ScratchOf<PreparedFor<Op>>{arguments_, prepared_}(operation_); }

  void bind(std::byte* scratch) override {
    scratch_ = scratch;
    if constexpr (std::is_same_v<PreparedFor<Op>, PreparedAttention>) {
      if (prepared_.plan == nullptr) return;
      const auto pointer = [&](std::size_t i) { return i < arguments_.size() ? arguments_[i].data : nullptr; };
      bound_ = prepared_.plan->bind({.workspace = scratch,
                                     .q = pointer(0),
                                     .k = pointer(1),
                                     .v = pointer(2),
                                     .out = pointer(3),
                                     .log_sum_exp = arguments_[4].f32(),
                                     .dout = pointer(5),
                                     .dq = pointer(6),
                                     .dk = pointer(7),
                                     .dv = pointer(8)});
    }
  }

  Operation operation() const override { return operation_; }
  std::span<const Matrix> arguments() const override { return arguments_; }

  void run(cudaStream_t stream, cuda::Fault* fault) const override {
    const Launch launch{stream, scratch_, fault};
    Run<PreparedFor<Op>>{{arguments_, launch}, prepared_, bound_}(operation_);
  }

 private:
  Op operation_;
  std::vector<Matrix> arguments_;
  PreparedFor<Op> prepared_;
  std::optional<cuda::CudnnAttention::Bound> bound_;
  std::byte* scratch_ = nullptr;
};

// A batch of optimizer_batch.h as a task.
template <class Batch>
class CudaBatch final : public CudaTask {
 public:
  template <class Arguments>
  CudaBatch(const CudaTask& first, const std::vector<Arguments>& tensors) : first_(first), batch_(tensors) {}

  std::int64_t scratch_bytes() const override { return 0; }
  void bind(std::byte* /*scratch*/) override {}
  Operation operation() const override { return first_.operation(); }
  std::span<const Matrix> arguments() const override { return first_.arguments(); }
  void run(cudaStream_t stream, cuda::Fault* fault) const override { batch_.run({stream, nullptr, fault}); }

 private:
  const CudaTask& first_;
  Batch batch_;
};

}  // namespace

cuda::GemmKey key_of(const GemmProblem& problem, std::span<const cpu::Matrix> arguments) {
  cuda::GemmKey key;
  key.m = problem.m, key.n = problem.n, key.k = problem.k;
  key.trans_a = problem.trans_a, key.trans_b = problem.trans_b;
  key.accumulate = problem.accumulate, key.has_bias = problem.has_bias;
  key.inputs = problem.inputs, key.output = problem.output;
  key.strides = {arguments[0].row_stride, arguments[1].row_stride, arguments[2].row_stride};
  key.epilogue = problem.epilogue;
  return key;
}

std::unique_ptr<CudaTask> fuse_cuda_tasks(std::span<const CudaTask* const> tasks) {
  std::vector<cuda::SumSquaresArguments> sums;
  std::vector<cuda::AdamWArguments> updates;
  for (const CudaTask* task : tasks) {
    const Operation operation = task->operation();
    const std::span<const Matrix> a = task->arguments();
    if (const auto* op = std::get_if<SumSquares>(&operation)) {
      sums.push_back({a[0], a[1], op->owned ? a[2].i64() : nullptr});
    } else if (const auto* op = std::get_if<AdamW>(&operation)) {
      if (!updates.empty() && updates.front().param.dtype != a[0].dtype) return nullptr;
      updates.push_back({{op->beta1, op->beta2, op->eps, op->weight_decay},
                         {a[4], a[5]},
                         a[0],
                         a[1],
                         a[2],
                         a[3],
                         op->has_master ? &a[6] : nullptr});
    }
  }
  if (sums.size() == tasks.size()) return std::make_unique<CudaBatch<cuda::SumSquaresBatch>>(*tasks.front(), sums);
  if (updates.size() == tasks.size()) return std::make_unique<CudaBatch<cuda::AdamWBatch>>(*tasks.front(), updates);
  return nullptr;
}

CudaLibraries::~CudaLibraries() {
  for (auto& [values, memory] : constants_) cudaFree(memory);
}

const cuda::CudnnAttention* CudaLibraries::attention(const cuda::AttentionLayout& layout, bool backward) {
  const auto [found, fresh] = attention_.try_emplace({layout, backward});
  if (fresh) {
    found->second =
        backward ? cuda::CudnnAttention::backward(cudnn_, layout) : cuda::CudnnAttention::forward(cudnn_, layout);
  }
  return found->second.get();
}

const float* CudaLibraries::constants(const std::vector<float>& values) {
  const auto [found, fresh] = constants_.try_emplace(values, nullptr);
  if (fresh) {
    cuda::check(cudaMalloc(reinterpret_cast<void**>(&found->second), values.size() * sizeof(float)), "cudaMalloc");
    cuda::check(cudaMemcpy(found->second, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice),
                "cudaMemcpy");
  }
  return found->second;
}

std::unique_ptr<CudaTask> prepare_cuda_task(const Operation& operation, std::vector<cpu::Matrix> arguments,
                                            CudaLibraries& libraries) {
  arguments = fitted_arguments(operation, std::move(arguments));
  return std::visit(
      [&]<class Op>(const Op& op) -> std::unique_ptr<CudaTask> {
        return std::make_unique<CudaTaskOf<Op>>(op, std::move(arguments), libraries);
      },
      operation);
}

}  // namespace weft
