// Small kernels on a GPU; see kernels/cpu/elementwise/ for the meaning of the arguments. `coordinate` and `index` are
// device memory: a GPU's stream doesn't wait for the host to read them. Dropout, with exactly the CPU's mask;
// embeddings; clipping and AdamW of one tensor, or of many in a single launch, since a launch for each small tensor
// would take longer to start than to run (the bits are the same); the sum of messages in rank order; and transposed
// copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/cpu/elementwise/elementwise.h"
#include "kernels/cuda/launch.h"

namespace weft::cuda {

void add(const Launch& launch, const Matrix& a, const Matrix& b, const Matrix& out);
void scale(const Launch& launch, const Matrix& x, float factor, const Matrix& out);
void add_constant(const Launch& launch, const Matrix& x, float value, const Matrix& out);
void zero(const Launch& launch, const Matrix& out);
void cast(const Launch& launch, const Matrix& x, const Matrix& out);

void bias_gradient(const Launch& launch, const Matrix& dy, const Matrix& db, bool accumulate);
std::int64_t bias_gradient_scratch_bytes(std::int64_t rows, std::int64_t cols);

/// out[cols] = row (*index mod rows) of x, converted to out's dtype. `index` is device memory.
void select_row(const Launch& launch, const Matrix& x, const std::int64_t* index, const Matrix& out);

/// x, y of equal element counts; y may be x.
void gelu_forward(const Launch& launch, const Matrix& x, const Matrix& y);
/// dx may be x or dy.
void gelu_backward(const Launch& launch, const Matrix& x, const Matrix& dy, const Matrix& dx);

/// y [rows, cols] from x = [gate | up] [rows, 2·cols]. With `offsets`, in device memory, rows from its last number on
/// stay.
void swiglu_forward(const Launch& launch, const Matrix& x, const Matrix& y, const Matrix* offsets = nullptr);
/// dx may be x.
void swiglu_backward(const Launch& launch, const Matrix& x, const Matrix& dy, const Matrix& dx,
                     const Matrix* offsets = nullptr);
/// The same with tanh-GELU for silu.
void geglu_forward(const Launch& launch, const Matrix& x, const Matrix& y, const Matrix* offsets = nullptr);
void geglu_backward(const Launch& launch, const Matrix& x, const Matrix& dy, const Matrix& dx,
                    const Matrix* offsets = nullptr);

/// y [rows, cols] += bias [cols] on every row if *coordinate is 0, both of one float dtype.
void add_bias(const Launch& launch, const Matrix& y, const Matrix& bias, const std::int64_t* coordinate);

/// out [rows, cols] = columns [w·cols, (w+1)·cols) of x with w = ⌊*coordinate / ranks_per_window⌋, both of one float
/// dtype. If x has no such window, out isn't changed.
void take_columns(const Launch& launch, const Matrix& x, const std::int64_t* coordinate, std::int64_t ranks_per_window,
                  const Matrix& out);

/// The adjoint: columns [w·cols, (w+1)·cols) of out become x [rows, cols], the other columns become 0.
/// `accumulate`: x is added to its columns, and the others stay.
void put_columns(const Launch& launch, const Matrix& x, const std::int64_t* coordinate, std::int64_t ranks_per_window,
                 const Matrix& out, bool accumulate);

struct DropoutMask {
  std::uint32_t site;
  std::int64_t row_offset;     // the matrix's first row is global row row_base + row_offset
  float p;                     // in [0, 1): the probability that an element is dropped
  std::int64_t parts;          // the matrix is one of `parts` windows of columns of a global matrix
  std::int64_t seq, stride;    // of each sequence of `stride` rows the matrix has `seq`, as cpu::DropoutMask; 0: all
  const std::int64_t* random;  // device: {seed, step, row_base}
  const std::int64_t* coordinate;  // device: the index of the window; null: the first
};

/// y = x·mask/(1−p) (+ residual), all of one float dtype [rows, cols]; y may be x or residual; residual may be null.
void dropout(const Launch& launch, const DropoutMask& mask, const Matrix& x, const Matrix* residual, const Matrix& y);

/// Row r of out [rows, cols] = wte[tokens[r]] (+ wpe[*offset + r mod seq_len], if wpe isn't null). `offset` and
/// `coordinate` are device memory or null; a null offset means 0. With coordinate c, wte is a shard that holds tokens
/// [c·wte.rows, (c+1)·wte.rows); rows of other tokens become zero, without a position. A token or position outside its
/// table is a fault, and its row isn't changed.
void embedding_forward(const Launch& launch, const Matrix& tokens, const Matrix& wte, const Matrix* wpe,
                       std::int64_t seq_len, const std::int64_t* offset, const Matrix& out,
                       const std::int64_t* coordinate);

/// dwte[tokens[r]] += dout[r]. Without accumulate, the rows of absent tokens become zero. dwte f32 [vocab, cols]. The
/// order in which a token's rows are added depends only on the tokens. A token outside the table is a fault. With
/// coordinate, dwte is a shard as above, and other shards' tokens are skipped.
void embedding_backward(const Launch& launch, const Matrix& tokens, const Matrix& dout, const Matrix& dwte,
                        bool accumulate, const std::int64_t* coordinate);
/// Queries CUB, which queries the current device. The call gets as many as Launch::scratch_bytes.
std::int64_t embedding_backward_scratch_bytes(std::int64_t rows, std::int64_t cols, std::int64_t vocab);

/// dwpe[*first + p] (+)= Σ over sequences of dout[sequence·seq_len + p]. Without accumulate, other rows become zero.
/// `first` is device memory; null means 0.
void position_backward(const Launch& launch, const Matrix& dout, std::int64_t seq_len, const Matrix& dwpe,
                       bool accumulate, const std::int64_t* first);

using cpu::AdamWSettings;
using cpu::AdamWStep;

/// partial[0] = Σ x², added in double; 0 on a rank that doesn't own x: if `replica` isn't null and *replica isn't 0. x,
/// partial f32; `replica` in device memory.
void sum_squares(const Launch& launch, const Matrix& x, const Matrix& partial, const std::int64_t* replica);
std::int64_t sum_squares_scratch_bytes(const Matrix& x);

void clip_factor(const Launch& launch, const Matrix& partials, float max_norm, const Matrix& norm_and_factor);

/// The kernel reads the step's values from device memory.
void adamw(const Launch& launch, const AdamWSettings& settings, const AdamWStep& step, const Matrix& param,
           const Matrix& grad, const Matrix& m, const Matrix& v, const Matrix* master);

struct SumSquaresArguments {
  Matrix x, partial;
  const std::int64_t* replica;
};

/// sum_squares() of many tensors. The table of tensors is on the device, so that run() copies nothing.
class SumSquaresBatch {
 public:
  explicit SumSquaresBatch(std::span<const SumSquaresArguments> tensors);
  ~SumSquaresBatch();
  SumSquaresBatch(const SumSquaresBatch&) = delete;
  SumSquaresBatch& operator=(const SumSquaresBatch&) = delete;

  void run(const Launch& launch) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct AdamWArguments {
  AdamWSettings settings;
  AdamWStep step;
  Matrix param, grad, m, v;
  const Matrix* master;
};

/// adamw() of many tensors. Throws std::logic_error unless all parameters have one dtype.
class AdamWBatch {
 public:
  explicit AdamWBatch(std::span<const AdamWArguments> tensors);
  ~AdamWBatch();
  AdamWBatch(const AdamWBatch&) = delete;
  AdamWBatch& operator=(const AdamWBatch&) = delete;

  void run(const Launch& launch) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

inline constexpr std::size_t kMostSources = 64;

/// out[i] = sources[0][i] + sources[1][i] + …, for i < count. Floats are added in fp32 and rounded to dtype once;
/// integers wrap. Takes one to kMostSources sources in device memory (`sources` itself is in host memory), else throws
/// std::logic_error; `out` may be one of the sources. Dividing a message doesn't change the bits.
void sum_in_rank_order(const Launch& launch, std::span<const void* const> sources, void* out, std::int64_t count,
                       DType dtype);

/// Lowers *first to the least index, counted row-major within x, of a NaN or an infinity of x, a float matrix. If
/// `rows` isn't null, only *rows rows of x count. Both in device memory.
void find_non_finite(const Launch& launch, const Matrix& x, const std::int32_t* rows, std::uint64_t* first);

/// to[cols, rows] = from[rows, cols], bit for bit; both f32 or both bf16. They don't overlap. Throws std::logic_error
/// for other dtypes and if the shapes don't fit.
void transpose(const Launch& launch, const Matrix& from, const Matrix& to);

}  // namespace weft::cuda
