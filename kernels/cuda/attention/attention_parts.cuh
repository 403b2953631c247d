// Shared by the two implementations of attention: their common description of a problem, and the addresses of heads'
// rows. attention.cu chooses between the implementations.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/device.cuh"

namespace weft::cuda {

/// A shape for kernels: it takes fewer registers than 64-bit numbers.
struct AttentionProblem {
  int batch, seq, heads, kv_heads, head_dim;
  int window;  // keys that a query sees, its own the last; as long as the sequence if there is no window
  float scale;

  explicit AttentionProblem(const AttentionShape& shape)
      : batch(static_cast<int>(shape.batch)),
        seq(static_cast<int>(shape.seq)),
        heads(static_cast<int>(shape.heads)),
        kv_heads(static_cast<int>(shape.kv_heads)),
        head_dim(static_cast<int>(shape.head_dim)),
        window(static_cast<int>(shape.window > 0 && shape.window < shape.seq ? shape.window : shape.seq)),
        scale(cpu::score_factor(shape.scale, shape.head_dim)) {}

  __host__ __device__ int group() const { return heads / kv_heads; }
  /// The first key that a query sees; keys after the query are beyond it. `document_starts` may be null.
  __device__ int first_key(const std::int32_t* document_starts, int sequence, int query) const {
    const int of_window = max(0, query - window + 1);
    if (document_starts == nullptr) return of_window;
    return max(of_window, document_starts[static_cast<std::int64_t>(sequence) * seq + query]);
  }
  /// Index of the first log_sum_exp and delta of a head.
  __device__ std::int64_t statistics(int sequence, int head) const {
    return (static_cast<std::int64_t>(sequence) * heads + head) * seq;
  }
};

/// The rows of all heads of all sequences.
template <class T>
struct HeadRows {
  T* data;
  std::int64_t stride;

  explicit HeadRows(const Matrix& matrix) : data(static_cast<T*>(matrix.data)), stride(matrix.row_stride) {}

  __device__ T* at(const AttentionProblem& problem, int sequence, int head, int row) const {
    return data + (static_cast<std::int64_t>(sequence) * problem.seq + row) * stride +
           static_cast<std::int64_t>(head) * problem.head_dim;
  }
};

/// Forward: q, k, v and out, log_sum_exp. The backward pass also uses dout, delta = rowsum(dout·out) in the layout of
/// log_sum_exp, and dq, dk, dv.
template <class T>
struct ForwardArguments {
  HeadRows<T> q, k, v, out;
  float* log_sum_exp;
  const std::int32_t* document_starts;  // or null

  explicit ForwardArguments(const AttentionTensors& tensors)
      : q(tensors.q),
        k(tensors.k),
        v(tensors.v),
        out(tensors.out),
        log_sum_exp(tensors.log_sum_exp.f32()),
        document_starts(tensors.document_starts) {}
};
template <class T>
struct BackwardArguments {
  HeadRows<T> q, k, v, dout, dq, dk, dv;
  const float *log_sum_exp, *delta;
  const std::int32_t* document_starts;  // or null

  BackwardArguments(const AttentionTensors& tensors, const AttentionGradients& gradients, const float* row_sums)
      : q(tensors.q),
        k(tensors.k),
        v(tensors.v),
        dout(gradients.dout),
        dq(gradients.dq),
        dk(gradients.dk),
        dv(gradients.dv),
        log_sum_exp(tensors.log_sum_exp.f32()),
        delta(row_sums),
        document_starts(tensors.document_starts) {}
};

/// The tile, sequence and head that a block works on; blocks of one tile of all heads are consecutive.
struct TileOfHead {
  int tile, sequence, head;

  __device__ TileOfHead(int batch, int heads)
      : tile(static_cast<int>(blockIdx.x) / (batch * heads)),
        sequence(static_cast<int>(blockIdx.x) % (batch * heads) / heads),
        head(static_cast<int>(blockIdx.x) % heads) {}
};

__host__ __device__ constexpr int tiles_of(int rows, int tile) {
  return (rows + tile - 1) / tile;
}

/// Any head dimension, fp32 arithmetic: attention_tiled.cu.
void tiled_attention_forward(const Launch& launch, const AttentionShape& shape, const AttentionTensors& tensors);
void tiled_attention_backward(const Launch& launch, const AttentionShape& shape, const AttentionTensors& tensors,
                              const AttentionGradients& gradients, const float* delta);

/// bf16 of head dimension 64 or 128 on tensor cores: attention_mma.cu. Rows must be vectorizable().
void mma_attention_forward(const Launch& launch, const AttentionShape& shape, const AttentionTensors& tensors);
void mma_attention_backward(const Launch& launch, const AttentionShape& shape, const AttentionTensors& tensors,
                            const AttentionGradients& gradients, const float* delta);

}  // namespace weft::cuda
