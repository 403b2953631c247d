// What tasks compute, as plain data: no pointers, no closures, no value that changes from step to step.
//
// Each operation lists its arguments: the accesses of its task, in this order. "read", "write" and "rw" are the modes
// that the builder must declare. Shapes are rows × cols; strides and dtypes are those of the views, unless said.
// Activations and parameters are fp32 or bf16; statistics, losses, gradients of parameters and optimizer state are
// fp32 always. "accumulate" turns a write into rw: the result is added to what is there.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "base/dtype.h"
#include "base/epilogue.h"

namespace weft {

/// C[m,n] (+)= op(A)·op(B) (+ bias[n] on every row).
/// Arguments: A read [m,k], or [k,m] if trans_a; B read [k,n], or [n,k] if trans_b; C write [m,n]; bias read [n] if
/// has_bias; by epilogue (never with accumulate): gelu: gelu(C) write [m,n]; gelu_gradient: x read [m,n], and C is
/// (op(A)·op(B) (+ bias))·gelu′(x); if packed_b: the same B as PackWeight writes it, read. The bits are those without
/// it.
struct Gemm {
  std::int64_t m, n, k;
  bool trans_a = false, trans_b = false, accumulate = false, has_bias = false, packed_b = false;
  Epilogue epilogue = Epilogue::none;
};

/// B of a Gemm in the order in which the CPU's own matrix product reads it (kernels/cpu/gemm/packed_gemm.h): made once
/// for all the products of a step. No device but the CPU has it.
/// Arguments: B read [k,n], or [n,k] if trans_b; packed write, f32 or bf16, as many elements as this machine asks for.
struct PackWeight {
  std::int64_t n, k;
  bool trans_b = false;
};

/// db[cols] (+)= sum over rows of dy. Arguments: dy read [rows, cols]; db write f32.
struct BiasGradient {
  std::int64_t rows, cols;
  bool accumulate = false;
};

/// y = (x − mean)·rstd·weight + bias per row, biased variance.
/// Arguments: x read; weight read [cols]; bias read [cols]; y write; mean write f32 [rows]; rstd write f32 [rows].
struct LayerNormForward {
  std::int64_t rows, cols;
  float eps;
};

/// Arguments: x read; weight read; mean read; rstd read; dy read; dx write; dweight write f32 [cols]; dbias write f32
/// [cols]; if residual: dresidual read, added to dx. `accumulate` concerns dweight and dbias.
struct LayerNormBackward {
  std::int64_t rows, cols;
  bool residual = false, accumulate = false;
};

/// y = x·rsqrt(mean x² + eps)·weight per row. Arguments: x read; weight read [cols]; y write; rstd write f32 [rows].
struct RmsNormForward {
  std::int64_t rows, cols;
  float eps;
};

/// Arguments: x read; weight read; rstd read; dy read; dx write; dweight write f32 [cols]; if residual: dresidual read.
struct RmsNormBackward {
  std::int64_t rows, cols;
  bool residual = false, accumulate = false;
};

/// What norms know of a row whose columns lie on several ranks. Centered (LayerNorm): mean and sum of (x − mean)²;
/// else (RMSNorm): sum of x². Arguments: x read [rows, cols]; statistics write f32 [rows, centered ? 2 : 1].
struct NormStatistics {
  std::int64_t rows, cols;
  bool centered;
};

/// LayerNorm (centered) or RMSNorm of rows that are cut into `parts` pieces of `cols` columns, with every part's
/// statistics; parts are combined in their order (Chan, Golub and LeVeque 1979).
/// Arguments: x read [rows, cols]; weight read [cols]; if centered: bias read [cols]; statistics read f32 [parts, rows,
/// 2 or 1]; y write; if centered: mean write f32 [rows]; rstd write f32 [rows].
struct NormForwardOfParts {
  std::int64_t rows, cols, parts;
  float eps;
  bool centered;
};

/// What the backward pass has to sum over a row: of g = dy·weight, Σ g·x̂ and, if centered, before it Σ g.
/// Arguments: x read; weight read; if centered: mean read; rstd read; dy read; sums write f32 [rows, centered ? 2 : 1].
struct NormBackwardSums {
  std::int64_t rows, cols;
  bool centered;
};

/// Arguments: x read; weight read; if centered: mean read; rstd read; dy read; sums read f32 [rows, centered ? 2 : 1],
/// of all parts; dx write; dweight write f32 [cols]; if centered: dbias write f32 [cols]; if residual: dresidual read.
struct NormBackwardOfParts {
  std::int64_t rows, cols, parts;
  bool centered, residual = false, accumulate = false;
};

/// y += bias on every row, on the rank whose coordinate is 0: the other parts of a sum over ranks have none.
/// Arguments: y rw [rows, cols]; bias read [cols]; coordinate read i64 [1].
struct AddBias {
  std::int64_t rows, cols;
};

/// Window ⌊coordinate / ranks_per_window⌋ of x, which is `windows` windows of `cols` columns.
/// Arguments: x read [rows, windows·cols]; coordinate read i64 [1]; out write [rows, cols].
struct TakeColumns {
  std::int64_t rows, cols, windows, ranks_per_window;
};

/// The adjoint: x in its window of out, zero in the others.
/// Arguments: x read [rows, cols]; coordinate read i64 [1]; out write [rows, windows·cols].
struct PutColumns {
  std::int64_t rows, cols, windows, ranks_per_window;
};

/// Row r of out = wte[token r] (+ wpe[offset + r mod seq_len]). Sharded: wte holds tokens [c·vocab, (c+1)·vocab) of
/// coordinate c; the rows of other tokens become zero, positions not added, so that a sum over ranks is the embedding.
/// Arguments: tokens read i32 [rows]; wte read [vocab, cols]; if positions: wpe read [context, cols]; out write; if
/// has_offset: position read i64 [1], the offset (else 0); if sharded: coordinate read i64 [1].
struct EmbeddingForward {
  std::int64_t rows, cols, vocab, seq_len;
  bool positions = false, has_offset = false, sharded = false;
};

/// dwte[token r] += dout[r], in row order. Without accumulate every other row is set to zero. Sharded: of the rank's
/// tokens, as forward.
/// Arguments: tokens read i32; dout read [rows, cols]; dwte write f32 [vocab, cols]; if sharded: coordinate read i64
/// [1].
struct EmbeddingBackward {
  std::int64_t rows, cols, vocab;
  bool accumulate = false, sharded = false;
};

/// dwpe[p] (+)= sum over sequences of dout[sequence, p]; rows beyond seq_len are set to zero without accumulate.
/// Arguments: dout read [rows, cols]; dwpe write f32 [context, cols].
struct PositionBackward {
  std::int64_t rows, cols, seq_len, context;
  bool accumulate = false;
};

/// Rotary embedding, Hugging Face's half-split layout, in place; `inverse` rotates back (the adjoint).
/// Row r is at position offset + r mod seq_len. llama3 scaling applies when scaling_factor != 1.
/// Arguments: x rw [rows, heads·head_dim]; if has_offset: position read i64 [1].
struct Rope {
  std::int64_t rows, heads, head_dim, seq_len;
  float theta = 10000.0F;
  float scaling_factor = 1.0F, low_freq_factor = 1.0F, high_freq_factor = 4.0F, original_context = 8192.0F;
  bool inverse = false, has_offset = false;
};

/// Causal softmax attention, scale 1/√head_dim; query head h reads KV head h / (heads / kv_heads).
/// Arguments: q read [batch·seq, heads·head_dim]; k read, v read [batch·seq, kv_heads·head_dim]; out write
/// [batch·seq, heads·head_dim]; lse write f32 [batch·heads·seq], the log-sum-exp of the scaled scores.
struct AttentionForward {
  std::int64_t batch, seq, heads, kv_heads, head_dim;
};

/// Arguments: q, k, v, out, lse read; dout read; dq, dk, dv write (shapes of q, k, v).
struct AttentionBackward {
  std::int64_t batch, seq, heads, kv_heads, head_dim;
};

/// Copies keys or values of whole sequences to the head of a cache (prefill).
/// Arguments: x read [batch·seq, cols]; cache rw [batch·context, cols].
struct CacheStore {
  std::int64_t batch, seq, cols, context;
};

/// One new token a sequence at `position`: stores its key and value, then attends to positions 0..position.
/// Arguments: q read [batch, heads·head_dim]; k read, v read [batch, kv_heads·head_dim]; k_cache rw, v_cache rw
/// [batch·context, kv_heads·head_dim]; position read i64 [1]; out write [batch, heads·head_dim].
struct AttentionDecode {
  std::int64_t batch, heads, kv_heads, head_dim, context;
};

/// tanh-approximated GELU. Arguments: x read; y write, both of n elements.
struct GeluForward {
  std::int64_t n;
};

/// Arguments: x read; dy read; dx write.
struct GeluBackward {
  std::int64_t n;
};

/// y = silu(gate)·up, where the input's row is [gate | up]. Arguments: x read [rows, 2·cols]; y write [rows, cols].
struct SwiGluForward {
  std::int64_t rows, cols;
};

/// Arguments: x read [rows, 2·cols]; dy read [rows, cols]; dx write [rows, 2·cols].
struct SwiGluBackward {
  std::int64_t rows, cols;
};

/// out = a + b. Arguments: a read; b read; out write, all of n elements.
struct Add {
  std::int64_t n;
};

/// y = x·mask/(1−p) (+ residual). The mask is Philox(seed, step, site, global element), so forward and backward are
/// the same operation; global element = (row_base + row_offset + row)·cols·parts + coordinate·cols + col.
/// Arguments: x read [rows, cols]; random read i64 [3] = {seed, step, row_base}; y write; if residual: residual read;
/// if parts > 1: coordinate read i64 [1] (else 0).
struct Dropout {
  std::int64_t rows, cols, row_offset;
  float p;
  std::uint32_t site;
  bool residual = false;
  std::int64_t parts = 1;
};

/// Softmax cross-entropy against targets (negative = ignored: loss 0, gradient 0). Columns from `vocab` on, if any, are
/// padding: they take no part and get gradient 0. With `gradient`, logits become d(sum of losses)·grad_scale in place.
/// Arguments: logits rw (read without gradient) [rows, padded]; targets read i32 [rows]; losses write f32 [rows];
/// if gradient: grad_scale read f32 [1].
struct CrossEntropy {
  std::int64_t rows, vocab, padded;
  bool gradient = true;
};

/// What the loss has to know of a row of logits whose columns lie on several ranks: the largest, the sum of
/// exp(logit − largest), and the target's logit (−∞ where another rank has it). The rank's columns are those of tokens
/// [c·cols, (c+1)·cols) of coordinate c; those from `vocab` on are padding.
/// Arguments: logits read [rows, cols]; targets read i32 [rows]; coordinate read i64 [1]; statistics write f32 [rows,
/// 3].
struct VocabStatistics {
  std::int64_t rows, cols, vocab;
};

/// CrossEntropy of such rows with every part's statistics, combined in their order.
/// Arguments: logits rw (read without gradient) [rows, cols]; targets read i32 [rows]; coordinate read i64 [1];
/// statistics read f32 [parts, rows, 3]; losses write f32 [rows]; if gradient: grad_scale read f32 [1].
struct VocabCrossEntropy {
  std::int64_t rows, cols, vocab, parts;
  bool gradient = true;
};

/// sums[0] (+)= sum of losses, sums[1] (+)= count of targets ≥ 0. If owned: only where `replica` is 0, else (+)= 0, so
/// that a sum over ranks counts no replica.
/// Arguments: losses read f32 [rows]; targets read i32 [rows]; sums write f32 [2]; if owned: replica read i64 [1].
struct LossSum {
  std::int64_t rows;
  bool accumulate = false, owned = false;
};

/// partial = sum of x² (double inside); if owned: 0 unless `replica` is 0.
/// Arguments: x read f32 [n]; partial write f32 [1]; if owned: replica read i64 [1].
struct SumSquares {
  std::int64_t n;
  bool owned = false;
};

/// out = x in the other dtype, rounded to nearest even. Arguments: x read [n], f32 or bf16; out write [n].
struct Cast {
  std::int64_t n;
};

/// norm = √(sum of partials); factor = min(1, max_norm/(norm + 1e-6)), or 1 if max_norm ≤ 0.
/// Arguments: partials read f32 [count]; norm_and_factor write f32 [2].
struct ClipFactor {
  std::int64_t count;
  float max_norm;
};

/// Decoupled weight decay Adam: g = grad·factor; m, v updated; p −= lr·(m̂/(√v̂ + eps) + weight_decay·p).
/// Arguments: param rw; grad read f32; m rw f32; v rw f32; scalars read f32 [4] = {lr, 1/(1−β1^t), 1/(1−β2^t),
/// grad_scale}; norm_and_factor read f32 [2]; if has_master: master rw f32, the fp32 weights of a bf16 param.
struct AdamW {
  std::int64_t n;
  float beta1, beta2, eps, weight_decay;
  bool has_master = false;
};

/// Row `index mod rows` of x. Arguments: x read [rows, cols]; index read i64 [1]; out write [cols].
struct SelectRow {
  std::int64_t rows, cols;
};

/// The process groups of a rank: one communicator and one stream each. z has two, so that gathers and scatters never
/// queue behind each other; `world` is all ranks.
enum class Channel : std::uint8_t { x, y, z_gather, z_scatter, data, world };

std::string_view to_string(Channel channel);

/// Float sums are added in fp32 in rank order and rounded once, whatever the communicator.
/// Arguments: buffer rw [count]; workspace write, same dtype, all_reduce_workspace(count, ranks) elements.
struct AllReduce {
  Channel channel;
  std::int64_t ranks, count;
};

/// Rank r keeps the sum of elements [r·count, (r+1)·count) of everybody's input.
/// Arguments: in read [ranks·count]; out write [count]; workspace write [(ranks−1)·count].
struct ReduceScatter {
  Channel channel;
  std::int64_t ranks, count;
};

/// Arguments: in read [count]; out write [ranks·count].
struct AllGather {
  Channel channel;
  std::int64_t ranks, count;
};

/// Arguments: buffer rw [count].
struct Broadcast {
  Channel channel;
  std::int64_t ranks, count, root;
};

using Operation =
    std::variant<Gemm, PackWeight, BiasGradient, AddBias, LayerNormForward, LayerNormBackward, RmsNormForward,
                 RmsNormBackward, NormStatistics, NormForwardOfParts, NormBackwardSums, NormBackwardOfParts,
                 TakeColumns, PutColumns, EmbeddingForward, EmbeddingBackward, PositionBackward, Rope, AttentionForward,
                 AttentionBackward, CacheStore, AttentionDecode, GeluForward, GeluBackward, SwiGluForward,
                 SwiGluBackward, Add, Cast, Dropout, CrossEntropy, VocabStatistics, VocabCrossEntropy, LossSum,
                 SumSquares, ClipFactor, AdamW, SelectRow, AllReduce, ReduceScatter, AllGather, Broadcast>;

/// "gemm", "all_reduce", … : the operation's name in drawings, traces and profiles.
std::string_view kind_name(const Operation& operation);

/// The process group of a collective, or null for a computation.
const Channel* channel_of(const Operation& operation);
inline bool is_collective(const Operation& operation) {
  return channel_of(operation) != nullptr;
}

/// Each rank receives its slice (⌈count/ranks⌉ elements) from every peer.
constexpr std::int64_t all_reduce_workspace(std::int64_t count, std::int64_t ranks) {
  return ranks == 1 ? 0 : (count + ranks - 1) / ranks * (ranks - 1);
}

/// Arithmetic and traffic of a task when nothing is cached: the input of every cost model.
/// `network_bytes` is what one rank sends for a collective.
struct Work {
  double flops = 0, bytes = 0, network_bytes = 0;
};

/// `element_bytes` is the size of the activations' (for collectives: the payload's) dtype.
Work work_of(const Operation& operation, double element_bytes);

}  // namespace weft
