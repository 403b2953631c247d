// From operations to CUDA kernels; see cuda_tasks.h.
#include "runtime/execute/cuda/cuda_tasks.h"

#include <algorithm>
#include <optional>
#include <span>
#include <type_traits>
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
#include "kernels/cuda/norm/head_norm.h"
#include "kernels/cuda/norm/layer_norm.h"
#include "kernels/cuda/norm/norm_parts.h"
#include "kernels/cuda/norm/rms_norm.h"
#include "runtime/execute/kernel_calls.h"
#include "runtime/execute/task_arguments.h"

namespace weft::execute {
namespace {

using cpu::Matrix;
using cuda::Launch;

cpu::AttentionShape shape_of(const auto& op) {
  return {op.batch, op.seq, op.heads, op.kv_heads, op.head_dim, op.window};
}

// cuDNN's plan for a task, if it has one.
struct PreparedAttention {
  const cuda::CudnnAttention* plan = nullptr;
};

template <class Op>
cuda::AttentionLayout layout_of(const Op& op, const NamedArguments<Op>& a) {
  cuda::AttentionLayout layout{op.batch,           op.seq,
                               op.heads,           op.kv_heads,
                               op.head_dim,        a["q"].row_stride,
                               a["k"].row_stride,  a["v"].row_stride,
                               a["out"].row_stride};
  if constexpr (std::is_same_v<Op, graph::AttentionBackward>) {
    layout.dout_stride = a["dout"].row_stride, layout.dq_stride = a["dq"].row_stride;
    layout.dk_stride = a["dk"].row_stride, layout.dv_stride = a["dv"].row_stride;
  }
  return layout;
}

template <class Op>
cuda::AttentionPointers pointers_of(const NamedArguments<Op>& a, std::byte* workspace) {
  cuda::AttentionPointers pointers{.workspace = workspace,
                                   .q = a["q"].data,
                                   .k = a["k"].data,
                                   .v = a["v"].data,
                                   .out = a["out"].data,
                                   .log_sum_exp = a["log_sum_exp"].f32()};
  if constexpr (std::is_same_v<Op, graph::AttentionBackward>) {
    pointers.dout = a["dout"].data, pointers.dq = a["dq"].data;
    pointers.dk = a["dk"].data, pointers.dv = a["dv"].data;
  }
  return pointers;
}

[[noreturn]] void refuse_packed_weights() {
  throw UserError("the plan packs weights", "a plan for device = cuda: GPUs have no packed weights",
                  "write it with `weft plan --device cuda`");
}

// The method that the table has for a product; null: the default one.
const DeviceGemmMethod* method_of(const GemmProblem& problem, const CudaLibraries& libraries) {
  const GemmTuning* const tuning = libraries.tuning();
  return tuning != nullptr ? tuning->find_on_device(problem) : nullptr;
}

cuda::GemmLayout layout_of(const DeviceGemmMethod* method) {
  return method != nullptr ? method->layout : cuda::GemmLayout::own;
}

// Null: Weft's own kernels run.
template <class Op>
const cuda::CudnnAttention* attention_plan(const Op& op, std::span<const Matrix> slots, CudaLibraries& libraries) {
  const NamedArguments<Op> a(slots);
  if (a["q"].dtype != DType::bf16 || op.window > 0 || op.documents) return nullptr;
  return libraries.attention(layout_of(op, a), std::is_same_v<Op, graph::AttentionBackward>);
}

// Library plans and tables that are made once.
struct Preparation {
  std::span<const Matrix> slots;
  CudaLibraries& libraries;

  cuda::GemmWithEpilogue operator()(const graph::Gemm& op) const {
    const NamedArguments<graph::Gemm> a(slots);
    const GemmProblem problem = problem_of(op, slots);
    const DeviceGemmMethod* const method = method_of(problem, libraries);
    std::optional<cuda::GemmAlgorithm> algorithm;
    if (method != nullptr) algorithm = cuda::parse_hex(method->algorithm);
    return {libraries.cublas(),
            key_of(problem, slots),
            a["A"],
            a["B"],
            a["C"],
            a.find("bias"),
            op.epilogue == Epilogue::gelu ? a.find("gelu") : a.find("x"),
            algorithm ? &*algorithm : nullptr,
            layout_of(method)};
  }
  // The plan was made for the CPU, so it is refused before its first step.
  std::monostate operator()(const graph::PackWeight&) const { refuse_packed_weights(); }
  const float* operator()(const graph::Rope& op) const {
    return libraries.constants(cpu::rope_frequencies(op.head_dim, op.theta, scaling_of(op)));
  }
  PreparedAttention operator()(const graph::AttentionForward& op) const {
    return {attention_plan(op, slots, libraries)};
  }
  PreparedAttention operator()(const graph::AttentionBackward& op) const {
    return {attention_plan(op, slots, libraries)};
  }
  std::monostate operator()(const auto&) const { return {}; }
};

template <class Op>
using PreparedFor = std::invoke_result_t<Preparation, const Op&>;

// Bytes of a task's scratch, which depend on shapes, strides and the libraries alone: slots need no data.
struct ScratchOf {
  std::span<const Matrix> slots;
  CudaLibraries& libraries;

  std::int64_t operator()(const graph::Gemm& op) const {
    const GemmProblem problem = problem_of(op, slots);
    return cuda::gemm_scratch_bytes(key_of(problem, slots), layout_of(method_of(problem, libraries)));
  }
  std::int64_t operator()(const graph::BiasGradient& op) const {
    return cuda::bias_gradient_scratch_bytes(op.rows, op.cols);
  }
  std::int64_t operator()(const graph::LayerNormBackward& op) const {
    return cuda::layer_norm_backward_scratch_bytes(op.rows, op.cols);
  }
  std::int64_t operator()(const graph::RmsNormBackward& op) const {
    return cuda::rms_norm_backward_scratch_bytes(op.rows, op.cols);
  }
  std::int64_t operator()(const graph::HeadNormBackward& op) const {
    return cuda::head_norm_backward_scratch_bytes(op.rows, op.heads, op.head_dim);
  }
  std::int64_t operator()(const graph::NormBackwardOfParts& op) const {
    return cuda::norm_backward_of_parts_scratch_bytes(op.centered, op.rows, op.cols);
  }
  std::int64_t operator()(const graph::EmbeddingBackward& op) const {
    return cuda::embedding_backward_scratch_bytes(op.rows, op.cols, op.vocab);
  }
  std::int64_t operator()(const graph::AttentionForward& op) const {
    const cuda::CudnnAttention* const plan = attention_plan(op, slots, libraries);
    return plan != nullptr ? plan->workspace_bytes() : cuda::attention_forward_scratch_bytes(shape_of(op));
  }
  std::int64_t operator()(const graph::AttentionBackward& op) const {
    const cuda::CudnnAttention* const plan = attention_plan(op, slots, libraries);
    return plan != nullptr ? plan->workspace_bytes() : cuda::attention_backward_scratch_bytes(shape_of(op));
  }
  std::int64_t operator()(const graph::SumSquares&) const {
    return cuda::sum_squares_scratch_bytes(NamedArguments<graph::SumSquares>(slots)["x"]);
  }
  std::int64_t operator()(const auto&) const { return 0; }
};

template <class Prepared>
struct Run : KernelCalls<const Launch, const std::int64_t*> {
  const Prepared& prepared;
  const std::optional<cuda::CudnnAttention::Bound>& bound;

  using KernelCalls::operator();

  void operator()(const graph::Gemm&) const { prepared.run(where); }
  void operator()(const graph::PackWeight&) const { refuse_packed_weights(); }
  void operator()(const graph::AddBias& op) const {
    const auto a = arguments_of(op);
    cuda::add_bias(where, a["y"], a["bias"], scalar(a["coordinate"]));
  }
  void operator()(const graph::TakeColumns& op) const {
    const auto a = arguments_of(op);
    cuda::take_columns(where, a["x"], scalar(a["coordinate"]), op.ranks_per_window, a["out"]);
  }
  void operator()(const graph::PutColumns& op) const {
    const auto a = arguments_of(op);
    cuda::put_columns(where, a["x"], scalar(a["coordinate"]), op.ranks_per_window, a["out"]);
  }
  void operator()(const graph::EmbeddingForward& op) const {
    const auto a = arguments_of(op);
    cuda::embedding_forward(where, a["tokens"], a["wte"], a.find("wpe"), op.seq_len, scalar(a.find("position")),
                            a["out"], scalar(a.find("coordinate")));
  }
  void operator()(const graph::EmbeddingBackward& op) const {
    const auto a = arguments_of(op);
    cuda::embedding_backward(where, a["tokens"], a["dout"], a["dwte"], op.accumulate, scalar(a.find("coordinate")));
  }
  void operator()(const graph::Rope& op) const {
    const auto a = arguments_of(op);
    cuda::rope(where, prepared, op.heads, op.seq_len, scalar(a.find("position")), op.inverse, a["x"], factor_of(op));
  }
  void operator()(const graph::AttentionForward& op) const {
    bound ? bound->run(where.stream) : KernelCalls::operator()(op);
  }
  void operator()(const graph::AttentionBackward& op) const {
    bound ? bound->run(where.stream) : KernelCalls::operator()(op);
  }
  void operator()(const graph::Dropout& op) const {
    const auto a = arguments_of(op);
    const cuda::DropoutMask mask{op.site,  op.row_offset,       op.p,
                                 op.parts, scalar(a["random"]), scalar(a.find("coordinate"))};
    cuda::dropout(where, mask, a["x"], a.find("residual"), a["y"]);
  }
  void operator()(const graph::LossSum& op) const {
    const auto a = arguments_of(op);
    cuda::loss_sum(where, a["losses"], a["targets"], a["sums"], op.accumulate, scalar(a.find("replica")));
  }
  void operator()(const graph::SumSquares& op) const {
    const auto a = arguments_of(op);
    cuda::sum_squares(where, a["x"], a["partial"], scalar(a.find("replica")));
  }
};

template <class Op>
class CudaTaskOf final : public CudaTask {
 public:
  CudaTaskOf(const Op& operation, std::vector<Matrix> slots, CudaLibraries& libraries)
      : operation_(operation),
        slots_(std::move(slots)),
        prepared_(Preparation{slots_, libraries}(operation_)),
        scratch_bytes_(ScratchOf{slots_, libraries}(operation_)) {}

  std::int64_t scratch_bytes() const override { return scratch_bytes_; }

  void bind(std::byte* scratch) override {
    scratch_ = scratch;
    if constexpr (std::is_same_v<PreparedFor<Op>, PreparedAttention>) {
      if (prepared_.plan == nullptr) return;
      bound_ = prepared_.plan->bind(pointers_of(NamedArguments<Op>(slots_), scratch));
    }
  }

  graph::Operation operation() const override { return operation_; }
  std::span<const Matrix> slots() const override { return slots_; }

  void run(cudaStream_t stream, cuda::Fault* fault) const override {
    const Launch launch{stream, scratch_, fault};
    Run<PreparedFor<Op>>{{slots_, launch}, prepared_, bound_}(operation_);
  }

 private:
  Op operation_;
  std::vector<Matrix> slots_;
  PreparedFor<Op> prepared_;
  std::int64_t scratch_bytes_;
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
  graph::Operation operation() const override { return first_.operation(); }
  std::span<const Matrix> slots() const override { return first_.slots(); }
  void run(cudaStream_t stream, cuda::Fault* fault) const override { batch_.run({stream, nullptr, fault}); }

 private:
  const CudaTask& first_;
  Batch batch_;
};

}  // namespace

cuda::GemmKey key_of(const GemmProblem& problem, std::span<const cpu::Matrix> slots) {
  cuda::GemmKey key;
  key.m = problem.m, key.n = problem.n, key.k = problem.k;
  key.trans_a = problem.trans_a, key.trans_b = problem.trans_b;
  key.accumulate = problem.accumulate, key.has_bias = problem.has_bias;
  key.inputs = problem.inputs, key.output = problem.output;
  const NamedArguments<graph::Gemm> a(slots);
  key.strides = {a["A"].row_stride, a["B"].row_stride, a["C"].row_stride};
  key.epilogue = problem.epilogue;
  return key;
}

std::unique_ptr<CudaTask> fuse_cuda_tasks(std::span<const CudaTask* const> tasks) {
  std::vector<cuda::SumSquaresArguments> sums;
  std::vector<cuda::AdamWArguments> updates;
  for (const CudaTask* task : tasks) {
    const graph::Operation operation = task->operation();
    if (std::holds_alternative<graph::SumSquares>(operation)) {
      const NamedArguments<graph::SumSquares> a(task->slots());
      const Matrix* replica = a.find("replica");
      sums.push_back({a["x"], a["partial"], replica != nullptr ? replica->i64() : nullptr});
    } else if (const auto* op = std::get_if<graph::AdamW>(&operation)) {
      const NamedArguments<graph::AdamW> a(task->slots());
      if (!updates.empty() && updates.front().param.dtype != a["param"].dtype) return nullptr;
      updates.push_back({{op->beta1, op->beta2, op->eps, op->weight_decay},
                         {a["scalars"], a["norm_and_factor"]},
                         a["param"],
                         a["grad"],
                         a["m"],
                         a["v"],
                         a.find("master")});
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
    found->second = backward ? cuda::CudnnAttention::backward(cudnn_, layout, settings_.attention_workspace)
                             : cuda::CudnnAttention::forward(cudnn_, layout, settings_.attention_workspace);
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

std::int64_t cuda_scratch_bytes(const graph::Operation& operation, const std::vector<cpu::Matrix>& arguments,
                                CudaLibraries& libraries) {
  const std::vector<Matrix> slots = fitted_arguments(operation, arguments);
  return std::visit([&](const auto& op) { return ScratchOf{slots, libraries}(op); }, operation);
}

std::unique_ptr<CudaTask> prepare_cuda_task(const graph::Operation& operation,
                                            const std::vector<cpu::Matrix>& arguments, CudaLibraries& libraries) {
  std::vector<Matrix> slots = fitted_arguments(operation, arguments);
  return std::visit(
      [&]<class Op>(const Op& op) -> std::unique_ptr<CudaTask> {
        if constexpr (std::is_same_v<Op, graph::Opaque>) {
          refuse_opaque(op);
        } else {
          return std::make_unique<CudaTaskOf<Op>>(op, std::move(slots), libraries);
        }
      },
      operation);
}

}  // namespace weft::execute
