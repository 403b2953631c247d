// From operations to CUDA kernels; see cuda_tasks.h.
#include "runtime/execute/cuda/cuda_tasks.h"

#include <algorithm>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/log.h"
#include "kernels/cpu/attention/attention.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/elementwise/elementwise.h"
#include "kernels/cuda/experts/experts.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/loss/cross_entropy.h"
#include "kernels/cuda/norm/norm.h"
#include "runtime/execute/kernel_calls.h"
#include "runtime/execute/task_arguments.h"

namespace weft::execute {
namespace {

using cpu::Matrix;
using cuda::Launch;
using cuda::LaunchPart;

template <class Op>
cuda::AttentionPointers pointers_of(const Call<Op>& c, std::byte* workspace) {
  cuda::AttentionPointers pointers{.workspace = workspace,
                                   .q = c["q"].data,
                                   .k = c["k"].data,
                                   .v = c["v"].data,
                                   .out = c["out"].data,
                                   .log_sum_exp = c["log_sum_exp"].f32()};
  if constexpr (std::is_same_v<Op, graph::AttentionBackward>) {
    pointers.dout = c["dout"].data, pointers.dq = c["dq"].data;
    pointers.dk = c["dk"].data, pointers.dv = c["dv"].data;
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
  return tuning != nullptr ? tuning->find<DeviceGemmMethod>(problem) : nullptr;
}

const Matrix* matrix_of_epilogue(const Call<graph::Gemm>& c) {
  switch (c->epilogue) {
    case Epilogue::none:
      break;
    case Epilogue::gelu:
      return c.find("gelu");
    case Epilogue::gelu_gradient:
      return c.find("x");
    case Epilogue::add:
      return c.find("addend");
    case Epilogue::bias_gradient:
      return c.find("db");
  }
  return nullptr;
}

cuda::GemmLayout layout_of(const DeviceGemmMethod* method) {
  return method != nullptr ? method->layout : cuda::GemmLayout::own;
}

// cuDNN's plan for a task; null: Weft's own kernels run.
template <class Op>
const cuda::CudnnAttention* attention_plan(const Call<Op>& c, CudaLibraries& libraries) {
  const std::optional<AttentionProblem> problem = problem_of(c);
  return problem ? libraries.attention(*problem) : nullptr;
}

// Library plans and tables that are made once.
struct Preparation {
  CudaLibraries& libraries;

  cuda::GemmWithEpilogue operator()(Call<graph::Gemm> c) const {
    const GemmProblem problem = libraries.problem_of(*c, c.slots());
    const DeviceGemmMethod* const method = method_of(problem, libraries);
    std::optional<cuda::GemmAlgorithm> algorithm;
    if (method != nullptr) algorithm = cuda::parse_hex(method->algorithm);
    return {libraries.cublas(),    key_of(problem, c.slots()),        c["A"],           c["B"], c["C"], c.find("bias"),
            matrix_of_epilogue(c), algorithm ? &*algorithm : nullptr, layout_of(method)};
  }
  // The plan was made for the CPU, so it is refused before its first step.
  std::monostate operator()(Call<graph::PackWeight> /*call*/) const { refuse_packed_weights(); }
  const float* operator()(Call<graph::Rope> c) const {
    return libraries.constants(cpu::rope_frequencies(c->head_dim, c->theta, scaling_of(*c)));
  }
  const cuda::CudnnAttention* operator()(Call<graph::AttentionForward> c) const { return attention_plan(c, libraries); }
  const cuda::CudnnAttention* operator()(Call<graph::AttentionBackward> c) const {
    return attention_plan(c, libraries);
  }
  std::monostate operator()(const auto& /*call*/) const { return {}; }
};

template <class Op>
using PreparedFor = std::invoke_result_t<Preparation, Call<Op>>;

// Bytes of a task's scratch, which depend on shapes, strides and the libraries alone: slots need no data.
struct ScratchOf {
  CudaLibraries& libraries;

  std::int64_t operator()(Call<graph::Gemm> c) const {
    const GemmProblem problem = libraries.problem_of(*c, c.slots());
    return cuda::gemm_scratch_bytes(key_of(problem, c.slots()), layout_of(method_of(problem, libraries)));
  }
  std::int64_t operator()(Call<graph::BiasGradient> c) const {
    return cuda::bias_gradient_scratch_bytes(c->rows, c->cols);
  }
  template <bool kCentered>
  std::int64_t operator()(Call<graph::NormBackward<kCentered>> c) const {
    return cuda::norm_backward_scratch_bytes(kCentered, c->rows, c->cols);
  }
  std::int64_t operator()(Call<graph::HeadNormBackward> c) const {
    return cuda::head_norm_backward_scratch_bytes(c->rows, c->heads, c->head_dim);
  }
  std::int64_t operator()(Call<graph::NormBackwardOfParts> c) const {
    return cuda::norm_backward_scratch_bytes(c->centered, c->rows, c->cols);
  }
  std::int64_t operator()(Call<graph::EmbeddingBackward> c) const {
    return cuda::embedding_backward_scratch_bytes(c->rows, c->cols, c->vocab);
  }
  std::int64_t operator()(Call<graph::AttentionForward> c) const {
    const cuda::CudnnAttention* const plan = attention_plan(c, libraries);
    return plan != nullptr ? plan->workspace_bytes() : 0;
  }
  std::int64_t operator()(Call<graph::AttentionBackward> c) const {
    const cuda::CudnnAttention* const plan = attention_plan(c, libraries);
    return plan != nullptr ? plan->workspace_bytes() : cuda::attention_backward_scratch_bytes(shape_of(*c));
  }
  std::int64_t operator()(Call<graph::SortByExpert> c) const {
    return cuda::sort_by_expert_scratch_bytes(c->rows, c->experts);
  }
  std::int64_t operator()(Call<graph::CountChoices> c) const { return cuda::count_choices_scratch_bytes(c->rows); }
  std::int64_t operator()(Call<graph::SumSquares> c) const { return cuda::sum_squares_scratch_bytes(c["x"]); }
  std::int64_t operator()(const auto& /*call*/) const { return 0; }
};

template <class Prepared>
struct Run : KernelCalls<const Launch, const std::int64_t*> {
  const Prepared& prepared;
  const std::optional<cuda::CudnnAttention::Bound>& bound;

  using KernelCalls::operator();

  void operator()(Call<graph::Gemm> /*call*/) const { prepared.run(where); }
  void operator()(Call<graph::PackWeight> /*call*/) const { refuse_packed_weights(); }
  void operator()(Call<graph::GroupedGemm> c) const {
    cuda::grouped_gemm(where, c->trans_b, c["A"], c["B"], c["offsets"], c["C"], c->used_rows());
  }
  void operator()(Call<graph::GroupedGemmGradient> c) const {
    cuda::grouped_gemm_gradient(where, c["A"], c["B"], c["offsets"], c["C"], c->accumulate);
  }
  void operator()(Call<graph::SwiGluForward> c) const {
    cuda::swiglu_forward(where, c["x"], c["y"], c.find("offsets"));
  }
  void operator()(Call<graph::SwiGluBackward> c) const {
    cuda::swiglu_backward(where, c["x"], c["dy"], c["dx"], c.find("offsets"));
  }
  void operator()(Call<graph::GeGluForward> c) const { cuda::geglu_forward(where, c["x"], c["y"], c.find("offsets")); }
  void operator()(Call<graph::GeGluBackward> c) const {
    cuda::geglu_backward(where, c["x"], c["dy"], c["dx"], c.find("offsets"));
  }
  void operator()(Call<graph::AddBias> c) const { cuda::add_bias(where, c["y"], c["bias"], scalar(c["coordinate"])); }
  void operator()(Call<graph::TakeColumns> c) const {
    cuda::take_columns(where, c["x"], scalar(c["coordinate"]), c->ranks_per_window, c["out"]);
  }
  void operator()(Call<graph::PutColumns> c) const {
    cuda::put_columns(where, c["x"], scalar(c["coordinate"]), c->ranks_per_window, c["out"], c->accumulate);
  }
  void operator()(Call<graph::EmbeddingForward> c) const {
    cuda::embedding_forward(where, c["tokens"], c["wte"], c.find("wpe"), c->seq_len, scalar(c.find("position")),
                            c["out"], scalar(c.find("coordinate")));
  }
  void operator()(Call<graph::EmbeddingBackward> c) const {
    cuda::embedding_backward(where, c["tokens"], c["dout"], c["dwte"], c->accumulate, scalar(c.find("coordinate")));
  }
  void operator()(Call<graph::PositionBackward> c) const {
    cuda::position_backward(where, c["dout"], c->seq_len, c["dwpe"], c->accumulate, scalar(c.find("position")));
  }
  void operator()(Call<graph::Rope> c) const {
    cuda::rope(where, prepared, c->heads, c->seq_len, scalar(c.find("position")), c->inverse, c["x"], factor_of(*c));
  }
  void operator()(Call<graph::AttentionForward> c) const {
    bound ? bound->run(where.stream) : KernelCalls::operator()(c);
  }
  void operator()(Call<graph::AttentionBackward> c) const {
    bound ? bound->run(where.stream) : KernelCalls::operator()(c);
  }
  void operator()(Call<graph::Dropout> c) const {
    const cuda::DropoutMask mask{
        c->site, c->row_offset, c->p, c->parts, c->seq, c->stride, scalar(c["random"]), scalar(c.find("coordinate"))};
    cuda::dropout(where, mask, c["x"], c.find("residual"), c["y"]);
  }
  void operator()(Call<graph::LossSum> c) const {
    cuda::loss_sum(where, c["losses"], c["targets"], c["sums"], c->accumulate, scalar(c.find("replica")));
  }
  void operator()(Call<graph::SumSquares> c) const {
    cuda::sum_squares(where, c["x"], c["partial"], scalar(c.find("replica")));
  }
};

template <class Op>
class CudaTaskOf final : public CudaTask {
 public:
  CudaTaskOf(const Op& operation, std::vector<Matrix> slots, std::byte* scratch, CudaLibraries& libraries)
      : operation_(operation),
        slots_(std::move(slots)),
        prepared_(Preparation{libraries}(call())),
        launch_(libraries.launch()) {
    launch_.scratch = scratch, launch_.scratch_bytes = ScratchOf{libraries}(call());
    if constexpr (std::is_same_v<PreparedFor<Op>, const cuda::CudnnAttention*>) {
      if (prepared_ != nullptr) bound_ = prepared_->bind(pointers_of(call(), scratch));
    }
    constexpr bool kByLibrary = std::is_same_v<Op, graph::Gemm>;
    if (!kByLibrary && !bound_) run(nullptr, nullptr, LaunchPart::attributes);
  }

  graph::Operation operation() const override { return operation_; }
  std::span<const Matrix> slots() const override { return slots_; }

  void run(cudaStream_t stream, cuda::Fault* fault) const override { run(stream, fault, LaunchPart::kernels); }

 private:
  Call<Op> call() const { return {operation_, slots_}; }
  void run(cudaStream_t stream, cuda::Fault* fault, LaunchPart part) const {
    Launch launch = launch_;
    launch.stream = stream, launch.fault = fault, launch.part = part;
    Run<PreparedFor<Op>>{{launch}, prepared_, bound_}(call());
  }

  Op operation_;
  std::vector<Matrix> slots_;
  PreparedFor<Op> prepared_;
  Launch launch_;  // without what differs from run to run
  std::optional<cuda::CudnnAttention::Bound> bound_;
};

// A batch of the optimizer as a task.
template <class Batch>
class CudaBatch final : public CudaTask {
 public:
  template <class Arguments>
  CudaBatch(const CudaTask& first, const std::vector<Arguments>& tensors) : first_(first), batch_(tensors) {}

  graph::Operation operation() const override { return first_.operation(); }
  std::span<const Matrix> slots() const override { return first_.slots(); }
  void run(cudaStream_t stream, cuda::Fault* fault) const override { batch_.run({stream, nullptr, fault}); }

 private:
  const CudaTask& first_;
  Batch batch_;
};

}  // namespace

cuda::GemmKey key_of(const GemmProblem& problem, std::span<const cpu::Matrix> slots) {
  cuda::GemmKey key = problem;
  key.strides = {slots[0].row_stride, slots[1].row_stride, slots[2].row_stride};
  return key;
}

cuda::AttentionLayout layout_of(const AttentionProblem& p) {
  const auto& [q, k, v, out, dout, dq, dk, dv] = p.strides;
  return {p.batch, p.seq, p.heads, p.kv_heads, p.head_dim, q, k, v, out, dout, dq, dk, dv};
}

std::unique_ptr<CudaTask> fuse_cuda_tasks(std::span<const CudaTask* const> tasks) {
  std::vector<cuda::SumSquaresArguments> sums;
  std::vector<cuda::AdamWArguments> updates;
  for (const CudaTask* task : tasks) {
    const graph::Operation operation = task->operation();
    if (const auto* sum = std::get_if<graph::SumSquares>(&operation)) {
      const Call c(*sum, task->slots());
      const Matrix* replica = c.find("replica");
      sums.push_back({c["x"], c["partial"], replica != nullptr ? replica->i64() : nullptr});
    } else if (const auto* update = std::get_if<graph::AdamW>(&operation)) {
      const Call c(*update, task->slots());
      if (!updates.empty() && updates.front().param.dtype != c["param"].dtype) return nullptr;
      updates.push_back({{c->beta1, c->beta2, c->eps, c->weight_decay},
                         {c["scalars"], c.find("norm_and_factor")},
                         c["param"],
                         c["grad"],
                         c["m"],
                         c["v"],
                         c.find("master")});
    }
  }
  if (sums.size() == tasks.size()) return std::make_unique<CudaBatch<cuda::SumSquaresBatch>>(*tasks.front(), sums);
  if (updates.size() == tasks.size()) return std::make_unique<CudaBatch<cuda::AdamWBatch>>(*tasks.front(), updates);
  return nullptr;
}

CudaLibraries::CudaLibraries(CudaSettings settings) : settings_(std::move(settings)) {
  int device = 0, capability = 0;
  const auto get = [&](int& value, cudaDeviceAttr attribute) {
    cuda::check(cudaDeviceGetAttribute(&value, attribute, device), "cudaDeviceGetAttribute");
  };
  cuda::check(cudaGetDevice(&device), "cudaGetDevice");
  get(launch_.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin);
  get(capability, cudaDevAttrComputeCapabilityMajor);
  launch_.early = settings_.kernels.early_start && capability >= 9;
  launch_.clustered_loss = settings_.kernels.clustered_loss && capability >= 9;
  launch_.masked_mma = settings_.kernels.masked_mma;
  launch_.grouped_mma = settings_.kernels.grouped_mma;
}

GemmProblem CudaLibraries::problem_of(const graph::Gemm& operation, std::span<const cpu::Matrix> slots) const {
  GemmProblem problem = execute::problem_of(operation, slots);
  problem.tf32 = settings_.tf32 && problem.inputs == DType::f32;
  return problem;
}

const cuda::CudnnAttention* CudaLibraries::attention(AttentionProblem problem) {
  problem.any_bits = problem.backward && settings_.attention_gradient == AttentionGradient::fastest;
  const auto place = attention_.try_emplace(problem);
  std::unique_ptr<cuda::CudnnAttention>& found = place.first->second;
  if (!place.second) return found.get();
  const AttentionMethod* const method = settings_.tuning != nullptr ? settings_.tuning->find(problem) : nullptr;
  if (method != nullptr && method->engine.empty()) return nullptr;
  const auto make = [&](const std::string& engine, bool any_bits, std::string* why) {
    found = cuda::CudnnAttention::make(cudnn_, layout_of(problem), problem.backward,
                                       {settings_.attention_workspace, any_bits, engine}, why);
  };
  if (method != nullptr) {
    std::string why;
    make(method->engine, !method->deterministic, &why);
    if (found != nullptr) return found.get();
    Log(LogTopic::tuning)
        .warning("attention {} was tuned for cuDNN's {}, which can't run here ({}): the default one does",
                 to_string(problem), method->engine, why);
  }
  make("", problem.any_bits, nullptr);
  return found.get();
}

const float* CudaLibraries::constants(const std::vector<float>& values) {
  const auto [found, fresh] = constants_.try_emplace(values, nullptr);
  if (fresh) found->second = cuda::on_device(std::as_bytes(std::span(values)));
  return reinterpret_cast<const float*>(found->second.get());
}

std::int64_t cuda_scratch_bytes(const graph::Operation& operation, const std::vector<cpu::Matrix>& arguments,
                                CudaLibraries& libraries) {
  const std::vector<Matrix> slots = fitted_arguments(operation, arguments);
  return std::visit([&](const auto& op) { return ScratchOf{libraries}(Call(op, slots)); }, operation);
}

std::unique_ptr<CudaTask> prepare_cuda_task(const graph::Operation& operation,
                                            const std::vector<cpu::Matrix>& arguments, std::byte* scratch,
                                            CudaLibraries& libraries) {
  std::vector<Matrix> slots = fitted_arguments(operation, arguments);
  return std::visit(
      [&]<class Op>(const Op& op) -> std::unique_ptr<CudaTask> {
        if constexpr (std::is_same_v<Op, graph::Opaque>) {
          refuse_opaque(op);
        } else {
          return std::make_unique<CudaTaskOf<Op>>(op, std::move(slots), scratch, libraries);
        }
      },
      operation);
}

}  // namespace weft::execute
