// Token and position embeddings, with their gradients, on a GPU; see kernels/cpu/elementwise/embedding.h.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"

namespace weft::cuda {

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

/// dwpe[p] (+)= Σ over sequences of dout[sequence·seq_len + p], in order. Without accumulate, rows from seq_len on
/// become zero. dwpe f32 [context, cols].
void position_backward(const Launch& launch, const Matrix& dout, std::int64_t seq_len, const Matrix& dwpe,
                       bool accumulate);

}  // namespace weft::cuda
