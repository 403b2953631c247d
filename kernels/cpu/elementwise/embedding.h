// Token and position embeddings, with their gradients.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

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

/// dwpe[p] (+)= Σ over sequences of dout[sequence·seq_len + p], in order. Without accumulate, rows from seq_len on
/// become zero. dwpe f32 [context, cols].
void position_backward(Workers& workers, const Matrix& dout, std::int64_t seq_len, const Matrix& dwpe, bool accumulate);

}  // namespace weft::cpu
