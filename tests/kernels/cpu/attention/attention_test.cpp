// Causal attention and its gradient against double precision.
#include "kernels/cpu/attention/attention.h"

#include <gtest/gtest.h>

#include "tests/kernels/reference.h"

namespace weft::cpu {
namespace {

using testing::Tensor;
using testing::Values;

struct AttentionReference {
  const AttentionShape& s;
  std::vector<std::int32_t> document_starts = {};  // of each row; empty: one document a sequence

  std::size_t q_at(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) const {
    return static_cast<std::size_t>(((b * s.seq + t) * s.heads + h) * s.head_dim + d);
  }
  std::size_t kv_at(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) const {
    return static_cast<std::size_t>(((b * s.seq + t) * s.kv_heads + h / (s.heads / s.kv_heads)) * s.head_dim + d);
  }
  std::size_t log_sum_exp_at(std::int64_t b, std::int64_t h, std::int64_t t) const {
    return static_cast<std::size_t>((b * s.heads + h) * s.seq + t);
  }

  double factor() const {
    return s.scale > 0 ? static_cast<double>(s.scale) : 1.0 / std::sqrt(static_cast<double>(s.head_dim));
  }

  // Probabilities of one query row, and their log-sum-exp.
  std::pair<Values, double> row(const Values& q, const Values& k, std::int64_t b, std::int64_t h,
                                std::int64_t t) const {
    Values p(static_cast<std::size_t>(t + 1));
    double top = -1e300, total = 0;
    std::int64_t begin = s.window > 0 ? t - s.window + 1 : 0;
    if (!document_starts.empty()) {
      begin = std::max<std::int64_t>(begin, document_starts[static_cast<std::size_t>(b * s.seq + t)]);
    }
    for (std::int64_t j = 0; j <= t; ++j) {
      if (j < begin) {
        p[static_cast<std::size_t>(j)] = -1e300;
        continue;
      }
      double score = 0;
      for (std::int64_t d = 0; d < s.head_dim; ++d) score += q[q_at(b, t, h, d)] * k[kv_at(b, j, h, d)];
      p[static_cast<std::size_t>(j)] = score * factor();
      top = std::max(top, p[static_cast<std::size_t>(j)]);
    }
    for (double& value : p) total += std::exp(value - top);
    for (double& value : p) value = std::exp(value - top) / total;
    return {p, top + std::log(total)};
  }

  template <class Visit>
  void for_rows(const Visit& visit) const {
    for (std::int64_t b = 0; b < s.batch; ++b) {
      for (std::int64_t h = 0; h < s.heads; ++h) {
        for (std::int64_t t = 0; t < s.seq; ++t) visit(b, h, t);
      }
    }
  }

  std::pair<Values, Values> forward(const Values& q, const Values& k, const Values& v) const {
    Values out(q.size()), log_sum_exp(static_cast<std::size_t>(s.batch * s.heads * s.seq));
    for_rows([&](std::int64_t b, std::int64_t h, std::int64_t t) {
      const auto [p, log_total] = row(q, k, b, h, t);
      log_sum_exp[log_sum_exp_at(b, h, t)] = log_total;
      for (std::int64_t j = 0; j <= t; ++j) {
        for (std::int64_t d = 0; d < s.head_dim; ++d) {
          out[q_at(b, t, h, d)] += p[static_cast<std::size_t>(j)] * v[kv_at(b, j, h, d)];
        }
      }
    });
    return {out, log_sum_exp};
  }

  std::array<Values, 3> backward(const Values& q, const Values& k, const Values& v, const Values& dout) const {
    Values dq(q.size()), dk(k.size()), dv(v.size());
    const double scale = factor();
    for_rows([&](std::int64_t b, std::int64_t h, std::int64_t t) {
      const Values p = row(q, k, b, h, t).first;
      Values dp(p.size());
      double delta = 0;
      for (std::int64_t j = 0; j <= t; ++j) {
        const auto i = static_cast<std::size_t>(j);
        for (std::int64_t d = 0; d < s.head_dim; ++d) {
          dp[i] += dout[q_at(b, t, h, d)] * v[kv_at(b, j, h, d)];
          dv[kv_at(b, j, h, d)] += p[i] * dout[q_at(b, t, h, d)];
        }
        delta += p[i] * dp[i];
      }
      for (std::int64_t j = 0; j <= t; ++j) {
        const auto i = static_cast<std::size_t>(j);
        const double ds = scale * p[i] * (dp[i] - delta);
        for (std::int64_t d = 0; d < s.head_dim; ++d) {
          dq[q_at(b, t, h, d)] += ds * k[kv_at(b, j, h, d)];
          dk[kv_at(b, j, h, d)] += ds * q[q_at(b, t, h, d)];
        }
      }
    });
    return {dq, dk, dv};
  }
};

// q, k and v are column windows of one QKV matrix, as after a fused projection; so are their gradients.
void check(DType dtype, PackedUnit bf16, const AttentionShape& shape, double scale,
           const std::vector<std::int64_t>& documents) {
  SCOPED_TRACE(::testing::Message() << to_string(dtype) << " by " << to_string(bf16) << " batch " << shape.batch
                                    << " seq " << shape.seq << " heads " << shape.heads << "/" << shape.kv_heads
                                    << " dim " << shape.head_dim << " window " << shape.window);
  const std::int64_t rows = shape.batch * shape.seq;
  const std::int64_t q_cols = shape.heads * shape.head_dim, kv_cols = shape.kv_heads * shape.head_dim;
  const std::vector<std::int32_t> starts = testing::starts_of_documents(shape.batch, shape.seq, documents);
  const AttentionReference reference{shape, starts};
  Tensor q_values = Tensor::random(dtype, rows, q_cols, 1, scale);
  Tensor k_values = Tensor::random(dtype, rows, kv_cols, 2, scale), v_values = Tensor::random(dtype, rows, kv_cols, 3);
  const Values q = q_values.values(), k = k_values.values(), v = v_values.values();
  const auto side_by_side = [&](const Values& left, const Values& middle, const Values& right) {
    Values joined;
    for (std::int64_t r = 0; r < rows; ++r) {
      joined.insert(joined.end(), left.begin() + r * q_cols, left.begin() + (r + 1) * q_cols);
      joined.insert(joined.end(), middle.begin() + r * kv_cols, middle.begin() + (r + 1) * kv_cols);
      joined.insert(joined.end(), right.begin() + r * kv_cols, right.begin() + (r + 1) * kv_cols);
    }
    return joined;
  };
  const std::int64_t all_cols = q_cols + 2 * kv_cols;
  Tensor qkv(dtype, rows, all_cols, side_by_side(q, k, v), 3), dqkv(dtype, rows, all_cols, 1);
  Tensor out(dtype, rows, q_cols, 2), log_sum_exp(DType::f32, 1, shape.batch * shape.heads * shape.seq);
  const AttentionTensors tensors{qkv.columns(0, q_cols),
                                 qkv.columns(q_cols, kv_cols),
                                 qkv.columns(q_cols + kv_cols, kv_cols),
                                 out.view(),
                                 log_sum_exp.view(),
                                 starts.empty() ? nullptr : starts.data()};
  testing::run_on_one_and_three_threads(attention_forward_scratch(shape, dtype, bf16), {&out, &log_sum_exp},
                                        [&](Workers& workers) { attention_forward(workers, shape, tensors, bf16); });
  const auto [expected_out, expected_log_sum_exp] = reference.forward(q, k, v);
  Values sizes = v;
  for (double& value : sizes) value = std::abs(value);
  const Values terms = reference.forward(q, k, sizes).first;
  testing::expect_close(out.values(), expected_out, testing::attention_tolerance(dtype, bf16), "out", terms);
  testing::expect_close(log_sum_exp.values(), expected_log_sum_exp, {1e-5, 1e-5}, "lse");

  Tensor dout = Tensor::random(dtype, rows, q_cols, 4, 1.0, 5);
  const AttentionGradients gradients{dout.view(), dqkv.columns(0, q_cols), dqkv.columns(q_cols, kv_cols),
                                     dqkv.columns(q_cols + kv_cols, kv_cols)};
  testing::run_on_one_and_three_threads(attention_backward_scratch(shape, dtype, bf16), {&dqkv}, [&](Workers& workers) {
    attention_backward(workers, shape, tensors, gradients, bf16);
  });
  const auto [dq, dk, dv] = reference.backward(q, k, v, dout.values());
  // bf16: delta is computed from the rounded output, which adds an error of 2⁻⁹ of |dout||out|.
  const double absolute = dtype == DType::bf16 ? 2e-2 * scale : 5e-5;
  testing::expect_close(dqkv.values(), side_by_side(dq, dk, dv), testing::tolerance_of(dtype, absolute), "dqkv");
}

// In fp32, and in bf16 also by the CPU's pairs.
void check(DType dtype, const AttentionShape& shape, double scale = 1.0,
           const std::vector<std::int64_t>& documents = {}) {
  check(dtype, PackedUnit::f32, shape, scale, documents);
  if (dtype == DType::bf16 && has_unit(PackedUnit::pairs)) check(dtype, PackedUnit::pairs, shape, scale, documents);
}

class Attention : public testing::ForFloatTypes {};

TEST_P(Attention, OfAnyShape) {
  const std::vector<AttentionShape> shapes = {
      {2, 1, 2, 2, 8},                                                                // one token
      {1, 2, 2, 2, 16},   {1, 63, 2, 2, 16},  {1, 65, 2, 2, 16}, {1, 130, 2, 2, 16},  // ends within a block
      {2, 128, 2, 2, 32},                                                             // whole blocks
      {2, 70, 6, 2, 16},  {1, 33, 4, 1, 24},                                          // grouped queries
      {1, 67, 3, 3, 13},                                                              // an odd head dimension
      {1, 257, 2, 1, 16}, {40, 17, 1, 1, 16},   // many tiles of keys; one part for each head
      {1, 81, 1, 1, 80},  {1, 70, 2, 2, 128}};  // heads wider than a tile
  for (const AttentionShape& shape : shapes) check(GetParam(), shape);
}
// Windows that end within a tile, at its border, and tiles behind, and windows as long as the sequence.
TEST_P(Attention, Windows) {
  for (std::int64_t window : {1, 2, 40, 64, 65, 100, 200, 500}) check(GetParam(), {1, 200, 2, 1, 16, window});
  check(GetParam(), {2, 130, 4, 2, 24, 63});
}
// Documents that begin within a tile, at its border, at every token, and longer than a sequence.
TEST_P(Attention, Documents) {
  for (const std::vector<std::int64_t>& lengths :
       std::vector<std::vector<std::int64_t>>{{1}, {30}, {64}, {100, 3, 1, 90}, {1000}}) {
    check(GetParam(), {2, 150, 2, 1, 16}, 1.0, lengths);
  }
}
TEST_P(Attention, ScoresByAnotherFactor) {
  for (const float factor : {0.02F, 0.25F})
    check(GetParam(), {.batch = 2, .seq = 70, .heads = 4, .kv_heads = 2, .head_dim = 24, .scale = factor});
}
TEST_P(Attention, DocumentsWithinAWindow) {
  check(GetParam(), {2, 150, 2, 2, 24, 40}, 1.0, {70, 5, 20});
}
TEST_P(Attention, LargeScoresDoNotOverflow) {
  check(GetParam(), {1, 40, 1, 1, 16}, 12.0);
  check(GetParam(), {1, 150, 1, 1, 16, 5}, 12.0);           // outside of a window, too
  check(GetParam(), {1, 150, 1, 1, 16}, 6.0, {60, 7, 50});  // outside of a document
}

INSTANTIATE_TEST_SUITE_P(Types, Attention, testing::both_float_types(), testing::type_name);

}  // namespace
}  // namespace weft::cpu
