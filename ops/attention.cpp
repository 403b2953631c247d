#include "ops/attention.h"

#include <fmt/format.h>

#include "ops/lower.h"

namespace weft {
namespace {

struct Packed {
  View q, k, v;
};

Packed unpack(const Lowering& low, TensorId tensor) {
  const ModelConfig& model = low.model();
  const std::int64_t q = model.heads * model.head_dim(), kv = model.kv_heads * model.head_dim();
  return {low.columns(tensor, 0, q), low.columns(tensor, q, kv), low.columns(tensor, q + kv, kv)};
}

TensorId position_state(Lowering& low) {
  return low.named(names::kPosition, DType::i64, {1}, Role::scalar);
}

// Queries and keys stand side by side, so one task turns both.
void rotate(Lowering& low, std::string_view what, TensorId tensor, std::int64_t rows, const Sequences& sequences,
            bool inverse) {
  const ModelConfig& model = low.model();
  const std::int64_t heads = model.heads + model.kv_heads;
  const bool has_offset = sequences.mode == Sequences::Mode::decode;
  Rope rope{rows, heads, model.head_dim(), sequences.seq_len};
  rope.theta = model.rope_theta;
  rope.scaling_factor = model.rope_scaling_factor;
  rope.low_freq_factor = model.rope_low_freq_factor;
  rope.high_freq_factor = model.rope_high_freq_factor;
  rope.original_context = model.rope_original_context;
  rope.inverse = inverse;
  rope.has_offset = has_offset;
  std::vector<Access> accesses = {{low.columns(tensor, 0, heads * model.head_dim()), AccessMode::read_write}};
  if (has_offset) accesses.push_back(low.read(position_state(low)));
  low.emit(what, rope, std::move(accesses));
}

}  // namespace

Value attention(Lowering& low, Value qkv, const Sequences& sequences, std::int64_t layer) {
  const ModelConfig& model = low.model();
  const std::int64_t batch = sequences.batch, seq = sequences.seq_len, rows = qkv.rows;
  const std::int64_t heads = model.heads, kv_heads = model.kv_heads, head_dim = model.head_dim();
  const bool rotary = model.family == Family::llama;
  if (rotary) rotate(low, "rope", qkv.tensor, rows, sequences, false);

  const auto [q, k, v] = unpack(low, qkv.tensor);
  const Value out{low.activation("out", rows, heads * head_dim), rows, heads * head_dim};
  if (sequences.mode != Sequences::Mode::training) {
    const std::int64_t kv = kv_heads * head_dim;
    const auto cache = [&](const char* name) {
      return low.named(fmt::format("L{}.{}", layer, name), low.dtype(), {batch * model.context, kv}, Role::cache);
    };
    const TensorId k_cache = cache("k_cache"), v_cache = cache("v_cache");
    if (sequences.mode == Sequences::Mode::decode) {
      low.emit("attention", AttentionDecode{batch, heads, kv_heads, head_dim, model.context},
               {read(q), read(k), read(v), low.read_write(k_cache), low.read_write(v_cache),
                low.read(position_state(low)), low.write(out.tensor)});
      return out;
    }
    low.emit("cache_k", CacheStore{batch, seq, kv, model.context}, {read(k), low.read_write(k_cache)});
    low.emit("cache_v", CacheStore{batch, seq, kv, model.context}, {read(v), low.read_write(v_cache)});
  }

  const TensorId lse = low.scratch("lse", DType::f32, {batch * heads * seq}, Role::activation);
  low.emit("attention", AttentionForward{batch, seq, heads, kv_heads, head_dim},
           {read(q), read(k), read(v), low.write(out.tensor), low.write(lse)});
  low.record({}, [=](Lowering& l) {
    const TensorId dqkv = l.activation("dqkv", rows, qkv.cols);
    const Packed in = unpack(l, qkv.tensor), grad = unpack(l, dqkv);
    l.emit("attention_dqkv", AttentionBackward{batch, seq, heads, kv_heads, head_dim},
           {read(in.q), read(in.k), read(in.v), l.read(out.tensor), l.read(lse), l.read(l.gradient(out)), write(grad.q),
            write(grad.k), write(grad.v)});
    if (rotary) rotate(l, "rope_dqkv", dqkv, rows, sequences, true);
    l.add_gradient(qkv, dqkv);
  });
  return out;
}

}  // namespace weft
