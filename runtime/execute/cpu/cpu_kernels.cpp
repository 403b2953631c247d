// From operations to CPU kernels; see cpu_kernels.h.
#include "runtime/execute/cpu/cpu_kernels.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <variant>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/elementwise/elementwise.h"
#include "kernels/cpu/experts/experts.h"
#include "kernels/cpu/experts/grouped_gemm.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/loss/cross_entropy.h"
#include "kernels/cpu/norm/norm.h"
#include "runtime/execute/kernel_calls.h"
#include "runtime/execute/task_arguments.h"

namespace weft::execute {
namespace {

using cpu::Matrix;

// Library handles and tables that are made once.
struct Preparation {
  const GemmTuning* tuning = nullptr;

  PackedUnit bf16() const { return tuning != nullptr ? tuning->bf16_unit() : cpu::widest_bf16_unit(); }

  cpu::PreparedGemm operator()(Call<graph::Gemm> c) const {
    cpu::GemmArguments gemm{c["A"], c["B"], c["C"], {}};
    if (const Matrix* bias = c.find("bias")) gemm.bias = *bias;
    // An epilogue here is a pass after the product, which itself is computed as without one, so the bits are the same.
    GemmProblem problem = problem_of(*c, c.slots());
    problem.epilogue = Epilogue::none;
    const cpu::GemmShape shape = problem.shape();
    const cpu::GemmMethod* tuned = tuning != nullptr ? tuning->find(problem) : nullptr;
    const DType inputs = c["A"].dtype;
    const cpu::GemmMethod method =
        tuned != nullptr ? *tuned : cpu::default_gemm_method(shape, inputs, c["C"].dtype, bf16());
    // A tuned product with another engine reads the unpacked B, as does a product by a unit for which B wasn't packed.
    const Matrix* packed = c.find("packed_B");
    const bool reads_packed = packed != nullptr && method.engine == cpu::GemmMethod::Engine::packed &&
                              packed->dtype == cpu::packed_b_dtype(cpu::packed_unit(inputs, bf16()));
    if (reads_packed) gemm.packed_b = static_cast<std::byte*>(packed->data);
    return {shape, gemm, method, bf16()};
  }
  // The unit follows from the tensor's dtype; for bf16 it is the run's unit, or the CPU's if that is f32.
  PackedUnit operator()(Call<graph::PackWeight> c) const {
    if (c["packed"].dtype == DType::f32) return PackedUnit::f32;
    return bf16() != PackedUnit::f32 ? bf16() : cpu::widest_bf16_unit();
  }
  PackedUnit operator()(Call<graph::GroupedGemm> /*call*/) const { return bf16(); }
  PackedUnit operator()(Call<graph::GroupedGemmGradient> /*call*/) const { return bf16(); }
  PackedUnit operator()(Call<graph::AttentionForward> /*call*/) const { return bf16(); }
  PackedUnit operator()(Call<graph::AttentionBackward> /*call*/) const { return bf16(); }
  std::vector<float> operator()(Call<graph::Rope> c) const {
    return cpu::rope_frequencies(c->head_dim, c->theta, scaling_of(*c));
  }
  std::monostate operator()(const auto& /*call*/) const { return {}; }
};

template <class Op>
using PreparedFor = std::invoke_result_t<Preparation, Call<Op>>;

template <class Prepared>
struct ScratchOf {
  const Prepared& prepared;

  cpu::Scratch operator()(Call<graph::Gemm> c) const {
    if (c->epilogue != Epilogue::bias_gradient) return prepared.scratch();
    return larger(prepared.scratch(), cpu::bias_gradient_scratch(c->k, c->m));
  }
  cpu::Scratch operator()(Call<graph::GroupedGemm> c) const {
    return cpu::grouped_gemm_scratch(c->rows, c->n, c->k, c["A"].dtype, prepared);
  }
  cpu::Scratch operator()(Call<graph::GroupedGemmGradient> c) const {
    return cpu::grouped_gemm_gradient_scratch(c->rows, c->m, c->n, c["A"].dtype, prepared);
  }
  cpu::Scratch operator()(Call<graph::BiasGradient> c) const { return cpu::bias_gradient_scratch(c->rows, c->cols); }
  template <bool kCentered>
  cpu::Scratch operator()(Call<graph::NormBackward<kCentered>> c) const {
    return cpu::norm_backward_scratch(kCentered, c->rows, c->cols);
  }
  cpu::Scratch operator()(Call<graph::HeadNormBackward> c) const {
    return cpu::head_norm_backward_scratch(c->rows, c->head_dim);
  }
  cpu::Scratch operator()(Call<graph::NormBackwardOfParts> c) const {
    return cpu::norm_backward_scratch(c->centered, c->rows, c->cols);
  }
  cpu::Scratch operator()(Call<graph::Rope> c) const { return cpu::rope_scratch(c->head_dim); }
  cpu::Scratch operator()(Call<graph::AttentionForward> c) const {
    return cpu::attention_forward_scratch(shape_of(*c), c["q"].dtype, prepared);
  }
  cpu::Scratch operator()(Call<graph::AttentionBackward> c) const {
    return cpu::attention_backward_scratch(shape_of(*c), c["q"].dtype, prepared);
  }
  cpu::Scratch operator()(Call<graph::AttentionDecode> c) const { return cpu::attention_decode_scratch(shape_of(*c)); }
  cpu::Scratch operator()(Call<graph::CrossEntropy> c) const {
    return cpu::cross_entropy_scratch(c->vocab, c["logits"].dtype, c->gradient);
  }
  cpu::Scratch operator()(Call<graph::SumSquares> c) const { return cpu::sum_squares_scratch(c["x"]); }
  cpu::Scratch operator()(const auto& /*call*/) const { return {}; }
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

  void operator()(Call<graph::Gemm> c) const {
    prepared.run(where);
    if (c->epilogue == Epilogue::gelu) cpu::gelu_forward(where, c["C"], c["gelu"]);
    if (c->epilogue == Epilogue::gelu_gradient) cpu::gelu_backward(where, c["x"], c["C"], c["C"]);
    if (c->epilogue == Epilogue::add) cpu::add(where, c["addend"], c["C"], c["C"]);
    if (c->epilogue == Epilogue::bias_gradient) cpu::bias_gradient(where, c["A"], c["db"], c->accumulate);
  }
  void operator()(Call<graph::PackWeight> c) const {
    cpu::pack_gemm_b(where, {.m = 1, .n = c->n, .k = c->k, .trans_b = c->trans_b}, c["B"],
                     static_cast<std::byte*>(c["packed"].data), prepared);
  }
  void operator()(Call<graph::GroupedGemm> c) const {
    cpu::grouped_gemm(where, c->trans_b, c["A"], c["B"], c["offsets"], c["C"], prepared);
  }
  void operator()(Call<graph::GroupedGemmGradient> c) const {
    cpu::grouped_gemm_gradient(where, c["A"], c["B"], c["offsets"], c["C"], c->accumulate, prepared);
  }
  // The rows that belong to a group, if not all do.
  static Matrix used(const Matrix& all, const Matrix* offsets) {
    Matrix rows = all;
    if (offsets != nullptr) rows.rows = offsets->i32()[offsets->cols - 1];
    return rows;
  }
  void operator()(Call<graph::SwiGluForward> c) const {
    cpu::swiglu_forward(where, used(c["x"], c.find("offsets")), used(c["y"], c.find("offsets")));
  }
  void operator()(Call<graph::SwiGluBackward> c) const {
    const Matrix* const offsets = c.find("offsets");
    cpu::swiglu_backward(where, used(c["x"], offsets), used(c["dy"], offsets), used(c["dx"], offsets));
  }
  void operator()(Call<graph::GeGluForward> c) const {
    cpu::geglu_forward(where, used(c["x"], c.find("offsets")), used(c["y"], c.find("offsets")));
  }
  void operator()(Call<graph::GeGluBackward> c) const {
    const Matrix* const offsets = c.find("offsets");
    cpu::geglu_backward(where, used(c["x"], offsets), used(c["dy"], offsets), used(c["dx"], offsets));
  }
  void operator()(Call<graph::AttentionForward> c) const {
    cpu::attention_forward(where, shape_of(*c), tensors_of(c), prepared);
  }
  void operator()(Call<graph::AttentionBackward> c) const {
    cpu::attention_backward(where, shape_of(*c), tensors_of(c), {c["dout"], c["dq"], c["dk"], c["dv"]}, prepared);
  }
  void operator()(Call<graph::AddBias> c) const {
    if (scalar(c["coordinate"]) == 0) cpu::add_bias(where, c["y"], c["bias"]);
  }
  void operator()(Call<graph::TakeColumns> c) const {
    cpu::take_columns(where, c["x"], scalar(c["coordinate"]) / c->ranks_per_window, c["out"]);
  }
  void operator()(Call<graph::PutColumns> c) const {
    cpu::put_columns(where, c["x"], scalar(c["coordinate"]) / c->ranks_per_window, c["out"], c->accumulate);
  }
  void operator()(Call<graph::EmbeddingForward> c) const {
    cpu::embedding_forward(where, c["tokens"], c["wte"], c.find("wpe"), c->seq_len, scalar(c.find("position")),
                           c["out"], first_token(c.find("coordinate"), c->vocab));
  }
  void operator()(Call<graph::EmbeddingBackward> c) const {
    cpu::embedding_backward(where, c["tokens"], c["dout"], c["dwte"], c->accumulate,
                            first_token(c.find("coordinate"), c->vocab));
  }
  void operator()(Call<graph::PositionBackward> c) const {
    cpu::position_backward(where, c["dout"], c->seq_len, c["dwpe"], c->accumulate, scalar(c.find("position")));
  }
  void operator()(Call<graph::Rope> c) const {
    cpu::rope(where, prepared, c->heads, c->seq_len, scalar(c.find("position")), c->inverse, c["x"], factor_of(*c));
  }
  void operator()(Call<graph::Dropout> c) const {
    const std::int64_t* random = c["random"].i64();
    const cpu::DropoutMask mask{static_cast<std::uint64_t>(random[0]),
                                static_cast<std::uint32_t>(random[1]),
                                c->site,
                                random[2] + c->row_offset,
                                c->p,
                                c->parts,
                                scalar(c.find("coordinate")),
                                c->seq,
                                c->stride};
    cpu::dropout(where, mask, c["x"], c.find("residual"), c["y"]);
  }
  void operator()(Call<graph::LossSum> c) const {
    cpu::loss_sum(where, c["losses"], c["targets"], c["sums"], c->accumulate, owner(c.find("replica")));
  }
  void operator()(Call<graph::SumSquares> c) const {
    cpu::sum_squares(where, c["x"], c["partial"], owner(c.find("replica")));
  }
};

}  // namespace

template <class Op>
class PreparedTask::KernelOf final : public Kernel {
 public:
  KernelOf(const Op& operation, std::span<const Matrix> slots, const GemmTuning* tuning)
      : operation_(operation), slots_(copy_of(slots)), prepared_(Preparation{tuning}(call())) {}

  void run(cpu::Workers& workers) const override { Run<PreparedFor<Op>>{{workers}, prepared_}(call()); }
  cpu::Scratch scratch() const override { return ScratchOf<PreparedFor<Op>>{prepared_}(call()); }

 private:
  using Slots = std::array<Matrix, graph::argument_count<Op>>;

  Call<Op> call() const { return {operation_, slots_}; }

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
