// Tiled causal attention; see attention.h.
#include "kernels/cpu/attention.h"

#include <cmath>
#include <type_traits>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/vector_math.h"

namespace weft::cpu {
namespace {

constexpr std::int64_t kQueries = 64;  // rows of a query block

// fp32 rows, either the caller's own or a converted copy.
struct Tile {
  const float* data;
  std::int64_t stride;
};

// Rows of a head as fp32: in place if they are, else copied into `scratch`.
template <class T>
Tile as_floats(const T* rows, std::int64_t stride, std::int64_t count, std::int64_t cols, float* scratch) {
  if constexpr (std::is_same_v<T, float>) {
    return {rows, stride};
  } else {
    for (std::int64_t row = 0; row < count; ++row) {
      for_vectors(cols, [&](std::int64_t i, auto lanes) {
        lanes.store(scratch + row * cols + i, lanes.load(rows + row * stride + i));
      });
    }
    return {scratch, cols};
  }
}

// to[rows, cols] = from, rounded to T; nothing to do when the product was written in place.
template <class T>
void write_rows(const float* from, std::int64_t rows, std::int64_t cols, T* to, std::int64_t stride) {
  if constexpr (!std::is_same_v<T, float>) {
    for (std::int64_t row = 0; row < rows; ++row) {
      for_vectors(cols, [&](std::int64_t i, auto lanes) {
        lanes.store(to + row * stride + i, lanes.load(from + row * cols + i));
      });
    }
  }
}

// Where a product of T is computed: in place if T is float, else in scratch.
template <class T>
std::pair<float*, std::int64_t> product_target(T* to, std::int64_t stride, float* scratch, std::int64_t cols) {
  if constexpr (std::is_same_v<T, float>) {
    return {to, stride};
  } else {
    return {scratch, cols};
  }
}

template <class T>
T* head_rows(const Matrix& matrix, std::int64_t row, std::int64_t head, std::int64_t head_dim) {
  return elements<T>(matrix, row) + head * head_dim;
}

float scale_of(const AttentionShape& shape) {
  return 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
}

// Scores of `queries` rows beginning at position `first` against keys 0 … first + queries.
struct Block {
  std::int64_t first, queries;
  std::int64_t keys() const { return first + queries; }
};

Block block_at(std::int64_t seq, std::int64_t index) {
  return {index * kQueries, std::min(kQueries, seq - index * kQueries)};
}

// Turns a row of scores into exp(score − largest), zero behind the diagonal, and returns {largest, sum}.
std::pair<float, float> exponentials(float* scores, std::int64_t visible, std::int64_t keys) {
  const float top = max_of(scores, visible);
  const float total = sum_vectors(visible, [&](std::int64_t i, auto lanes) {
    const Floats e = lanes.fill(exp(lanes.load(scores + i) - top), 0.0F);
    lanes.store(scores + i, e);
    return e;
  });
  std::fill(scores + visible, scores + keys, 0.0F);
  return {top, total};
}

// One query block of the query heads that share a KV head.
template <class T>
void forward_block(const AttentionShape& shape, const AttentionTensors& tensors, std::int64_t sequence,
                   std::int64_t kv_head, const Block& block, std::byte* scratch) {
  const std::int64_t dim = shape.head_dim, keys = block.keys(), first_row = sequence * shape.seq;
  ScratchParts parts(scratch);
  float* scores = parts.floats(kQueries * shape.seq);
  constexpr std::int64_t kCopies = std::is_same_v<T, float> ? 0 : 1;
  float* k_copy = parts.floats(kCopies * shape.seq * dim);
  float* v_copy = parts.floats(kCopies * shape.seq * dim);
  float* q_copy = parts.floats(kCopies * kQueries * dim);
  float* out_copy = parts.floats(kCopies * kQueries * dim);
  const Tile k = as_floats(head_rows<T>(tensors.k, first_row, kv_head, dim), tensors.k.row_stride, keys, dim, k_copy);
  const Tile v = as_floats(head_rows<T>(tensors.v, first_row, kv_head, dim), tensors.v.row_stride, keys, dim, v_copy);
  for (std::int64_t member = 0; member < shape.group(); ++member) {
    const std::int64_t head = kv_head * shape.group() + member, row = first_row + block.first;
    const Tile q = as_floats(head_rows<T>(tensors.q, row, head, dim), tensors.q.row_stride, block.queries, dim, q_copy);
    T* out = head_rows<T>(tensors.out, row, head, dim);
    const auto [product, stride] = product_target(out, tensors.out.row_stride, out_copy, dim);
    float* lse = tensors.lse.f32() + (sequence * shape.heads + head) * shape.seq + block.first;
    multiply_tiles(false, true, block.queries, keys, dim, scale_of(shape), q.data, q.stride, k.data, k.stride, 0.0F,
                   scores, keys);
    float inverse_sums[kQueries];
    for (std::int64_t i = 0; i < block.queries; ++i) {
      const auto [top, total] = exponentials(scores + i * keys, block.first + i + 1, keys);
      lse[i] = top + std::log(total);
      inverse_sums[i] = 1.0F / total;
    }
    multiply_tiles(false, false, block.queries, dim, keys, 1.0F, scores, keys, v.data, v.stride, 0.0F, product, stride);
    for (std::int64_t i = 0; i < block.queries; ++i) {
      for_vectors(dim, [&](std::int64_t j, auto lanes) {
        lanes.store(out + i * tensors.out.row_stride + j, lanes.load(product + i * stride + j) * inverse_sums[i]);
      });
    }
  }
}

// All query blocks and heads of one KV head of one sequence.
template <class T>
class BackwardHead {
 public:
  BackwardHead(const AttentionShape& shape, const AttentionTensors& tensors, const AttentionGradients& gradients,
               std::int64_t sequence, std::int64_t kv_head, std::byte* scratch)
      : shape_(shape), tensors_(tensors), gradients_(gradients), sequence_(sequence), kv_head_(kv_head) {
    ScratchParts parts(scratch);
    constexpr std::int64_t kCopies = std::is_same_v<T, float> ? 0 : 1;
    const std::int64_t whole = kCopies * shape.seq * shape.head_dim, block = kCopies * kQueries * shape.head_dim;
    scores_ = parts.floats(kQueries * shape.seq);
    dscores_ = parts.floats(kQueries * shape.seq);
    k_copy_ = parts.floats(whole), v_copy_ = parts.floats(whole);
    dk_copy_ = parts.floats(whole), dv_copy_ = parts.floats(whole);
    q_copy_ = parts.floats(block), dout_copy_ = parts.floats(block), dq_copy_ = parts.floats(block);
  }

  void run() {
    const std::int64_t dim = shape_.head_dim, seq = shape_.seq, row = sequence_ * seq;
    const Tile k = as_floats(head_rows<T>(tensors_.k, row, kv_head_, dim), tensors_.k.row_stride, seq, dim, k_copy_);
    const Tile v = as_floats(head_rows<T>(tensors_.v, row, kv_head_, dim), tensors_.v.row_stride, seq, dim, v_copy_);
    T* dk = head_rows<T>(gradients_.dk, row, kv_head_, dim);
    T* dv = head_rows<T>(gradients_.dv, row, kv_head_, dim);
    const auto [dk_sum, dk_stride] = product_target(dk, gradients_.dk.row_stride, dk_copy_, dim);
    const auto [dv_sum, dv_stride] = product_target(dv, gradients_.dv.row_stride, dv_copy_, dim);
    // The last block sees all keys: going backwards, the first product writes every row and the others add.
    float beta = 0.0F;
    for (std::int64_t member = 0; member < shape_.group(); ++member) {
      const std::int64_t head = kv_head_ * shape_.group() + member;
      for (std::int64_t index = ceil_div(seq, kQueries) - 1; index >= 0; --index, beta = 1.0F) {
        const Block block = block_at(seq, index);
        const std::int64_t n = block.queries, keys = block.keys(), first = row + block.first;
        const Tile q = as_floats(head_rows<T>(tensors_.q, first, head, dim), tensors_.q.row_stride, n, dim, q_copy_);
        const Tile dout =
            as_floats(head_rows<T>(gradients_.dout, first, head, dim), gradients_.dout.row_stride, n, dim, dout_copy_);
        multiply_tiles(false, true, n, keys, dim, scale_of(shape_), q.data, q.stride, k.data, k.stride, 0.0F, scores_,
                       keys);
        multiply_tiles(false, true, n, keys, dim, 1.0F, dout.data, dout.stride, v.data, v.stride, 0.0F, dscores_, keys);
        score_gradients(block, head, dout);
        multiply_tiles(true, false, keys, dim, n, 1.0F, scores_, keys, dout.data, dout.stride, beta, dv_sum, dv_stride);
        multiply_tiles(true, false, keys, dim, n, 1.0F, dscores_, keys, q.data, q.stride, beta, dk_sum, dk_stride);
        T* dq = head_rows<T>(gradients_.dq, first, head, dim);
        const auto [product, stride] = product_target(dq, gradients_.dq.row_stride, dq_copy_, dim);
        multiply_tiles(false, false, n, dim, keys, 1.0F, dscores_, keys, k.data, k.stride, 0.0F, product, stride);
        write_rows(product, n, dim, dq, gradients_.dq.row_stride);
      }
    }
    write_rows(dk_sum, seq, dim, dk, gradients_.dk.row_stride);
    write_rows(dv_sum, seq, dim, dv, gradients_.dv.row_stride);
  }

 private:
  // scores: S → P = exp(S − lse); dscores: dP → scale·P·(dP − Σ dout·out), both zero behind the diagonal.
  void score_gradients(const Block& block, std::int64_t head, const Tile& dout) {
    const std::int64_t dim = shape_.head_dim, keys = block.keys();
    const float* lse = tensors_.lse.f32() + (sequence_ * shape_.heads + head) * shape_.seq + block.first;
    const float scale = scale_of(shape_);
    for (std::int64_t i = 0; i < block.queries; ++i) {
      const T* out = head_rows<T>(tensors_.out, sequence_ * shape_.seq + block.first + i, head, dim);
      const float* dout_row = dout.data + i * dout.stride;
      const float delta =
          sum_vectors(dim, [&](std::int64_t j, auto lanes) { return lanes.load(out + j) * lanes.load(dout_row + j); });
      const std::int64_t visible = block.first + i + 1;
      float* p = scores_ + i * keys;
      float* ds = dscores_ + i * keys;
      for_vectors(visible, [&](std::int64_t j, auto lanes) {
        const Floats probability = exp(lanes.load(p + j) - lse[i]);
        lanes.store(p + j, probability);
        lanes.store(ds + j, scale * probability * (lanes.load(ds + j) - delta));
      });
      std::fill(p + visible, p + keys, 0.0F);
      std::fill(ds + visible, ds + keys, 0.0F);
    }
  }

  const AttentionShape& shape_;
  const AttentionTensors& tensors_;
  const AttentionGradients& gradients_;
  std::int64_t sequence_, kv_head_;
  float *scores_, *dscores_, *k_copy_, *v_copy_, *dk_copy_, *dv_copy_, *q_copy_, *dout_copy_, *dq_copy_;
};

}  // namespace

void attention_forward(Workers& workers, const AttentionShape& shape, const AttentionTensors& tensors) {
  const auto run = [&]<class T>(std::type_identity<T>) {
    const std::int64_t blocks = ceil_div(shape.seq, kQueries), heads = shape.batch * shape.kv_heads;
    // The last blocks are the longest: they go first, so that workers end together.
    workers.run(blocks * heads, [&](std::int64_t chunk) {
      const std::int64_t head = chunk % heads;
      forward_block<T>(shape, tensors, head / shape.kv_heads, head % shape.kv_heads,
                       block_at(shape.seq, blocks - 1 - chunk / heads), workers.worker_scratch());
    });
  };
  with_element_type(run, tensors.q, tensors.k, tensors.v, tensors.out);
}

Scratch attention_forward_scratch(const AttentionShape& shape, DType dtype) {
  const std::size_t scores = ScratchParts::bytes(kQueries * shape.seq);
  const std::size_t copies =
      2 * (ScratchParts::bytes(shape.seq * shape.head_dim) + ScratchParts::bytes(kQueries * shape.head_dim));
  return {scores + (dtype == DType::f32 ? 0 : copies), 0};
}

void attention_backward(Workers& workers, const AttentionShape& shape, const AttentionTensors& tensors,
                        const AttentionGradients& gradients) {
  const auto run = [&]<class T>(std::type_identity<T>) {
    workers.run(shape.batch * shape.kv_heads, [&](std::int64_t chunk) {
      BackwardHead<T>(shape, tensors, gradients, chunk / shape.kv_heads, chunk % shape.kv_heads,
                      workers.worker_scratch())
          .run();
    });
  };
  with_element_type(run, tensors.q, tensors.k, tensors.v, tensors.out, gradients.dout, gradients.dq, gradients.dk,
                    gradients.dv);
}

Scratch attention_backward_scratch(const AttentionShape& shape, DType dtype) {
  const std::size_t scores = 2 * ScratchParts::bytes(kQueries * shape.seq);
  const std::size_t copies =
      4 * ScratchParts::bytes(shape.seq * shape.head_dim) + 3 * ScratchParts::bytes(kQueries * shape.head_dim);
  return {scores + (dtype == DType::f32 ? 0 : copies), 0};
}

}  // namespace weft::cpu
