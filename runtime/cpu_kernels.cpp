// From operations to CPU kernels; see cpu_kernels.h.
#include "runtime/cpu_kernels.h"

#include <memory>
#include <new>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>

#include "kernels/cpu/activation.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/attention_decode.h"
#include "kernels/cpu/cast.h"
#include "kernels/cpu/columns.h"
#include "kernels/cpu/cross_entropy.h"
#include "kernels/cpu/dropout.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/embedding.h"
#include "kernels/cpu/layer_norm.h"
#include "kernels/cpu/norm_parts.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/cpu/packed_gemm.h"
#include "kernels/cpu/rms_norm.h"
#include "kernels/cpu/rope.h"
#include "kernels/cpu/vocab_parallel.h"
#include "runtime/task_arguments.h"

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

  cpu::PreparedGemm operator()(const Gemm& op) const {
    cpu::GemmArguments gemm{arguments[0], arguments[1], arguments[2], {}};
    if (op.has_bias) gemm.bias = arguments[3];
    const cpu::GemmShape shape{op.m, op.n, op.k, op.trans_a, op.trans_b, op.accumulate};
    // An epilogue here is a pass behind the product, which is computed as without one: the bits are the same.
    GemmProblem problem = problem_of(op, arguments);
    problem.epilogue = Epilogue::none;
    const cpu::GemmMethod* tuned = tuning != nullptr ? tuning->find(problem) : nullptr;
    const cpu::GemmMethod method =
        tuned != nullptr ? *tuned : cpu::default_gemm_method(shape, arguments[0].dtype, arguments[2].dtype);
    // Tuned products may have another engine, which reads B as it is.
    const bool reads_packed = op.packed_b && method.engine == cpu::GemmMethod::Engine::packed;
    if (reads_packed) gemm.packed_b = static_cast<std::byte*>(arguments.back().data);
    return {shape, gemm, method};
  }
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
    return cpu::attention_forward_scratch(shape_of(op), arguments[0].dtype);
  }
  KernelScratch operator()(const AttentionBackward& op) const {
    return cpu::attention_backward_scratch(shape_of(op), arguments[0].dtype);
  }
  KernelScratch operator()(const AttentionDecode& op) const { return cpu::attention_decode_scratch(shape_of(op)); }
  KernelScratch operator()(const CrossEntropy& op) const {
    return cpu::cross_entropy_scratch(op.vocab, arguments[0].dtype, op.gradient);
  }
  KernelScratch operator()(const SumSquares&) const { return cpu::sum_squares_scratch(arguments[0]); }
  KernelScratch operator()(const auto&) const { return {}; }
};

// One overload an operation; no catch-all, so that a new operation doesn't build without its kernel.
template <class Prepared>
struct Run {
  std::span<const Matrix> arguments;
  const Prepared& prepared;
  cpu::Workers& workers;

  const Matrix& at(std::size_t index) const { return arguments[index]; }
  // An argument that comes last if it comes at all.
  const Matrix* last_if(bool present) const { return present ? &arguments.back() : nullptr; }
  std::int64_t offset_if(bool present) const { return present ? arguments.back().i64()[0] : 0; }
  std::int64_t integer(std::size_t index) const { return at(index).i64()[0]; }
  // A sum that several ranks could add is added by the first.
  bool owner(bool owned) const { return offset_if(owned) == 0; }
  // Of an operation whose arguments begin with x, weight, mean if centered, rstd: these and how many they are.
  std::pair<cpu::NormPartTensors, std::size_t> saved_norm(bool centered) const {
    return {{at(0), at(1), centered ? &at(2) : nullptr, at(centered ? 3 : 2)},
            centered ? std::size_t{4} : std::size_t{3}};
  }

  std::optional<std::int64_t> first_token(const auto& embedding) const {
    if (!embedding.sharded) return std::nullopt;
    return arguments.back().i64()[0] * embedding.vocab;
  }

  void operator()(const Gemm& op) const {
    prepared.run(workers);
    if (op.epilogue == Epilogue::none) return;
    const Matrix& other = at(op.has_bias ? 4 : 3);
    if (op.epilogue == Epilogue::gelu) {
      cpu::gelu_forward(workers, at(2), other);
    } else {
      cpu::gelu_backward(workers, other, at(2), at(2));
    }
  }
  void operator()(const PackWeight& op) const {
    cpu::pack_gemm_b(workers, {.m = 1, .n = op.n, .k = op.k, .trans_b = op.trans_b}, at(0),
                     static_cast<std::byte*>(at(1).data));
  }
  void operator()(const BiasGradient& op) const { cpu::bias_gradient(workers, at(0), at(1), op.accumulate); }
  void operator()(const LayerNormForward& op) const {
    cpu::layer_norm_forward(workers, op.eps, at(0), at(1), at(2), at(3), at(4), at(5));
  }
  void operator()(const LayerNormBackward& op) const {
    cpu::layer_norm_backward(workers, at(0), at(1), at(2), at(3), at(4),
                             {at(5), at(6), at(7), last_if(op.residual), op.accumulate});
  }
  void operator()(const RmsNormForward& op) const {
    cpu::rms_norm_forward(workers, op.eps, at(0), at(1), at(2), at(3));
  }
  void operator()(const RmsNormBackward& op) const {
    cpu::rms_norm_backward(workers, at(0), at(1), at(2), at(3), {at(4), at(5), last_if(op.residual), op.accumulate});
  }
  void operator()(const NormStatistics& op) const { cpu::norm_statistics(workers, op.centered, at(0), at(1)); }
  void operator()(const NormForwardOfParts& op) const {
    if (op.centered) {
      cpu::norm_forward_of_parts(workers, op.parts, op.eps, {at(0), at(1), &at(5), at(6)}, &at(2), at(3), at(4));
    } else {
      cpu::norm_forward_of_parts(workers, op.parts, op.eps, {at(0), at(1), nullptr, at(4)}, nullptr, at(2), at(3));
    }
  }
  void operator()(const NormBackwardSums& op) const {
    const auto [norm, next] = saved_norm(op.centered);
    cpu::norm_backward_sums(workers, norm, at(next), at(next + 1));
  }
  void operator()(const NormBackwardOfParts& op) const {
    const auto [norm, next] = saved_norm(op.centered);
    const Matrix* dbias = op.centered ? &at(next + 4) : nullptr;
    cpu::norm_backward_of_parts(workers, op.parts, norm, at(next), at(next + 1),
                                {at(next + 2), at(next + 3), dbias, last_if(op.residual), op.accumulate});
  }
  void operator()(const AddBias&) const {
    if (integer(2) == 0) cpu::add_bias(workers, at(0), at(1));
  }
  void operator()(const TakeColumns& op) const {
    cpu::take_columns(workers, at(0), integer(1) / op.ranks_per_window, at(2));
  }
  void operator()(const PutColumns& op) const {
    cpu::put_columns(workers, at(0), integer(1) / op.ranks_per_window, at(2));
  }
  void operator()(const EmbeddingForward& op) const {
    const std::size_t out = op.positions ? 3 : 2;
    cpu::embedding_forward(workers, at(0), at(1), op.positions ? &at(2) : nullptr, op.seq_len,
                           op.has_offset ? integer(out + 1) : 0, at(out), first_token(op));
  }
  void operator()(const EmbeddingBackward& op) const {
    cpu::embedding_backward(workers, at(0), at(1), at(2), op.accumulate, first_token(op));
  }
  void operator()(const PositionBackward& op) const {
    cpu::position_backward(workers, at(0), op.seq_len, at(1), op.accumulate);
  }
  void operator()(const Rope& op) const {
    cpu::rope(workers, prepared, op.heads, op.seq_len, offset_if(op.has_offset), op.inverse, at(0));
  }
  void operator()(const AttentionForward& op) const {
    cpu::attention_forward(workers, shape_of(op), {at(0), at(1), at(2), at(3), at(4)});
  }
  void operator()(const AttentionBackward& op) const {
    cpu::attention_backward(workers, shape_of(op), {at(0), at(1), at(2), at(3), at(4)}, {at(5), at(6), at(7), at(8)});
  }
  void operator()(const CacheStore& op) const { cpu::cache_store(workers, op.batch, op.seq, op.context, at(0), at(1)); }
  void operator()(const AttentionDecode& op) const {
    cpu::attention_decode(workers, shape_of(op), at(5).i64()[0], {at(0), at(1), at(2), at(3), at(4), at(6)});
  }
  void operator()(const GeluForward&) const { cpu::gelu_forward(workers, at(0), at(1)); }
  void operator()(const GeluBackward&) const { cpu::gelu_backward(workers, at(0), at(1), at(2)); }
  void operator()(const SwiGluForward&) const { cpu::swiglu_forward(workers, at(0), at(1)); }
  void operator()(const SwiGluBackward&) const { cpu::swiglu_backward(workers, at(0), at(1), at(2)); }
  void operator()(const Add&) const { cpu::add(workers, at(0), at(1), at(2)); }
  void operator()(const Cast&) const { cpu::cast(workers, at(0), at(1)); }
  void operator()(const Dropout& op) const {
    const std::int64_t* random = at(1).i64();
    const cpu::DropoutMask mask{static_cast<std::uint64_t>(random[0]),
                                static_cast<std::uint32_t>(random[1]),
                                op.site,
                                random[2] + op.row_offset,
                                op.p,
                                op.parts,
                                offset_if(op.parts > 1)};
    cpu::dropout(workers, mask, at(0), op.residual ? &at(3) : nullptr, at(2));
  }
  void operator()(const CrossEntropy& op) const {
    cpu::cross_entropy(workers, op.vocab, at(0), at(1), at(2), last_if(op.gradient));
  }
  void operator()(const VocabStatistics& op) const {
    cpu::vocab_statistics(workers, {integer(2), op.vocab}, at(0), at(1), at(3));
  }
  void operator()(const VocabCrossEntropy& op) const {
    cpu::vocab_cross_entropy(workers, {integer(2), op.vocab}, op.parts, at(0), at(1), at(3), at(4),
                             last_if(op.gradient));
  }
  void operator()(const LossSum& op) const {
    cpu::loss_sum(workers, at(0), at(1), at(2), op.accumulate, owner(op.owned));
  }
  void operator()(const SumSquares& op) const { cpu::sum_squares(workers, at(0), at(1), owner(op.owned)); }
  void operator()(const ClipFactor& op) const { cpu::clip_factor(workers, at(0), op.max_norm, at(1)); }
  void operator()(const AdamW& op) const {
    cpu::adamw(workers, {op.beta1, op.beta2, op.eps, op.weight_decay}, {at(4), at(5)}, at(0), at(1), at(2), at(3),
               last_if(op.has_master));
  }
  void operator()(const SelectRow&) const { cpu::select_row(workers, at(0), at(1).i64()[0], at(2)); }
  void operator()(const AllReduce&) const { refuse_collective(); }
  void operator()(const ReduceScatter&) const { refuse_collective(); }
  void operator()(const AllGather&) const { refuse_collective(); }
  void operator()(const Broadcast&) const { refuse_collective(); }
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

  void run(cpu::Workers& workers) const override { Run<PreparedFor<Op>>{arguments_, prepared_, workers}(operation_); }
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
