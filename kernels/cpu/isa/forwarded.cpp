// The kernels' functions in a build with all levels: each calls the function of the level in use, which is one of some
// dozens of calls in a task of microseconds. A build for one level has the functions themselves in its place.
#include <utility>

#include "kernels/cpu/isa/level_kernels.h"

namespace weft::cpu {

std::string_view compiled_level() {
  return kernels().compiled_level();
}
void attention_forward(Workers& workers, const AttentionShape& shape, const AttentionTensors& tensors,
                       PackedUnit bf16) {
  return kernels().attention_forward(workers, shape, tensors, bf16);
}
Scratch attention_forward_scratch(const AttentionShape& shape, DType dtype, PackedUnit bf16) {
  return kernels().attention_forward_scratch(shape, dtype, bf16);
}
void attention_backward(Workers& workers, const AttentionShape& shape, const AttentionTensors& tensors,
                        const AttentionGradients& gradients, PackedUnit bf16) {
  return kernels().attention_backward(workers, shape, tensors, gradients, bf16);
}
Scratch attention_backward_scratch(const AttentionShape& shape, DType dtype, PackedUnit bf16) {
  return kernels().attention_backward_scratch(shape, dtype, bf16);
}
void cache_store(Workers& workers, std::int64_t batch, std::int64_t seq, std::int64_t context, const Matrix& x,
                 const Matrix& cache) {
  return kernels().cache_store(workers, batch, seq, context, x, cache);
}
void attention_decode(Workers& workers, const DecodeShape& shape, std::int64_t position, const DecodeTensors& tensors) {
  return kernels().attention_decode(workers, shape, position, tensors);
}
Scratch attention_decode_scratch(const DecodeShape& shape) {
  return kernels().attention_decode_scratch(shape);
}
std::vector<float> rope_frequencies(std::int64_t head_dim, float theta, const RopeScaling& scaling) {
  return kernels().rope_frequencies(head_dim, theta, scaling);
}
void rope(Workers& workers, std::span<const float> frequencies, std::int64_t heads, std::int64_t seq_len,
          std::int64_t offset, bool inverse, const Matrix& x, float factor) {
  return kernels().rope(workers, frequencies, heads, seq_len, offset, inverse, x, factor);
}
Scratch rope_scratch(std::int64_t head_dim) {
  return kernels().rope_scratch(head_dim);
}
void gelu_forward(Workers& workers, const Matrix& x, const Matrix& y) {
  return kernels().gelu_forward(workers, x, y);
}
void gelu_backward(Workers& workers, const Matrix& x, const Matrix& dy, const Matrix& dx) {
  return kernels().gelu_backward(workers, x, dy, dx);
}
void swiglu_forward(Workers& workers, const Matrix& x, const Matrix& y) {
  return kernels().swiglu_forward(workers, x, y);
}
void swiglu_backward(Workers& workers, const Matrix& x, const Matrix& dy, const Matrix& dx) {
  return kernels().swiglu_backward(workers, x, dy, dx);
}
void cast(Workers& workers, const Matrix& x, const Matrix& out) {
  return kernels().cast(workers, x, out);
}
void add_bias(Workers& workers, const Matrix& y, const Matrix& bias) {
  return kernels().add_bias(workers, y, bias);
}
void take_columns(Workers& workers, const Matrix& x, std::int64_t window, const Matrix& out) {
  return kernels().take_columns(workers, x, window, out);
}
void put_columns(Workers& workers, const Matrix& x, std::int64_t window, const Matrix& out) {
  return kernels().put_columns(workers, x, window, out);
}
void dropout(Workers& workers, const DropoutMask& mask, const Matrix& x, const Matrix* residual, const Matrix& y) {
  return kernels().dropout(workers, mask, x, residual, y);
}
void add(Workers& workers, const Matrix& a, const Matrix& b, const Matrix& out) {
  return kernels().add(workers, a, b, out);
}
void scale(Workers& workers, const Matrix& x, float factor, const Matrix& out) {
  return kernels().scale(workers, x, factor, out);
}
void zero(Workers& workers, const Matrix& out) {
  return kernels().zero(workers, out);
}
void bias_gradient(Workers& workers, const Matrix& dy, const Matrix& db, bool accumulate) {
  return kernels().bias_gradient(workers, dy, db, accumulate);
}
Scratch bias_gradient_scratch(std::int64_t rows, std::int64_t cols) {
  return kernels().bias_gradient_scratch(rows, cols);
}
void select_row(Workers& workers, const Matrix& x, std::int64_t index, const Matrix& out) {
  return kernels().select_row(workers, x, index, out);
}
void embedding_forward(Workers& workers, const Matrix& tokens, const Matrix& wte, const Matrix* wpe,
                       std::int64_t seq_len, std::int64_t offset, const Matrix& out,
                       std::optional<std::int64_t> first_token) {
  return kernels().embedding_forward(workers, tokens, wte, wpe, seq_len, offset, out, first_token);
}
void embedding_backward(Workers& workers, const Matrix& tokens, const Matrix& dout, const Matrix& dwte, bool accumulate,
                        std::optional<std::int64_t> first_token) {
  return kernels().embedding_backward(workers, tokens, dout, dwte, accumulate, first_token);
}
void position_backward(Workers& workers, const Matrix& dout, std::int64_t seq_len, const Matrix& dwpe,
                       bool accumulate) {
  return kernels().position_backward(workers, dout, seq_len, dwpe, accumulate);
}
void sum_squares(Workers& workers, const Matrix& x, const Matrix& partial, bool owner) {
  return kernels().sum_squares(workers, x, partial, owner);
}
Scratch sum_squares_scratch(const Matrix& x) {
  return kernels().sum_squares_scratch(x);
}
void clip_factor(Workers& workers, const Matrix& partials, float max_norm, const Matrix& norm_and_factor) {
  return kernels().clip_factor(workers, partials, max_norm, norm_and_factor);
}
void adamw(Workers& workers, const AdamWSettings& settings, const AdamWStep& step, const Matrix& param,
           const Matrix& grad, const Matrix& m, const Matrix& v, const Matrix* master) {
  return kernels().adamw(workers, settings, step, param, grad, m, v, master);
}
void sum_in_rank_order(std::span<const void* const> sources, void* out, std::int64_t count, DType dtype) {
  return kernels().sum_in_rank_order(sources, out, count, dtype);
}
DType packed_b_dtype(PackedUnit unit) {
  return kernels().packed_b_dtype(unit);
}
std::int64_t packed_b_elements(const GemmShape& shape) {
  return kernels().packed_b_elements(shape);
}
void pack_gemm_b(Workers& workers, const GemmShape& shape, const Matrix& b, std::byte* to, PackedUnit unit) {
  return kernels().pack_gemm_b(workers, shape, b, to, unit);
}
GemmSlices gemm_slices(std::int64_t m, std::int64_t n, std::int64_t k) {
  return kernels().gemm_slices(m, n, k);
}
std::optional<GemmMethod> parse_gemm_method(std::string_view text) {
  return kernels().parse_gemm_method(text);
}
GemmMethod default_gemm_method(const GemmShape& shape, DType inputs, DType output, PackedUnit bf16) {
  return kernels().default_gemm_method(shape, inputs, output, bf16);
}
std::vector<GemmMethod> gemm_methods(const GemmShape& shape, DType inputs, DType output, PackedUnit bf16) {
  return kernels().gemm_methods(shape, inputs, output, bf16);
}
bool can_run(const GemmMethod& method, const GemmShape& shape, DType inputs, DType output) {
  return kernels().can_run(method, shape, inputs, output);
}
bool bf16_in_pairs() {
  return kernels().bf16_in_pairs();
}
bool bf16_in_amx() {
  return kernels().bf16_in_amx();
}
bool has_unit(PackedUnit unit) {
  return kernels().has_unit(unit);
}
PackedUnit widest_bf16_unit() {
  return kernels().widest_bf16_unit();
}
PackedUnit packed_unit(DType inputs, PackedUnit bf16) {
  return kernels().packed_unit(inputs, bf16);
}
std::optional<double> measure_pairs_gain() {
  return kernels().measure_pairs_gain();
}
std::optional<double> pairs_gain() {
  return kernels().pairs_gain();
}
void transpose(Workers& workers, const Matrix& from, const Matrix& to) {
  return kernels().transpose(workers, from, to);
}
void cross_entropy(Workers& workers, std::int64_t vocab, const Matrix& logits, const Matrix& targets,
                   const Matrix& losses, const Matrix* grad_scale) {
  return kernels().cross_entropy(workers, vocab, logits, targets, losses, grad_scale);
}
Scratch cross_entropy_scratch(std::int64_t vocab, DType dtype, bool gradient) {
  return kernels().cross_entropy_scratch(vocab, dtype, gradient);
}
void loss_sum(Workers& workers, const Matrix& losses, const Matrix& targets, const Matrix& sums, bool accumulate,
              bool owner) {
  return kernels().loss_sum(workers, losses, targets, sums, accumulate, owner);
}
void vocab_statistics(Workers& workers, const VocabPart& part, const Matrix& logits, const Matrix& targets,
                      const Matrix& statistics) {
  return kernels().vocab_statistics(workers, part, logits, targets, statistics);
}
void vocab_cross_entropy(Workers& workers, const VocabPart& part, std::int64_t parts, const Matrix& logits,
                         const Matrix& targets, const Matrix& statistics, const Matrix& losses,
                         const Matrix* grad_scale) {
  return kernels().vocab_cross_entropy(workers, part, parts, logits, targets, statistics, losses, grad_scale);
}
void norm_forward(Workers& workers, float eps, const NormTensors& norm, const Matrix* bias, const Matrix& y) {
  return kernels().norm_forward(workers, eps, norm, bias, y);
}
void norm_backward(Workers& workers, const NormTensors& norm, const Matrix& dy, const NormGradients& gradients) {
  return kernels().norm_backward(workers, norm, dy, gradients);
}
Scratch norm_backward_scratch(bool centered, std::int64_t rows, std::int64_t cols) {
  return kernels().norm_backward_scratch(centered, rows, cols);
}
void head_norm_forward(Workers& workers, float eps, std::int64_t heads, const Matrix& x, const Matrix& weight,
                       const Matrix& y, const Matrix& rstd) {
  return kernels().head_norm_forward(workers, eps, heads, x, weight, y, rstd);
}
void head_norm_backward(Workers& workers, std::int64_t heads, const Matrix& x, const Matrix& weight, const Matrix& rstd,
                        const Matrix& dy, const HeadNormGradients& gradients) {
  return kernels().head_norm_backward(workers, heads, x, weight, rstd, dy, gradients);
}
Scratch head_norm_backward_scratch(std::int64_t rows, std::int64_t head_dim) {
  return kernels().head_norm_backward_scratch(rows, head_dim);
}
void norm_statistics(Workers& workers, bool centered, const Matrix& x, const Matrix& statistics) {
  return kernels().norm_statistics(workers, centered, x, statistics);
}
void norm_forward_of_parts(Workers& workers, std::int64_t parts, float eps, const NormTensors& norm, const Matrix* bias,
                           const Matrix& statistics, const Matrix& y) {
  return kernels().norm_forward_of_parts(workers, parts, eps, norm, bias, statistics, y);
}
void norm_backward_sums(Workers& workers, const NormTensors& norm, const Matrix& dy, const Matrix& sums) {
  return kernels().norm_backward_sums(workers, norm, dy, sums);
}
void norm_backward_of_parts(Workers& workers, std::int64_t parts, const NormTensors& norm, const Matrix& dy,
                            const Matrix& sums, const NormGradients& gradients) {
  return kernels().norm_backward_of_parts(workers, parts, norm, dy, sums, gradients);
}

std::string to_string(const GemmMethod& method) {
  return kernels().to_string_of_method(method);
}
PackedUnit fastest_bf16_unit(PackedUnit widest, std::optional<double> gain) {
  return kernels().fastest_unit_for(widest, gain);
}
PackedUnit fastest_bf16_unit() {
  return kernels().fastest_unit_here();
}

// Only the level's library knows what a prepared product holds: here it is made, run and given up by the library, and
// the pointer is null whenever this code's own destructor sees it.
struct PreparedGemm::Impl {};

PreparedGemm::PreparedGemm(const GemmShape& shape, const GemmArguments& arguments)
    : PreparedGemm(shape, arguments, default_gemm_method(shape, arguments.a.dtype, arguments.c.dtype)) {}
PreparedGemm::PreparedGemm(const GemmShape& shape, const GemmArguments& arguments, const GemmMethod& method,
                           PackedUnit bf16) {
  kernels().prepare_gemm(*this, shape, arguments, method, bf16);
}
PreparedGemm::~PreparedGemm() {
  if (impl_ != nullptr) kernels().release_gemm(*this);
}
PreparedGemm::PreparedGemm(PreparedGemm&&) noexcept = default;
PreparedGemm& PreparedGemm::operator=(PreparedGemm&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}
Scratch PreparedGemm::scratch() const {
  return kernels().scratch_of_gemm(*this);
}
void PreparedGemm::run(Workers& workers) const {
  kernels().run_gemm(*this, workers);
}

}  // namespace weft::cpu
