// From operations to CPU kernels; see cpu_kernels.h.
#include "runtime/execute/cpu/cpu_kernels.h"

#include <memory>
#include <new>
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
#include "kernels/cpu/gemm/packed_gemm.h"
#include "kernels/cpu/loss/cross_entropy.h"
#include "kernels/cpu/loss/vocab_parallel.h"
#include "kernels/cpu/norm/layer_norm.h"
#include "kernels/cpu/norm/norm_parts.h"
#include "kernels/cpu/norm/rms_norm.h"
#include "runtime/execute/kernel_calls.h"
#include "runtime/execute/task_arguments.h"

namespace weft {
namespace {

using cpu::Matrix;

cpu::AttentionShape shape_of(const auto& op) {
  return {op.batch, op.seq, op.heads, op.kv_heads, op.head_dim};
}

cpu::DecodeShape shape_of(const AttentionDecode& op) {
  return {op.batch, op.heads, op.kv_heads, op.head_dim, op.context};
}

// Library handles and tables that are made once.
struct Preparation {
  std::span<const Matrix> arguments;
  const GemmTuning* tuning = nullptr;

  PackedUnit bf16() const { return tuning != nullptr ? tuning->bf16_unit() : cpu::widest_bf16_unit(); }

  cpu::PreparedGemm operator()(const Gemm& op) const {
    cpu::GemmArguments gemm{arguments[0], arguments[1], arguments[2], {}};
    if (op.has_bias) gemm.bias = arguments[3];
    const cpu::GemmShape shape{op.m, op.n, op.k, op.trans_a, op.trans_b, op.accumulate};
    // An epilogue here is a pass behind the product, which is computed as without one: the bits are the same.
    GemmProblem problem = problem_of(op, arguments);
    problem.epilogue = Epilogue::none;
    const cpu::GemmMethod* tuned = tuning != nullptr ? tuning->find(problem) : nullptr;
    const DType inputs = arguments[0].dtype;
    const cpu::GemmMethod method =
        tuned != nullptr ? *tuned : cpu::default_gemm_method(shape, inputs, arguments[2].dtype, bf16());
    // Tuned products may have another engine, which reads B as it is; so does a product by another unit than the one
    // that B was packed for.
    const bool reads_packed = op.packed_b && method.engine == cpu::GemmMethod::Engine::packed &&
                              arguments.back().dtype == cpu::packed_b_dtype(cpu::packed_unit(inputs, bf16()));
    if (reads_packed) gemm.packed_b = static_cast<std::byte*>(arguments.back().data);
    return {shape, gemm, method, bf16()};
  }
  // What the tensor's elements say, and of bf16 the CPU's unit if the run's has none.
  PackedUnit operator()(const PackWeight&) const {
    if (arguments.back().dtype == DType::f32) return PackedUnit::f32;
    return bf16() != PackedUnit::f32 ? bf16() : cpu::widest_bf16_unit();
  }
  PackedUnit operator()(const AttentionForward&) const { return bf16(); }
  PackedUnit operator()(const AttentionBackward&) const { return bf16(); }
  std::vector<float> operator()(const Rope& op) const {
    return cpu::rope_frequencies(op.head_dim, op.theta,
                                 {op.scaling_factor, op.low_freq_factor, op.high_freq_factor, op.original_context});
  }
  std::monostate operator()(const auto&) const { return {}; }
};

template <class Op>
using PreparedFor = std::invoke_result_t<Preparation, const Op&>;

template <class Prepared>
struct ScratchOf {
  std::span<const Matrix> arguments;
  const Prepared& prepared;

  KernelScratch operator()(const Gemm&) const { return prepared.scratch(); }
  KernelScratch operator()(const BiasGradient& op) const { return cpu::bias_gradient_scratch(op.rows, op.cols); }
  KernelScratch operator()(const LayerNormBackward& op) const {
    return cpu::layer_norm_backward_scratch(op.rows, op.cols);
  }
  KernelScratch operator()(const RmsNormBackward& op) const { return cpu::rms_norm_backward_scratch(op.rows, op.cols); }
  KernelScratch operator()(const NormBackwardOfParts& op) const {
    return cpu::norm_backward_of_parts_scratch(op.centered, op.rows, op.cols);
  }
  KernelScratch operator()(const Rope& op) const { return cpu::rope_scratch(op.head_dim); }
  KernelScratch operator()(const AttentionForward& op) const {
    return cpu::attention_forward_scratch(shape_of(op), arguments[0].dtype, prepared);
  }
  KernelScratch operator()(const AttentionBackward& op) const {
    return cpu::attention_backward_scratch(shape_of(op), arguments[0].dtype, prepared);
  }
  KernelScratch operator()(const AttentionDecode& op) const { return cpu::attention_decode_scratch(shape_of(op)); }
  KernelScratch operator()(const CrossEntropy& op) const {
    return cpu::cross_entropy_scratch(op.vocab, arguments[0].dtype, op.gradient);
  }
  KernelScratch operator()(const SumSquares&) const { return cpu::sum_squares_scratch(arguments[0]); }
  KernelScratch operator()(const auto&) const { return {}; }
};

template <class Prepared>
struct Run : KernelCalls<cpu::Workers, std::int64_t> {
  const Prepared& prepared;

  using KernelCalls::operator();

  // A sum that several ranks could add is added by the first.
  bool owner(bool owned) const { return last_scalar_if(owned) == 0; }
  std::optional<std::int64_t> first_token(const auto& embedding) const {
    if (!embedding.sharded) return std::nullopt;
    return last_scalar_if(true) * embedding.vocab;
  }

  void operator()(const Gemm& op) const {
    prepared.run(where);
    if (op.epilogue == Epilogue::none) return;
    const Matrix& other = at(op.has_bias ? 4 : 3);
    if (op.epilogue == Epilogue::gelu) {
      cpu::gelu_forward(where, at(2), other);
    } else {
      cpu::gelu_backward(where, other, at(2), at(2));
    }
  }
  void operator()(const PackWeight& op) const {
    cpu::pack_gemm_b(where, {.m = 1, .n = op.n, .k = op.k, .trans_b = op.trans_b}, at(0),
                     static_cast<std::byte*>(at(1).data), prepared);
  }
  void operator()(const AttentionForward& op) const {
    cpu::attention_forward(where, shape_of(op), {at(0), at(1), at(2), at(3), at(4)}, prepared);
  }
  void operator()(const AttentionBackward& op) const {
    cpu::attention_backward(where, shape_of(op), {at(0), at(1), at(2), at(3), at(4)}, {at(5), at(6), at(7), at(8)},
                            prepared);
  }
  void operator()(const AddBias&) const {
    if (scalar(2) == 0) cpu::add_bias(where, at(0), at(1));
  }
  void operator()(const TakeColumns& op) const {
    cpu::take_columns(where, at(0), scalar(1) / op.ranks_per_window, at(2));
  }
  void operator()(const PutColumns& op) const {
    cpu::put_columns(where, at(0), scalar(1) / op.ranks_per_window, at(2));
  }
  void operator()(const EmbeddingForward& op) const {
    const std::size_t out = op.positions ? 3 : 2;
    cpu::embedding_forward(where, at(0), at(1), op.positions ? &at(2) : nullptr, op.seq_len,
                           op.has_offset ? scalar(out + 1) : 0, at(out), first_token(op));
  }
  void operator()(const EmbeddingBackward& op) const {
    cpu::embedding_backward(where, at(0), at(1), at(2), op.accumulate, first_token(op));
  }
  void operator()(const Rope& op) const {
    cpu::rope(where, prepared, op.heads, op.seq_len, last_scalar_if(op.has_offset), op.inverse, at(0));
  }
  void operator()(const Dropout& op) const {
    const std::int64_t* random = at(1).i64();
    const cpu::DropoutMask mask{static_cast<std::uint64_t>(random[0]),
                                static_cast<std::uint32_t>(random[1]),
                                op.site,
                                random[2] + op.row_offset,
                                op.p,
                                op.parts,
                                last_scalar_if(op.parts > 1)};
    cpu::dropout(where, mask, at(0), op.residual ? &at(3) : nullptr, at(2));
  }
  void operator()(const LossSum& op) const {
    cpu::loss_sum(where, at(0), at(1), at(2), op.accumulate, owner(op.owned));
  }
  void operator()(const SumSquares& op) const { cpu::sum_squares(where, at(0), at(1), owner(op.owned)); }
};

}  // namespace

template <class Op>
class PreparedTask::KernelOf final : public Kernel {
 public:
  static std::unique_ptr<const Kernel> make(const Op& operation, std::span<const Matrix> arguments,
                                            const GemmTuning* tuning) {
    static_assert(std::is_trivially_copyable_v<Matrix> && alignof(KernelOf) >= alignof(Matrix));
    void* memory = ::operator new(sizeof(KernelOf) + arguments.size_bytes());
    auto* behind = reinterpret_cast<Matrix*>(static_cast<std::byte*>(memory) + sizeof(KernelOf));
    std::uninitialized_copy(arguments.begin(), arguments.end(), behind);
    try {
      return std::unique_ptr<const Kernel>(new (memory) KernelOf(operation, {behind, arguments.size()}, tuning));
    } catch (...) {
      ::operator delete(memory);
      throw;
    }
  }

  void run(cpu::Workers& workers) const override { Run<PreparedFor<Op>>{{arguments_, workers}, prepared_}(operation_); }
  KernelScratch scratch() const override { return ScratchOf<PreparedFor<Op>>{arguments_, prepared_}(operation_); }

 private:
  KernelOf(const Op& operation, std::span<const Matrix> arguments, const GemmTuning* tuning)
      : operation_(operation), arguments_(arguments), prepared_(Preparation{arguments_, tuning}(operation_)) {}

  Op operation_;
  std::span<const Matrix> arguments_;
  [[no_unique_address]] PreparedFor<Op> prepared_;
};

PreparedTask::PreparedTask(const Operation& operation, std::vector<cpu::Matrix> arguments, const GemmTuning* tuning) {
  arguments = fitted_arguments(operation, std::move(arguments));
  std::visit([&]<class Op>(const Op& op) { kernel_ = KernelOf<Op>::make(op, arguments, tuning); }, operation);
}

}  // namespace weft
