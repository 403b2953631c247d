// From operations to CPU kernels; see cpu_kernels.h.
#include "runtime/execute/cpu/cpu_kernels.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/attention_decode.h"
#include "kernels/cpu/attention/rope.h"
#include "kernels/cpu/elementwise/activation.h"
#include "kernels/cpu/elementwise/cast.h"
#include "kernels/cpu/elementwise/columns.h"
#include "kernels/cpu/elementwise/dropout.h"
#include "kernels/cpu/elementwise/elementwise.h"
#include "kernels/cpu/elementwise/embedding.h"
#include "kernels/cpu/elementwise/optimizer.h"
#include "kernels/cpu/gemm/packed_b.h"
#include "kernels/cpu/loss/cross_entropy.h"
#include "kernels/cpu/loss/vocab_parallel.h"
#include "kernels/cpu/norm/head_norm.h"
#include "kernels/cpu/norm/layer_norm.h"
#include "kernels/cpu/norm/norm_parts.h"
#include "kernels/cpu/norm/rms_norm.h"
#include "runtime/execute/kernel_calls.h"
#include "runtime/execute/task_arguments.h"

namespace weft::execute {
namespace {

using cpu::Matrix;

cpu::AttentionShape shape_of(const auto& op) {
  return {op.batch, op.seq, op.heads, op.kv_heads, op.head_dim, op.window};
}

cpu::DecodeShape shape_of(const graph::AttentionDecode& op) {
  return {op.batch, op.heads, op.kv_heads, op.head_dim, op.context, op.window};
}

// Library handles and tables that are made once.
struct Preparation {
  std::span<const Matrix> slots;
  const GemmTuning* tuning = nullptr;

  PackedUnit bf16() const { return tuning != nullptr ? tuning->bf16_unit() : cpu::widest_bf16_unit(); }

  cpu::PreparedGemm operator()(const graph::Gemm& op) const {
    const NamedArguments<graph::Gemm> a(slots);
    cpu::GemmArguments gemm{a["A"], a["B"], a["C"], {}};
    if (const Matrix* bias = a.find("bias")) gemm.bias = *bias;
    const cpu::GemmShape shape{op.m, op.n, op.k, op.trans_a, op.trans_b, op.accumulate};
    // An epilogue here is a pass after the product, which itself is computed as without one, so the bits are the same.
    GemmProblem problem = problem_of(op, slots);
    problem.epilogue = Epilogue::none;
    const cpu::GemmMethod* tuned = tuning != nullptr ? tuning->find(problem) : nullptr;
    const DType inputs = a["A"].dtype;
    const cpu::GemmMethod method =
        tuned != nullptr ? *tuned : cpu::default_gemm_method(shape, inputs, a["C"].dtype, bf16());
    // A tuned product with another engine reads the unpacked B, as does a product by a unit for which B wasn't packed.
    const Matrix* packed = a.find("packed_B");
    const bool reads_packed = packed != nullptr && method.engine == cpu::GemmMethod::Engine::packed &&
                              packed->dtype == cpu::packed_b_dtype(cpu::packed_unit(inputs, bf16()));
    if (reads_packed) gemm.packed_b = static_cast<std::byte*>(packed->data);
    return {shape, gemm, method, bf16()};
  }
  // The unit follows from the tensor's dtype; for bf16 it is the run's unit, or the CPU's if that is f32.
  PackedUnit operator()(const graph::PackWeight&) const {
    if (NamedArguments<graph::PackWeight>(slots)["packed"].dtype == DType::f32) return PackedUnit::f32;
    return bf16() != PackedUnit::f32 ? bf16() : cpu::widest_bf16_unit();
  }
  PackedUnit operator()(const graph::AttentionForward&) const { return bf16(); }
  PackedUnit operator()(const graph::AttentionBackward&) const { return bf16(); }
  std::vector<float> operator()(const graph::Rope& op) const {
    return cpu::rope_frequencies(op.head_dim, op.theta, scaling_of(op));
  }
  std::monostate operator()(const auto&) const { return {}; }
};

template <class Op>
using PreparedFor = std::invoke_result_t<Preparation, const Op&>;

template <class Prepared>
struct ScratchOf {
  std::span<const Matrix> slots;
  const Prepared& prepared;

  KernelScratch operator()(const graph::Gemm&) const { return prepared.scratch(); }
  KernelScratch operator()(const graph::BiasGradient& op) const { return cpu::bias_gradient_scratch(op.rows, op.cols); }
  KernelScratch operator()(const graph::LayerNormBackward& op) const {
    return cpu::layer_norm_backward_scratch(op.rows, op.cols);
  }
  KernelScratch operator()(const graph::RmsNormBackward& op) const {
    return cpu::rms_norm_backward_scratch(op.rows, op.cols);
  }
  KernelScratch operator()(const graph::HeadNormBackward& op) const {
    return cpu::head_norm_backward_scratch(op.rows, op.head_dim);
  }
  KernelScratch operator()(const graph::NormBackwardOfParts& op) const {
    return cpu::norm_backward_of_parts_scratch(op.centered, op.rows, op.cols);
  }
  KernelScratch operator()(const graph::Rope& op) const { return cpu::rope_scratch(op.head_dim); }
  KernelScratch operator()(const graph::AttentionForward& op) const {
    return cpu::attention_forward_scratch(shape_of(op), NamedArguments<graph::AttentionForward>(slots)["q"].dtype,
                                          prepared);
  }
  KernelScratch operator()(const graph::AttentionBackward& op) const {
    return cpu::attention_backward_scratch(shape_of(op), NamedArguments<graph::AttentionBackward>(slots)["q"].dtype,
                                           prepared);
  }
  KernelScratch operator()(const graph::AttentionDecode& op) const {
    return cpu::attention_decode_scratch(shape_of(op));
  }
  KernelScratch operator()(const graph::CrossEntropy& op) const {
    return cpu::cross_entropy_scratch(op.vocab, NamedArguments<graph::CrossEntropy>(slots)["logits"].dtype,
                                      op.gradient);
  }
  KernelScratch operator()(const graph::SumSquares&) const {
    return cpu::sum_squares_scratch(NamedArguments<graph::SumSquares>(slots)["x"]);
  }
  KernelScratch operator()(const auto&) const { return {}; }
};

template <class Prepared>
struct Run : KernelCalls<cpu::Workers, std::int64_t> {
  const Prepared& prepared;

  using KernelCalls::operator();

  // A value that several ranks hold is added to sums by the first of these ranks only.
  static bool owner(const Matrix* replica) { return scalar(replica) == 0; }
  static std::optional<std::int64_t> first_token(const Matrix* coordinate, std::int64_t vocab) {
    if (coordinate == nullptr) return std::nullopt;
    return scalar(*coordinate) * vocab;
  }

  void operator()(const graph::Gemm& op) const {
    prepared.run(where);
    const auto a = arguments_of(op);
    if (op.epilogue == Epilogue::gelu) cpu::gelu_forward(where, a["C"], a["gelu"]);
    if (op.epilogue == Epilogue::gelu_gradient) cpu::gelu_backward(where, a["x"], a["C"], a["C"]);
  }
  void operator()(const graph::PackWeight& op) const {
    const auto a = arguments_of(op);
    cpu::pack_gemm_b(where, {.m = 1, .n = op.n, .k = op.k, .trans_b = op.trans_b}, a["B"],
                     static_cast<std::byte*>(a["packed"].data), prepared);
  }
  void operator()(const graph::AttentionForward& op) const {
    const auto a = arguments_of(op);
    cpu::attention_forward(where, shape_of(op), tensors_of(a), prepared);
  }
  void operator()(const graph::AttentionBackward& op) const {
    const auto a = arguments_of(op);
    cpu::attention_backward(where, shape_of(op), tensors_of(a), {a["dout"], a["dq"], a["dk"], a["dv"]}, prepared);
  }
  void operator()(const graph::AddBias& op) const {
    const auto a = arguments_of(op);
    if (scalar(a["coordinate"]) == 0) cpu::add_bias(where, a["y"], a["bias"]);
  }
  void operator()(const graph::TakeColumns& op) const {
    const auto a = arguments_of(op);
    cpu::take_columns(where, a["x"], scalar(a["coordinate"]) / op.ranks_per_window, a["out"]);
  }
  void operator()(const graph::PutColumns& op) const {
    const auto a = arguments_of(op);
    cpu::put_columns(where, a["x"], scalar(a["coordinate"]) / op.ranks_per_window, a["out"]);
  }
  void operator()(const graph::EmbeddingForward& op) const {
    const auto a = arguments_of(op);
    cpu::embedding_forward(where, a["tokens"], a["wte"], a.find("wpe"), op.seq_len, scalar(a.find("position")),
                           a["out"], first_token(a.find("coordinate"), op.vocab));
  }
  void operator()(const graph::EmbeddingBackward& op) const {
    const auto a = arguments_of(op);
    cpu::embedding_backward(where, a["tokens"], a["dout"], a["dwte"], op.accumulate,
                            first_token(a.find("coordinate"), op.vocab));
  }
  void operator()(const graph::Rope& op) const {
    const auto a = arguments_of(op);
    cpu::rope(where, prepared, op.heads, op.seq_len, scalar(a.find("position")), op.inverse, a["x"], factor_of(op));
  }
  void operator()(const graph::Dropout& op) const {
    const auto a = arguments_of(op);
    const std::int64_t* random = a["random"].i64();
    const cpu::DropoutMask mask{static_cast<std::uint64_t>(random[0]),
                                static_cast<std::uint32_t>(random[1]),
                                op.site,
                                random[2] + op.row_offset,
                                op.p,
                                op.parts,
                                scalar(a.find("coordinate"))};
    cpu::dropout(where, mask, a["x"], a.find("residual"), a["y"]);
  }
  void operator()(const graph::LossSum& op) const {
    const auto a = arguments_of(op);
    cpu::loss_sum(where, a["losses"], a["targets"], a["sums"], op.accumulate, owner(a.find("replica")));
  }
  void operator()(const graph::SumSquares& op) const {
    const auto a = arguments_of(op);
    cpu::sum_squares(where, a["x"], a["partial"], owner(a.find("replica")));
  }
};

}  // namespace

template <class Op>
class PreparedTask::KernelOf final : public Kernel {
 public:
  KernelOf(const Op& operation, std::span<const Matrix> slots, const GemmTuning* tuning)
      : operation_(operation), slots_(copy_of(slots)), prepared_(Preparation{slots_, tuning}(operation_)) {}

  void run(cpu::Workers& workers) const override { Run<PreparedFor<Op>>{{slots_, workers}, prepared_}(operation_); }
  KernelScratch scratch() const override { return ScratchOf<PreparedFor<Op>>{slots_, prepared_}(operation_); }

 private:
  using Slots = std::array<Matrix, graph::argument_count<Op>>;

  static Slots copy_of(std::span<const Matrix> slots) {
    Slots copy;
    std::ranges::copy(slots, copy.begin());
    return copy;
  }

  Op operation_;
  Slots slots_;
  [[no_unique_address]] PreparedFor<Op> prepared_;
};

PreparedTask::PreparedTask(const graph::Operation& operation, const std::vector<Matrix>& arguments,
                           const GemmTuning* tuning) {
  const std::vector<Matrix> slots = fitted_arguments(operation, arguments);
  std::visit(
      [&]<class Op>(const Op& op) {
        if constexpr (std::is_same_v<Op, graph::Opaque>) {
          refuse_opaque(op);
        } else {
          kernel_ = std::make_unique<const KernelOf<Op>>(op, slots, tuning);
        }
      },
      operation);
}

}  // namespace weft::execute
