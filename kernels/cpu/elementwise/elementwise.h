// Small kernels: the sum of two tensors, a multiple of one, zeros, a conversion, the gradient of a bias, the selection
// of a row; GELU with the tanh approximation (Hendrycks and Gimpel 2016, arXiv:1606.08415) and SwiGLU (Shazeer 2020,
// arXiv:2002.05202), with their gradients; for ranks that share rows, a bias that only one rank adds, and windows of
// columns; dropout; token and position embeddings, with their gradients; gradient clipping by global norm and AdamW
// (Loshchilov and Hutter 2019, arXiv:1711.05101). All arguments of an activation's call have one float dtype.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

/// out = a + b, of one float dtype and equal element counts; out may be a or b.
void add(Workers& workers, const Matrix& a, const Matrix& b, const Matrix& out);

/// out = factor · x, of one float dtype and equal element counts; out may be x.
void scale(Workers& workers, const Matrix& x, float factor, const Matrix& out);

/// out = x + value, as scale().
void add_constant(Workers& workers, const Matrix& x, float value, const Matrix& out);

/// out = 0.
void zero(Workers& workers, const Matrix& out);

/// out = x, rounded to nearest even if out's dtype is narrower; NaN stays NaN. Float dtypes, equal element counts; x
/// and out don't overlap unless their dtypes are equal.
void cast(Workers& workers, const Matrix& x, const Matrix& out);

/// db[cols] (+)= Σ over rows of dy [rows, cols]; db f32.
void bias_gradient(Workers& workers, const Matrix& dy, const Matrix& db, bool accumulate);
Scratch bias_gradient_scratch(std::int64_t rows, std::int64_t cols);

/// out[cols] = row (index mod rows) of x, converted to out's dtype.
void select_row(Workers& workers, const Matrix& x, std::int64_t index, const Matrix& out);

/// y = ½x(1 + tanh(√(2/π)(x + 0.044715x³))). x, y of equal element counts; y may be x.
void gelu_forward(Workers& workers, const Matrix& x, const Matrix& y);
/// dx = dy·gelu′(x). dx may be x or dy.
void gelu_backward(Workers& workers, const Matrix& x, const Matrix& dy, const Matrix& dx);

/// y = silu(gate)·up with x = [gate | up]: x [rows, 2·cols], y [rows, cols].
void swiglu_forward(Workers& workers, const Matrix& x, const Matrix& y);
/// dx [rows, 2·cols] from x [rows, 2·cols] and dy [rows, cols]. dx may be x.
void swiglu_backward(Workers& workers, const Matrix& x, const Matrix& dy, const Matrix& dx);

/// The same with tanh-GELU for silu.
void geglu_forward(Workers& workers, const Matrix& x, const Matrix& y);
void geglu_backward(Workers& workers, const Matrix& x, const Matrix& dy, const Matrix& dx);

/// y [rows, cols] += bias [cols] on every row, both of one float dtype.
void add_bias(Workers& workers, const Matrix& y, const Matrix& bias);

/// out [rows, cols] = columns [window·cols, (window+1)·cols) of x, both of one float dtype. Throws std::logic_error if
/// x has no such window.
void take_columns(Workers& workers, const Matrix& x, std::int64_t window, const Matrix& out);

/// The adjoint of take_columns(): columns [window·cols, (window+1)·cols) of out become x [rows, cols], the other
/// columns become 0. `accumulate`: x is added to its columns, and the others stay. Throws std::logic_error if out has
/// no such window.
void put_columns(Workers& workers, const Matrix& x, std::int64_t window, const Matrix& out, bool accumulate = false);

/// The mask is a pure function of seed, step, site and global element, so it is never stored: the backward pass draws
/// it again, and no grid or schedule changes it.
struct DropoutMask {
  std::uint64_t seed;
  std::uint32_t step, site;
  std::int64_t first_row;  // global row of the matrix's first row
  float p;                 // in [0, 1): the probability that an element is dropped
  // The matrix is columns [part·cols, (part+1)·cols) of a global matrix with cols·parts columns.
  std::int64_t parts = 1, part = 0;
  // Of each sequence of `stride` rows the matrix has `seq`, which divides stride, from a multiple of seq on. 0: all.
  std::int64_t seq = 0, stride = 0;

  std::int64_t global_row(std::int64_t row) const {
    if (seq == 0) return first_row + row;
    const std::int64_t from_part = first_row % seq + row;  // rows since the part's begin
    return first_row - first_row % seq + from_part / seq * stride + from_part % seq;
  }
};

/// y = x·mask/(1−p) (+ residual). Element (row, col) draws bits e mod 8 of philox_quad(seed, step, site, e/8), where e
/// = (global_row(row)·parts + part)·cols + col; kernels/formulas.h tells how p becomes a threshold. All
/// matrices [rows, cols] of one float dtype; y may be x or residual; residual may be null.
void dropout(Workers& workers, const DropoutMask& mask, const Matrix& x, const Matrix* residual, const Matrix& y);

/// Row r of out [rows, cols] = wte[tokens[r]] (+ wpe[offset + r mod seq_len], if wpe isn't null). All of one float
/// dtype; tokens i32 [rows]. Throws RuntimeFault for a token or position outside its table.
/// With first_token, wte is a shard that holds tokens [first_token, first_token + wte.rows). Rows of other tokens
/// become zero, without a position, so that the sum over all shards is the embedding.
void embedding_forward(Workers& workers, const Matrix& tokens, const Matrix& wte, const Matrix* wpe,
                       std::int64_t seq_len, std::int64_t offset, const Matrix& out,
                       std::optional<std::int64_t> first_token = {});

/// dwte[tokens[r]] += dout[r] in row order. Without accumulate, the rows of absent tokens become zero. dwte f32 [vocab,
/// cols]. Throws RuntimeFault for a token outside the table. With first_token, dwte is a shard as above, and other
/// shards' tokens are skipped.
void embedding_backward(Workers& workers, const Matrix& tokens, const Matrix& dout, const Matrix& dwte, bool accumulate,
                        std::optional<std::int64_t> first_token = {});

/// dwpe[first + p] (+)= Σ over sequences of dout[sequence·seq_len + p], in order. Without accumulate, other rows become
/// zero. dwpe f32 [context, cols].
void position_backward(Workers& workers, const Matrix& dout, std::int64_t seq_len, const Matrix& dwpe, bool accumulate,
                       std::int64_t first = 0);

/// partial[0] = Σ x², squared and added in double; 0 on a rank that isn't the `owner` of x, because another rank counts
/// x. x, partial f32.
void sum_squares(Workers& workers, const Matrix& x, const Matrix& partial, bool owner = true);
Scratch sum_squares_scratch(const Matrix& x);

/// norm_and_factor = {√Σ partials, min(1, max_norm/(norm + 1e-6))}; the factor is 1 if max_norm ≤ 0. All f32.
void clip_factor(Workers& workers, const Matrix& partials, float max_norm, const Matrix& norm_and_factor);

struct AdamWSettings {
  float beta1, beta2, eps, weight_decay;
};

/// The values of a step: `scalars` f32 {lr, 1/(1−β1^t), 1/(1−β2^t), …}, `norm_and_factor` f32 {…, clip factor}, or null
/// for a factor of 1.
struct AdamWStep {
  Matrix scalars;
  const Matrix* norm_and_factor;
};

/// g = grad·factor; m = β1·m + (1−β1)·g; v = β2·v + (1−β2)·g²; p −= lr·(m̂/(√v̂ + eps) + weight_decay·p).
/// param has a float dtype; grad, m, v are f32 with equal element counts. With `master` (f32, else null) the update is
/// done on the master weights, and param gets their rounded values.
void adamw(Workers& workers, const AdamWSettings& settings, const AdamWStep& step, const Matrix& param,
           const Matrix& grad, const Matrix& m, const Matrix& v, const Matrix* master);

}  // namespace weft::cpu
