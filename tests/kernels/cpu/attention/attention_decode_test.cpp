// Decoding token by token gives the same results as attention over whole sequences.

#include <gtest/gtest.h>

#include <utility>

#include "base/error.h"
#include "kernels/cpu/attention/attention.h"
#include "tests/kernels/reference.h"

namespace weft::cpu {
namespace {

using testing::Tensor;
using testing::Values;

class AttentionDecode : public testing::ForFloatTypes {};

// The rows of token t of every sequence: `batch` rows, seq·stride apart.
Matrix token_rows(Tensor& tensor, std::int64_t batch, std::int64_t seq, std::int64_t t) {
  Matrix rows = tensor.view();
  rows.data = static_cast<std::byte*>(rows.data) + static_cast<std::size_t>(t * rows.row_stride) * size_of(rows.dtype);
  rows.rows = batch;
  rows.row_stride *= seq;
  return rows;
}

TEST_P(AttentionDecode, ContinuesAPrefill) {
  const DType dtype = GetParam();
  for (const auto& sizes : {std::array<std::int64_t, 4>{4, 4, 16, 0}, {6, 2, 11, 0}, {6, 2, 11, 60}}) {
    const std::int64_t heads = sizes[0], kv_heads = sizes[1], dim = sizes[2], window = sizes[3];
    const std::int64_t batch = 2, seq = 70, context = 90, prefill = 50;
    Tensor q = Tensor::random(dtype, batch * seq, heads * dim, 1, 1.0, 3);
    Tensor k = Tensor::random(dtype, batch * seq, kv_heads * dim, 2);
    Tensor v = Tensor::random(dtype, batch * seq, kv_heads * dim, 3);
    Tensor whole(dtype, batch * seq, heads * dim), log_sum_exp(DType::f32, 1, batch * heads * seq);
    const float scale = window > 0 ? 0.3F : 0.0F;
    const AttentionShape shape{batch, seq, heads, kv_heads, dim, window, scale};
    Workers workers(1);
    workers.reserve(attention_forward_scratch(shape, dtype));
    attention_forward(workers, shape, {q.view(), k.view(), v.view(), whole.view(), log_sum_exp.view()});

    // The first tokens' keys and values as separate matrices, as in a prefill graph.
    const auto head_of = [&](Tensor& from) {
      const Values all = from.values();
      Values first;
      for (std::int64_t b = 0; b < batch; ++b) {
        first.insert(first.end(), all.begin() + b * seq * kv_heads * dim,
                     all.begin() + (b * seq + prefill) * kv_heads * dim);
      }
      return Tensor(dtype, batch * prefill, kv_heads * dim, first);
    };
    Tensor k_head = head_of(k), v_head = head_of(v);
    Tensor k_cache(dtype, batch * context, kv_heads * dim, 1), v_cache(dtype, batch * context, kv_heads * dim);
    Tensor out(dtype, batch * seq, heads * dim, 2);
    const DecodeShape decode{batch, heads, kv_heads, dim, context, window, scale};
    testing::run_on_one_and_three_threads(
        attention_decode_scratch(decode), {&k_cache, &v_cache, &out}, [&](Workers& some) {
          cache_store(some, batch, prefill, context, k_head.view(), k_cache.view());
          cache_store(some, batch, prefill, context, v_head.view(), v_cache.view());
          for (std::int64_t t = prefill; t < seq; ++t) {
            attention_decode(some, decode, t,
                             {token_rows(q, batch, seq, t), token_rows(k, batch, seq, t), token_rows(v, batch, seq, t),
                              k_cache.view(), v_cache.view(), token_rows(out, batch, seq, t)});
          }
        });
    const Values expected = whole.values(), actual = out.values();
    testing::Tolerance tolerance = testing::attention_tolerance(dtype);
    tolerance.absolute += std::exchange(tolerance.of_terms, 0.0);
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int64_t first = (b * seq + prefill) * heads * dim, last = (b + 1) * seq * heads * dim;
      testing::expect_close({actual.begin() + first, actual.begin() + last},
                            {expected.begin() + first, expected.begin() + last}, tolerance);
    }
  }
}

TEST_P(AttentionDecode, FirstTokenIsItsOwnValue) {
  const DType dtype = GetParam();
  Tensor q = Tensor::random(dtype, 1, 8, 1), k = Tensor::random(dtype, 1, 8, 2), v = Tensor::random(dtype, 1, 8, 3);
  Tensor k_cache(dtype, 4, 8), v_cache(dtype, 4, 8), out(dtype, 1, 8);
  const DecodeShape shape{1, 2, 2, 4, 4};
  Workers workers(1);
  workers.reserve(attention_decode_scratch(shape));
  attention_decode(workers, shape, 0, {q.view(), k.view(), v.view(), k_cache.view(), v_cache.view(), out.view()});
  EXPECT_EQ(out.values(), v.values());
}

TEST_P(AttentionDecode, PositionsOutsideTheCacheAreFaults) {
  const DType dtype = GetParam();
  Tensor row = Tensor::random(dtype, 1, 8, 1), cache(dtype, 4, 8);
  Workers workers(1);
  for (std::int64_t position : {-1, 4}) {
    EXPECT_THROW(attention_decode(workers, {1, 2, 2, 4, 4}, position,
                                  {row.view(), row.view(), row.view(), cache.view(), cache.view(), row.view()}),
                 RuntimeFault);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionDecode, testing::both_float_types(), testing::type_name);

}  // namespace
}  // namespace weft::cpu
