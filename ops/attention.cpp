#include "ops/attention.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "ops/collectives.h"
#include "ops/lower.h"
#include "ops/query_key_norms.h"

namespace weft::ops {
namespace {

// With context, a rank attends with the heads of one of `count` groups at a time, whose queries, keys and values, and
// whose results, are one below the other.
struct HeadGroup {
  std::int64_t index = 0, count = 1;

  std::string suffix() const { return count == 1 ? "" : fmt::format(".g{}", index); }
  // These columns in the group's rows.
  graph::View columns(const Lowering& low, graph::TensorId tensor, std::int64_t begin, std::int64_t cols) const {
    graph::View view = low.columns(tensor, begin, cols);
    view.rows /= count;
    view.offset += index * view.rows * view.row_stride;
    return view;
  }
};

Heads heads_in(const Lowering& low, graph::TensorId q_tensor, graph::TensorId kv_tensor, const HeadGroup& group = {}) {
  const LocalHeads local = local_heads(low.model(), low.grid());
  const std::int64_t q = local.heads * low.model().head_dim(), kv = local.kv_heads * low.model().head_dim();
  const std::int64_t begin = q_tensor == kv_tensor ? q : 0;
  return {group.columns(low, q_tensor, 0, q), group.columns(low, kv_tensor, begin, kv),
          group.columns(low, kv_tensor, begin + kv, kv)};
}

graph::TensorId position_state(Lowering& low) {
  return low.named(names::kPosition, DType::i64, {1}, graph::Role::scalar);
}

// The positions of a layer's tokens.
struct Rotation {
  const Sequences& sequences;
  std::int64_t layer;
};

void rotate(Lowering& low, std::string_view what, const graph::View& view, std::int64_t heads, const Rotation& rotation,
            bool inverse) {
  const ModelConfig& model = low.model();
  const Sequences& sequences = rotation.sequences;
  const bool has_offset = sequences.mode == Sequences::Mode::decode;
  graph::Rope rope{sequences.batch * sequences.seq_len, heads, model.head_dim(), sequences.seq_len};
  if (model.rope_local_theta != 0.0F && model.window_of(rotation.layer) > 0) {
    rope.theta = model.rope_local_theta;
  } else {
    rope.theta = model.rope_theta;
    rope.scaling_factor = model.rope_scaling_factor;
    rope.low_freq_factor = model.rope_low_freq_factor;
    rope.high_freq_factor = model.rope_high_freq_factor;
    rope.original_context = model.rope_original_context;
    rope.scaling = model.rope_scaling;
    if (model.rotary_factor() != 1.0F) rope.attention_factor = model.rotary_factor();
    rope.fractional = model.rope_scaling == RopeKind::yarn && !model.rope_truncate;
  }
  rope.inverse = inverse;
  rope.has_offset = has_offset;
  low.emit(what, rope,
           {{"x", graph::read_write(view)},
            {"position", graph::access_if(has_offset, [&] { return low.read(position_state(low)); })}});
}

// One task rotates queries and keys if they are adjacent columns.
void rotate(Lowering& low, const std::string& what, const Heads& heads, const Rotation& rotation, bool inverse) {
  const LocalHeads local = local_heads(low.model(), low.grid());
  if (heads.q.tensor == heads.k.tensor) {
    const std::int64_t both = local.heads + local.kv_heads;
    graph::View adjacent = heads.q;
    adjacent.cols = both * low.model().head_dim();
    rotate(low, what, adjacent, both, rotation, inverse);
    return;
  }
  rotate(low, what + ".q", heads.q, local.heads, rotation, inverse);
  rotate(low, what + ".k", heads.k, local.kv_heads, rotation, inverse);
}

// For key and value heads that several ranks of x share: this rank's copy k | v of its head, taken from the heads of
// the y block. The adjoint puts the head's gradients at the same columns and sums over x.
Value take_shared_head(Lowering& low, const Value& all) {
  const LocalHeads local = local_heads(low.model(), low.grid());
  const std::int64_t size = low.model().head_dim(), rows = all.rows, windows = local.y_kv_heads;
  const Value own{low.activation("kv", rows, 2 * size), rows, 2 * size};
  const auto half = [=](const Lowering& l, graph::TensorId tensor, std::int64_t which, std::int64_t cols) {
    return l.columns(tensor, which * cols, cols);
  };
  const std::array<std::string, 2> names = {"k", "v"};
  for (std::int64_t i = 0; i < 2; ++i) {
    low.emit("take_" + names[static_cast<std::size_t>(i)],
             graph::TakeColumns{rows, size, windows, local.ranks_per_kv_head},
             {{"x", graph::read(half(low, all.tensor, i, windows * size))},
              {"coordinate", coordinate(low, graph::Axis::x)},
              {"out", graph::write(half(low, own.tensor, i, size))}});
  }
  low.record({}, [=](Lowering& l) {
    const graph::TensorId dall = l.activation("dkv_shared", rows, 2 * windows * size), down = l.gradient(own);
    for (std::int64_t i = 0; i < 2; ++i) {
      l.emit("put_d" + names[static_cast<std::size_t>(i)],
             graph::PutColumns{{rows, size, windows, local.ranks_per_kv_head}},
             {{"x", graph::read(half(l, down, i, size))},
              {"coordinate", coordinate(l, graph::Axis::x)},
              {"out", graph::write(half(l, dall, i, windows * size))}});
    }
    all_reduce(l, "all_reduce_dkv", dall, rows * 2 * windows * size, graph::Channel::x);
    l.add_gradient(all, dall);
  });
  return own;
}

}  // namespace

std::vector<LinearOutput> qkv_outputs(const ModelConfig& model, const graph::Grid& grid) {
  const LocalHeads local = local_heads(model, grid);
  const std::int64_t q = local.y_heads * model.head_dim(), kv = 2 * local.y_kv_heads * model.head_dim();
  if (local.kv_shared) return {{q, Cut::columns}, {kv, Cut::none}};
  return {{q + kv, Cut::columns, grid.context}};
}

namespace {

// Stores keys and values in the layer's caches. Decoding attends to them, too.
void attend_to_caches(Lowering& low, const Heads& in, const Sequences& sequences, std::int64_t layer,
                      const HeadGroup& group, const graph::View& out) {
  const ModelConfig& model = low.model();
  const LocalHeads local = local_heads(model, low.grid());
  const std::int64_t batch = sequences.batch, kv = local.kv_heads * model.head_dim();
  const auto cache = [&](const char* name) {
    return low.named(fmt::format("L{}.{}{}", layer, name, group.suffix()), low.dtype(), {batch * model.context, kv},
                     graph::Role::cache);
  };
  const graph::TensorId k_cache = cache("k_cache"), v_cache = cache("v_cache");
  if (sequences.mode == Sequences::Mode::decode) {
    low.emit("attention",
             graph::AttentionDecode{batch, local.heads, local.kv_heads, model.head_dim(), model.context,
                                    model.window_of(layer), model.attention_scale},
             {{"q", graph::read(in.q)},
              {"k", graph::read(in.k)},
              {"v", graph::read(in.v)},
              {"k_cache", low.read_write(k_cache)},
              {"v_cache", low.read_write(v_cache)},
              {"position", low.read(position_state(low))},
              {"out", graph::write(out)}});
    return;
  }
  low.emit("cache_k", graph::CacheStore{batch, sequences.seq_len, kv, model.context},
           {{"x", graph::read(in.k)}, {"cache", low.read_write(k_cache)}});
  low.emit("cache_v", graph::CacheStore{batch, sequences.seq_len, kv, model.context},
           {{"x", graph::read(in.v)}, {"cache", low.read_write(v_cache)}});
}

// Attention within the sequences of this pass; returns the sums of exponentials, which the backward pass reads.
graph::TensorId attend_forward(Lowering& low, const Heads& in, const Sequences& sequences,
                               const graph::AttentionSize& size, const graph::View& out) {
  const graph::TensorId log_sum_exp =
      low.scratch("lse", DType::f32, {size.batch * size.heads * size.seq}, graph::Role::activation);
  low.emit(
      "attention", graph::AttentionForward{size},
      {{"q", graph::read(in.q)},
       {"k", graph::read(in.k)},
       {"v", graph::read(in.v)},
       {"document_starts", graph::access_if(size.documents, [&] { return graph::read(*sequences.document_starts); })},
       {"out", graph::write(out)},
       {"log_sum_exp", low.write(log_sum_exp)}});
  return log_sum_exp;
}

graph::AttentionSize size_of_attention(const Lowering& low, const Sequences& sequences, std::int64_t layer) {
  const ModelConfig& model = low.model();
  const LocalHeads local = local_heads(model, low.grid());
  return {sequences.batch,
          sequences.seq_len,
          local.heads,
          local.kv_heads,
          model.head_dim(),
          model.window_of(layer),
          sequences.document_starts.has_value(),
          model.attention_scale};
}

// Of whole sequences.
Value attend(Lowering& low, const std::vector<Value>& qkv, const Sequences& sequences, std::int64_t layer) {
  const graph::AttentionSize size = size_of_attention(low, sequences, layer);
  const std::int64_t rows = qkv.front().rows, cols = size.heads * size.head_dim;
  const bool rotary = low.model().rotates(layer);
  const Value queries = qkv.front();
  const Value keys = local_heads(low.model(), low.grid()).kv_shared ? take_shared_head(low, qkv.back()) : queries;
  const Heads projected = heads_in(low, queries.tensor, keys.tensor);
  const bool normed = low.model().query_key_norm() != QueryKeyNorm::none;
  const QueryKeyNorms norms = normed ? normalize(low, projected, rows, layer) : QueryKeyNorms{};
  const Heads in = normed ? norms.normed : projected;
  if (rotary) rotate(low, "rope", in, {sequences, layer}, false);

  const Value out{low.activation("out", rows, cols), rows, cols};
  if (sequences.mode != Sequences::Mode::training) {
    attend_to_caches(low, in, sequences, layer, {}, low.view(out.tensor));
    if (sequences.mode == Sequences::Mode::decode) return out;
  }
  const graph::TensorId log_sum_exp = attend_forward(low, in, sequences, size, low.view(out.tensor));
  low.record({norms.q.weight, norms.k.weight}, [=](Lowering& l) {
    const bool packed = queries.tensor == keys.tensor;
    const graph::TensorId dq = l.activation(packed ? "dqkv" : "dq", rows, queries.cols);
    const graph::TensorId dkv = packed ? dq : l.activation("dkv", rows, keys.cols);
    const Heads projected_grad = heads_in(l, dq, dkv);
    const Heads grad = normed ? beside(l, "dqk", projected_grad, rows) : projected_grad;
    l.emit(
        "attention_dqkv", graph::AttentionBackward{size},
        {{"q", graph::read(in.q)},
         {"k", graph::read(in.k)},
         {"v", graph::read(in.v)},
         {"document_starts", graph::access_if(size.documents, [&] { return graph::read(*sequences.document_starts); })},
         {"out", l.read(out.tensor)},
         {"log_sum_exp", l.read(log_sum_exp)},
         {"dout", l.read(l.gradient(out))},
         {"dq", graph::write(grad.q)},
         {"dk", graph::write(grad.k)},
         {"dv", graph::write(grad.v)}});
    if (rotary) rotate(l, "rope_dqkv", grad, {sequences, layer}, true);
    if (normed) differentiate(l, norms, projected, grad, projected_grad, rows);
    l.add_gradient(queries, dq);
    if (!packed) l.add_gradient(keys, dkv);
  });
  return out;
}

// Of text that is generated, where every rank of context has all rows, and so attends with the heads of all groups in
// turn.
Value attend_with_all_groups(Lowering& low, const Value& qkv, const Sequences& sequences, std::int64_t layer) {
  const graph::AttentionSize size = size_of_attention(low, sequences, layer);
  const std::int64_t groups = low.grid().context, cols = size.heads * size.head_dim;
  const Value out{low.activation("out", qkv.rows, cols), qkv.rows, cols};
  for (std::int64_t index = 0; index < groups; ++index) {
    const HeadGroup group{index, groups};
    const auto scope = low.enter(fmt::format("g{}", index));
    const Heads projected = heads_in(low, qkv.tensor, qkv.tensor, group);
    const bool normed = low.model().query_key_norm() != QueryKeyNorm::none;
    const Heads in = normed ? normalize(low, projected, qkv.rows / groups, layer).normed : projected;
    if (low.model().rotates(layer)) rotate(low, "rope", in, {sequences, layer}, false);
    const graph::View own = group.columns(low, out.tensor, 0, cols);
    attend_to_caches(low, in, sequences, layer, group, own);
    if (sequences.mode == Sequences::Mode::prefill) attend_forward(low, in, sequences, size, own);
  }
  return out;
}

}  // namespace

Value attention(Lowering& low, const std::vector<Value>& qkv, const Sequences& sequences, std::int64_t layer) {
  if (low.grid().context == 1) return attend(low, qkv, sequences, layer);
  if (sequences.mode != Sequences::Mode::training) return attend_with_all_groups(low, qkv.front(), sequences, layer);
  const auto exchange = [&](const char* what, const Value& x, bool inverse) {
    return all_to_all(low, what, x, sequences.batch, inverse, graph::Channel::context);
  };
  const Value whole = exchange("all_to_all_qkv", qkv.front(), false);
  return exchange("all_to_all_out", attend(low, {whole}, sequences, layer), true);
}

}  // namespace weft::ops
