// Everything derived from a schema exists, and the names in files and fingerprints don't change.
#include "graph/operations/schema.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "graph/operation.h"
#include "graph/task_signature.h"
#include "inspect/drawing/colors.h"
#include "tests/graph/every_operation.h"

namespace weft::graph {
namespace {

using testing::every_operation;

/// Calls f(Op{}) for every alternative of Operation.
template <class F>
void for_each_operation(F&& f) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (f(std::variant_alternative_t<I, OperationVariant>{}), ...);
  }
  (std::make_index_sequence<std::variant_size_v<OperationVariant>>());
}

Graph graph_of_every_operation() {
  GraphBuilder builder;
  int number = 0;
  for (const Operation& operation : every_operation()) {
    const std::string name = fmt::format("t{}", number);
    testing::task_of_schema(name, operation, number % 2 == 0 ? DType::f32 : DType::bf16).add_to(builder);
    ++number;
  }
  return std::move(builder).build();
}

std::string golden_lines(const Graph& graph, const Task& task) {
  std::string fields;
  for_each_field(task.operation, [&]<class T>(std::string_view name, const T& value) {
    if constexpr (std::is_enum_v<T>) {
      fields += fmt::format("{}={} ", name, to_string(value));
    } else {
      fields += fmt::format("{}={} ", name, value);
    }
  });
  const Work work = work_of(task.operation, 2);
  return fmt::format("{}: {}| {}\n  {} flops, {} bytes, {} sent, {}\n", kind_name(task.operation), fields,
                     task_signature(graph, task), work.flops, work.bytes, work.network_bytes,
                     inspect::style_of(task.operation).name);
}

std::set<std::string_view> present_names(const Operation& operation) {
  return with_arguments(operation, [](std::span<const ArgumentSchema> rows) {
    std::set<std::string_view> names;
    for (const ArgumentSchema& row : rows) {
      if (row.present) names.insert(row.name);
    }
    return names;
  });
}

// Of every_operation(), with elements of 2 bytes, as existing files have them. A new operation adds its lines and
// changes the fingerprint; existing lines must not change.
constexpr std::uint64_t kOperationsFingerprint = 0xdd83c8944a457d79;
constexpr std::string_view kOperationsGolden =
    R"(gemm: m=2 n=3 k=5 trans_a=false trans_b=false accumulate=false has_bias=false | gemm m=2 n=3 k=5 f32
  60 flops, 62 bytes, 0 sent, GEMM
gemm: m=2 n=3 k=5 trans_a=true trans_b=true accumulate=true has_bias=true packed_b=true | gemm m=2 n=3 k=5 trans_a trans_b accumulate has_bias packed_b bf16
  60 flops, 104 bytes, 0 sent, GEMM
gemm: m=2 n=3 k=5 trans_a=false trans_b=true accumulate=false has_bias=true epilogue=gelu | gemm m=2 n=3 k=5 trans_b has_bias epilogue=gelu f32
  132 flops, 74 bytes, 0 sent, GEMM
gemm: m=2 n=3 k=5 trans_a=false trans_b=false accumulate=false has_bias=false packed_b=true epilogue=gelu_gradient | gemm m=2 n=3 k=5 packed_b epilogue=gelu_gradient bf16
  180 flops, 104 bytes, 0 sent, GEMM
pack_weight: n=3 k=5 trans_b=false | pack_weight n=3 k=5 f32
  0 flops, 90 bytes, 0 sent, copy, broadcast
pack_weight: n=3 k=5 trans_b=true | pack_weight n=3 k=5 trans_b bf16
  0 flops, 90 bytes, 0 sent, copy, broadcast
bias_gradient: rows=2 cols=3 accumulate=false | bias_gradient rows=2 cols=3 f32
  6 flops, 12 bytes, 0 sent, elementwise
bias_gradient: rows=2 cols=3 accumulate=true | bias_gradient rows=2 cols=3 accumulate bf16
  6 flops, 12 bytes, 0 sent, elementwise
add_bias: rows=2 cols=3 | add_bias rows=2 cols=3 f32
  6 flops, 24 bytes, 0 sent, elementwise
layer_norm: rows=2 cols=3 eps=1e-05 | layer_norm rows=2 cols=3 bf16
  48 flops, 24 bytes, 0 sent, elementwise
layer_norm_backward: rows=2 cols=3 residual=false accumulate=false | layer_norm_backward rows=2 cols=3 f32
  84 flops, 36 bytes, 0 sent, elementwise
layer_norm_backward: rows=2 cols=3 residual=true accumulate=true | layer_norm_backward rows=2 cols=3 residual accumulate bf16
  84 flops, 48 bytes, 0 sent, elementwise
rms_norm: rows=2 cols=3 eps=1e-06 | rms_norm rows=2 cols=3 f32
  30 flops, 24 bytes, 0 sent, elementwise
rms_norm_backward: rows=2 cols=3 residual=false accumulate=false | rms_norm_backward rows=2 cols=3 bf16
  60 flops, 36 bytes, 0 sent, elementwise
rms_norm_backward: rows=2 cols=3 residual=true accumulate=true | rms_norm_backward rows=2 cols=3 residual accumulate f32
  60 flops, 48 bytes, 0 sent, elementwise
norm_statistics: rows=2 cols=3 centered=false | norm_statistics rows=2 cols=3 bf16
  12 flops, 12 bytes, 0 sent, elementwise
norm_statistics: rows=2 cols=3 centered=true | norm_statistics rows=2 cols=3 centered f32
  24 flops, 12 bytes, 0 sent, elementwise
norm_of_parts: rows=2 cols=3 parts=4 eps=1e-05 centered=false | norm_of_parts rows=2 cols=3 parts=4 bf16
  12 flops, 24 bytes, 0 sent, elementwise
norm_of_parts: rows=2 cols=3 parts=4 eps=1e-05 centered=true | norm_of_parts rows=2 cols=3 parts=4 centered f32
  24 flops, 24 bytes, 0 sent, elementwise
norm_backward_sums: rows=2 cols=3 centered=false | norm_backward_sums rows=2 cols=3 bf16
  24 flops, 24 bytes, 0 sent, elementwise
norm_backward_sums: rows=2 cols=3 centered=true | norm_backward_sums rows=2 cols=3 centered f32
  36 flops, 24 bytes, 0 sent, elementwise
norm_backward_of_parts: rows=2 cols=3 residual=false accumulate=false parts=4 centered=false | norm_backward_of_parts rows=2 cols=3 parts=4 bf16
  42 flops, 36 bytes, 0 sent, elementwise
norm_backward_of_parts: rows=2 cols=3 residual=true accumulate=true parts=4 centered=true | norm_backward_of_parts rows=2 cols=3 residual accumulate parts=4 centered f32
  60 flops, 48 bytes, 0 sent, elementwise
take_columns: rows=2 cols=3 windows=4 ranks_per_window=2 | take_columns rows=2 cols=3 windows=4 ranks_per_window=2 bf16
  0 flops, 24 bytes, 0 sent, copy, broadcast
put_columns: rows=2 cols=3 windows=4 ranks_per_window=2 | put_columns rows=2 cols=3 windows=4 ranks_per_window=2 f32
  0 flops, 60 bytes, 0 sent, copy, broadcast
embedding: rows=6 cols=4 vocab=11 seq_len=3 positions=false has_offset=false sharded=false | embedding rows=6 cols=4 vocab=11 seq_len=3 bf16
  24 flops, 144 bytes, 0 sent, elementwise
embedding: rows=6 cols=4 vocab=11 seq_len=3 positions=true has_offset=true sharded=true | embedding rows=6 cols=4 vocab=11 seq_len=3 positions has_offset sharded f32
  24 flops, 144 bytes, 0 sent, elementwise
embedding_backward: rows=6 cols=4 vocab=11 accumulate=false sharded=false | embedding_backward rows=6 cols=4 vocab=11 bf16
  24 flops, 416 bytes, 0 sent, elementwise
embedding_backward: rows=6 cols=4 vocab=11 accumulate=true sharded=true | embedding_backward rows=6 cols=4 vocab=11 accumulate sharded f32
  24 flops, 240 bytes, 0 sent, elementwise
position_backward: rows=6 cols=4 seq_len=3 context=8 accumulate=false | position_backward rows=6 cols=4 seq_len=3 context=8 bf16
  24 flops, 176 bytes, 0 sent, elementwise
position_backward: rows=6 cols=4 seq_len=3 context=8 accumulate=true | position_backward rows=6 cols=4 seq_len=3 context=8 accumulate f32
  24 flops, 176 bytes, 0 sent, elementwise
rope: rows=6 heads=2 head_dim=4 seq_len=3 theta=10000 scaling_factor=1 low_freq_factor=1 high_freq_factor=4 original_context=8192 inverse=false has_offset=false | rope rows=6 heads=2 head_dim=4 seq_len=3 bf16
  144 flops, 192 bytes, 0 sent, elementwise
rope: rows=6 heads=2 head_dim=4 seq_len=3 theta=500000 scaling_factor=8 low_freq_factor=1 high_freq_factor=4 original_context=8192 inverse=true has_offset=true | rope rows=6 heads=2 head_dim=4 seq_len=3 inverse has_offset f32
  144 flops, 192 bytes, 0 sent, elementwise
attention: batch=2 seq=3 heads=4 kv_heads=2 head_dim=8 | attention batch=2 seq=3 heads=4 kv_heads=2 head_dim=8 bf16
  1536 flops, 1152 bytes, 0 sent, attention
attention_backward: batch=2 seq=3 heads=4 kv_heads=2 head_dim=8 | attention_backward batch=2 seq=3 heads=4 kv_heads=2 head_dim=8 f32
  3840 flops, 2304 bytes, 0 sent, attention
cache_store: batch=2 seq=3 cols=4 context=8 | cache_store batch=2 seq=3 cols=4 context=8 bf16
  0 flops, 96 bytes, 0 sent, copy, broadcast
attention_decode: batch=2 heads=4 kv_heads=2 head_dim=8 context=16 | attention_decode batch=2 heads=4 kv_heads=2 head_dim=8 context=16 f32
  4096 flops, 2048 bytes, 0 sent, attention
gelu: n=7 | gelu n=7 bf16
  84 flops, 28 bytes, 0 sent, elementwise
gelu_backward: n=7 | gelu_backward n=7 f32
  140 flops, 42 bytes, 0 sent, elementwise
swiglu: rows=2 cols=3 | swiglu rows=2 cols=3 bf16
  60 flops, 36 bytes, 0 sent, elementwise
swiglu_backward: rows=2 cols=3 | swiglu_backward rows=2 cols=3 f32
  108 flops, 60 bytes, 0 sent, elementwise
add: n=7 | add n=7 bf16
  7 flops, 42 bytes, 0 sent, elementwise
cast: n=7 | cast n=7 f32
  7 flops, 42 bytes, 0 sent, copy, broadcast
dropout: rows=2 cols=3 row_offset=0 p=0.1 site=0 residual=false parts=1 | dropout rows=2 cols=3 parts=1 bf16
  180 flops, 24 bytes, 0 sent, elementwise
dropout: rows=2 cols=3 row_offset=4 p=0.25 site=9 residual=true parts=2 | dropout rows=2 cols=3 residual parts=2 f32
  180 flops, 36 bytes, 0 sent, elementwise
cross_entropy: rows=2 vocab=11 padded=12 gradient=false | cross_entropy rows=2 vocab=11 padded=12 bf16
  288 flops, 48 bytes, 0 sent, elementwise
cross_entropy: rows=2 vocab=11 padded=12 gradient=true | cross_entropy rows=2 vocab=11 padded=12 gradient f32
  288 flops, 144 bytes, 0 sent, elementwise
vocab_statistics: rows=2 cols=6 vocab=11 | vocab_statistics rows=2 cols=6 vocab=11 bf16
  72 flops, 24 bytes, 0 sent, elementwise
vocab_cross_entropy: rows=2 cols=6 vocab=11 parts=2 gradient=false | vocab_cross_entropy rows=2 cols=6 vocab=11 parts=2 f32
  2 flops, 0 bytes, 0 sent, elementwise
vocab_cross_entropy: rows=2 cols=6 vocab=11 parts=2 gradient=true | vocab_cross_entropy rows=2 cols=6 vocab=11 parts=2 gradient bf16
  72 flops, 48 bytes, 0 sent, elementwise
loss_sum: rows=2 accumulate=false owned=false | loss_sum rows=2 f32
  2 flops, 16 bytes, 0 sent, elementwise
loss_sum: rows=2 accumulate=true owned=true | loss_sum rows=2 accumulate owned f32
  2 flops, 16 bytes, 0 sent, elementwise
sum_squares: n=7 owned=false | sum_squares n=7 f32
  14 flops, 28 bytes, 0 sent, optimizer
sum_squares: n=7 owned=true | sum_squares n=7 owned f32
  14 flops, 28 bytes, 0 sent, optimizer
clip_factor: count=4 max_norm=1 | clip_factor count=4 f32
  8 flops, 16 bytes, 0 sent, optimizer
adamw: n=7 beta1=0.9 beta2=0.95 eps=1e-08 weight_decay=0.1 has_master=false | adamw n=7 bf16
  105 flops, 196 bytes, 0 sent, optimizer
adamw: n=7 beta1=0.9 beta2=0.95 eps=1e-08 weight_decay=0.1 has_master=true | adamw n=7 has_master f32
  105 flops, 224 bytes, 0 sent, optimizer
select_row: rows=2 cols=3 | select_row rows=2 cols=3 bf16
  0 flops, 12 bytes, 0 sent, copy, broadcast
all_reduce: channel=data ranks=4 count=10 | all_reduce channel=data ranks=4 count=10 f32
  10 flops, 60 bytes, 30 sent, all-reduce
reduce_scatter: channel=z_scatter ranks=4 count=10 | reduce_scatter channel=z_scatter ranks=4 count=10 bf16
  40 flops, 100 bytes, 60 sent, reduce-scatter
all_gather: channel=z_gather ranks=4 count=10 | all_gather channel=z_gather ranks=4 count=10 f32
  0 flops, 100 bytes, 60 sent, all-gather
broadcast: channel=world ranks=4 count=10 root=3 | broadcast channel=world ranks=4 count=10 root=3 bf16
  0 flops, 40 bytes, 20 sent, copy, broadcast
send: channel=send_next message=5 count=10 | send channel=send_next count=10 f32
  0 flops, 20 bytes, 20 sent, copy, broadcast
receive: channel=receive_previous message=5 count=10 | receive channel=receive_previous count=10 bf16
  0 flops, 20 bytes, 0 sent, copy, broadcast
head_norm: rows=2 heads=3 head_dim=4 eps=1e-06 | head_norm rows=2 heads=3 head_dim=4 f32
  120 flops, 96 bytes, 0 sent, elementwise
head_norm_backward: rows=2 heads=3 head_dim=4 accumulate=false | head_norm_backward rows=2 heads=3 head_dim=4 bf16
  240 flops, 144 bytes, 0 sent, elementwise
head_norm_backward: rows=2 heads=3 head_dim=4 accumulate=true | head_norm_backward rows=2 heads=3 head_dim=4 accumulate f32
  240 flops, 144 bytes, 0 sent, elementwise
rope: rows=6 heads=2 head_dim=4 seq_len=3 theta=500000 scaling_factor=8 low_freq_factor=1 high_freq_factor=4 original_context=8192 inverse=true has_offset=true scaling=yarn attention_factor=1.25 fractional=true | rope rows=6 heads=2 head_dim=4 seq_len=3 inverse has_offset scaling=yarn fractional bf16
  144 flops, 192 bytes, 0 sent, elementwise
attention: batch=2 seq=3 heads=4 kv_heads=2 head_dim=8 window=2 | attention batch=2 seq=3 heads=4 kv_heads=2 head_dim=8 window=2 f32
  1280 flops, 1152 bytes, 0 sent, attention
attention_backward: batch=2 seq=3 heads=4 kv_heads=2 head_dim=8 window=2 | attention_backward batch=2 seq=3 heads=4 kv_heads=2 head_dim=8 window=2 bf16
  3200 flops, 2304 bytes, 0 sent, attention
attention_decode: batch=2 heads=4 kv_heads=2 head_dim=8 context=16 window=6 | attention_decode batch=2 heads=4 kv_heads=2 head_dim=8 context=16 window=6 f32
  1536 flops, 768 bytes, 0 sent, attention
attention: batch=2 seq=3 heads=4 kv_heads=2 head_dim=8 documents=true | attention batch=2 seq=3 heads=4 kv_heads=2 head_dim=8 documents bf16
  1536 flops, 1152 bytes, 0 sent, attention
attention_backward: batch=2 seq=3 heads=4 kv_heads=2 head_dim=8 window=2 documents=true | attention_backward batch=2 seq=3 heads=4 kv_heads=2 head_dim=8 window=2 documents f32
  3200 flops, 2304 bytes, 0 sent, attention
scale: n=7 factor=0.5 | scale n=7 bf16
  7 flops, 28 bytes, 0 sent, elementwise
zero: n=7 | zero n=7 f32
  0 flops, 14 bytes, 0 sent, elementwise
geglu: rows=2 cols=3 | geglu rows=2 cols=3 bf16
  78 flops, 36 bytes, 0 sent, elementwise
geglu_backward: rows=2 cols=3 | geglu_backward rows=2 cols=3 f32
  192 flops, 60 bytes, 0 sent, elementwise
add_constant: n=7 value=1 | add_constant n=7 bf16
  7 flops, 28 bytes, 0 sent, elementwise
put_columns: rows=2 cols=3 windows=4 ranks_per_window=2 accumulate=true | put_columns rows=2 cols=3 windows=4 ranks_per_window=2 accumulate f32
  0 flops, 60 bytes, 0 sent, copy, broadcast
attention: batch=2 seq=3 heads=4 kv_heads=2 head_dim=8 scale=0.5 | attention batch=2 seq=3 heads=4 kv_heads=2 head_dim=8 bf16
  1536 flops, 1152 bytes, 0 sent, attention
attention_backward: batch=2 seq=3 heads=4 kv_heads=2 head_dim=8 window=2 scale=0.5 | attention_backward batch=2 seq=3 heads=4 kv_heads=2 head_dim=8 window=2 f32
  3200 flops, 2304 bytes, 0 sent, attention
attention_decode: batch=2 heads=4 kv_heads=2 head_dim=8 context=16 scale=0.5 | attention_decode batch=2 heads=4 kv_heads=2 head_dim=8 context=16 bf16
  4096 flops, 2048 bytes, 0 sent, attention
route: rows=5 experts=4 choices=2 | route rows=5 experts=4 choices=2 f32
  280 flops, 160 bytes, 0 sent, elementwise
route: rows=5 experts=4 choices=2 normalise=true | route rows=5 experts=4 choices=2 normalise f32
  280 flops, 160 bytes, 0 sent, elementwise
route_backward: rows=5 experts=4 choices=2 | route_backward rows=5 experts=4 choices=2 f32
  320 flops, 200 bytes, 0 sent, elementwise
route_backward: rows=5 experts=4 choices=2 normalise=true | route_backward rows=5 experts=4 choices=2 normalise f32
  320 flops, 200 bytes, 0 sent, elementwise
sort_by_expert: rows=5 experts=4 choices=2 | sort_by_expert rows=5 experts=4 choices=2 f32
  0 flops, 136 bytes, 0 sent, copy, broadcast
gather_rows: rows=5 choices=2 cols=3 | gather_rows rows=5 choices=2 cols=3 bf16
  0 flops, 120 bytes, 0 sent, copy, broadcast
combine_rows: rows=5 choices=2 cols=3 weighted=false | combine_rows rows=5 choices=2 cols=3 f32
  30 flops, 90 bytes, 0 sent, elementwise
combine_rows: rows=5 choices=2 cols=3 weighted=true | combine_rows rows=5 choices=2 cols=3 weighted bf16
  60 flops, 90 bytes, 0 sent, elementwise
combine_rows_backward: rows=5 choices=2 cols=3 | combine_rows_backward rows=5 choices=2 cols=3 f32
  90 flops, 150 bytes, 0 sent, elementwise
grouped_gemm: rows=10 n=3 k=6 groups=4 trans_b=false | grouped_gemm rows=10 n=3 k=6 groups=4 bf16
  360 flops, 324 bytes, 0 sent, GEMM
grouped_gemm: rows=10 n=3 k=6 groups=4 trans_b=true | grouped_gemm rows=10 n=3 k=6 groups=4 trans_b f32
  360 flops, 324 bytes, 0 sent, GEMM
grouped_gemm_gradient: rows=10 m=3 n=6 groups=4 accumulate=false | grouped_gemm_gradient rows=10 m=3 n=6 groups=4 bf16
  360 flops, 468 bytes, 0 sent, GEMM
grouped_gemm_gradient: rows=10 m=3 n=6 groups=4 accumulate=true | grouped_gemm_gradient rows=10 m=3 n=6 groups=4 accumulate f32
  360 flops, 756 bytes, 0 sent, GEMM
all_to_all: channel=context ranks=4 count=10 parts=1 inverse=false | all_to_all channel=context ranks=4 count=10 parts=1 bf16
  0 flops, 160 bytes, 60 sent, all-to-all, row exchange
all_to_all: channel=context ranks=4 count=10 parts=3 inverse=true | all_to_all channel=context ranks=4 count=10 parts=3 f32
  0 flops, 480 bytes, 180 sent, all-to-all, row exchange
dropout: rows=2 cols=3 row_offset=4 p=0.25 site=9 residual=false parts=1 seq=2 stride=8 | dropout rows=2 cols=3 parts=1 bf16
  180 flops, 24 bytes, 0 sent, elementwise
position_backward: rows=6 cols=4 seq_len=3 context=8 accumulate=false has_offset=true | position_backward rows=6 cols=4 seq_len=3 context=8 has_offset f32
  24 flops, 176 bytes, 0 sent, elementwise
offsets_of_rank: ranks=2 experts=3 | offsets_of_rank ranks=2 experts=3 f32
  0 flops, 48 bytes, 0 sent, copy, broadcast
grouped_gemm: rows=20 n=3 k=6 groups=2 trans_b=true expected=10 | grouped_gemm rows=20 n=3 k=6 groups=2 trans_b expected=10 f32
  360 flops, 252 bytes, 0 sent, GEMM
grouped_gemm_gradient: rows=20 m=3 n=6 groups=2 accumulate=false expected=10 | grouped_gemm_gradient rows=20 m=3 n=6 groups=2 expected=10 bf16
  360 flops, 324 bytes, 0 sent, GEMM
swiglu: rows=4 cols=3 groups=2 expected=2 | swiglu rows=4 cols=3 groups=2 expected=2 f32
  60 flops, 36 bytes, 0 sent, elementwise
swiglu_backward: rows=4 cols=3 groups=2 expected=2 | swiglu_backward rows=4 cols=3 groups=2 expected=2 bf16
  108 flops, 60 bytes, 0 sent, elementwise
exchange_rows: channel=expert ranks=2 count=3 rows=10 most=20 experts=4 inverse=false | exchange_rows channel=expert ranks=2 count=3 rows=10 most=20 experts=4 f32
  0 flops, 120 bytes, 30 sent, all-to-all, row exchange
exchange_rows: channel=expert ranks=2 count=3 rows=10 most=20 experts=4 inverse=true | exchange_rows channel=expert ranks=2 count=3 rows=10 most=20 experts=4 bf16
  0 flops, 120 bytes, 30 sent, all-to-all, row exchange
route: rows=5 experts=4 choices=2 given=true | route rows=5 experts=4 choices=2 given f32
  280 flops, 160 bytes, 0 sent, elementwise
count_choices: rows=5 experts=4 choices=2 | count_choices rows=5 experts=4 choices=2 f32
  40 flops, 152 bytes, 0 sent, elementwise
adamw: n=7 beta1=0.9 beta2=0.95 eps=1e-08 weight_decay=0.1 has_master=true unclipped=true | adamw n=7 has_master f32
  105 flops, 224 bytes, 0 sent, optimizer
gemm: m=2 n=3 k=5 trans_a=false trans_b=true accumulate=false has_bias=true epilogue=add | gemm m=2 n=3 k=5 trans_b has_bias epilogue=add bf16
  66 flops, 74 bytes, 0 sent, GEMM
gemm: m=2 n=3 k=5 trans_a=true trans_b=false accumulate=false has_bias=false epilogue=bias_gradient | gemm m=2 n=3 k=5 trans_a epilogue=bias_gradient f32
  70 flops, 62 bytes, 0 sent, GEMM
gemm: m=2 n=3 k=5 trans_a=true trans_b=false accumulate=true has_bias=false epilogue=bias_gradient | gemm m=2 n=3 k=5 trans_a accumulate epilogue=bias_gradient bf16
  70 flops, 74 bytes, 0 sent, GEMM
)";

// Kinds, fields, signatures and fingerprints are in plan files, profiles and machine files. Renaming something in C++
// must not rename them.
TEST(Schema, WhatFilesKnowStaysAsItIs) {
  const Graph graph = graph_of_every_operation();
  std::string text;
  for (const Task& task : graph.tasks()) text += golden_lines(graph, task);
  EXPECT_EQ(text, kOperationsGolden);
  EXPECT_EQ(graph.fingerprint(), kOperationsFingerprint);
}

TEST(Schema, EveryOperationIsAmongTheSamples) {
  std::set<std::size_t> sampled;
  for (const Operation& operation : every_operation()) sampled.insert(operation.index());
  EXPECT_EQ(sampled.size() + 1, std::variant_size_v<OperationVariant>);  // Opaque has no schema to sample
}

TEST(Schema, KindsAreUniqueAndNamesWithinAnOperation) {
  std::set<std::string_view> kinds;
  for_each_operation([&](const auto& op) {
    EXPECT_TRUE(kinds.insert(op.kind).second) << op.kind;
    std::set<std::string_view> arguments, fields;
    for (const ArgumentSchema& row : op.arguments()) EXPECT_TRUE(arguments.insert(row.name).second) << row.name;
    std::apply([&](const auto&... row) { (fields.insert(row.name), ...); }, op.fields());
    EXPECT_EQ(fields.size(), std::tuple_size_v<decltype(op.fields())>) << op.kind;
    EXPECT_FALSE(arguments.contains("") || fields.contains("")) << op.kind;
  });
}

// The dtype of an argument that follows another argument is known whenever the argument is present.
TEST(Schema, DtypesFollowArgumentsThatAreThere) {
  for (const Operation& operation : every_operation()) {
    const auto names = present_names(operation);
    with_arguments(operation, [&](std::span<const ArgumentSchema> rows) {
      for (const ArgumentSchema& row : rows) {
        if (!row.present || row.elements.rule != ArgumentElements::Rule::same_as) continue;
        EXPECT_TRUE(names.contains(row.elements.other)) << kind_name(operation) << " " << row.name;
        EXPECT_NE(row.elements.other, row.name);
      }
    });
  }
}

TEST(Schema, EveryTaskWritesSomethingOrSendsIt) {
  for (const Operation& operation : every_operation()) {
    if (std::holds_alternative<Send>(operation)) continue;
    with_arguments(operation, [&](std::span<const ArgumentSchema> rows) {
      EXPECT_TRUE(std::ranges::any_of(rows, [](const ArgumentSchema& row) {
        return row.present && row.mode != AccessMode::read;
      })) << kind_name(operation);
    });
  }
}

TEST(Schema, ArgumentNamesArePlacesThatTheCompilerKnows) {
  static_assert(ArgumentName<Gemm>("A").index() == 0 && ArgumentName<Gemm>("packed_B").index() == 7);
  static_assert(argument_count<Gemm> == 9 && argument_count<Broadcast> == 1);
  static_assert(Gemm{.m = 2, .n = 3, .k = 5}.arguments()[1].shape.rows == 5);
}

TEST(Schema, ContiguousArgumentsMayComeInOtherShapes) {
  EXPECT_EQ(seen_as({2, 3}, 2, 3, false), (SeenShape{2, 3}));
  EXPECT_EQ(seen_as({2, 3}, 1, 6, true), (SeenShape{2, 3}));
  EXPECT_EQ(seen_as({2, 3}, 3, 2, false), std::nullopt);
  EXPECT_EQ(seen_as({2, 3}, 2, 4, true), std::nullopt);
  EXPECT_EQ(seen_as(any_shape(6), 3, 2, false), (SeenShape{3, 2}));
  EXPECT_EQ(seen_as(any_shape(6), 1, 5, true), std::nullopt);
  EXPECT_EQ(seen_as(any_rows(3), 4, 3, false), (SeenShape{4, 3}));
  EXPECT_EQ(seen_as(any_rows(3), 1, 12, true), (SeenShape{4, 3}));
  EXPECT_EQ(seen_as(any_rows(3), 1, 13, true), std::nullopt);
  EXPECT_EQ(seen_as(any_rows(0), 0, 0, true), std::nullopt);
  EXPECT_EQ(seen_as(any_size(), 1, 13, true), (SeenShape{1, 13}));
  EXPECT_EQ(seen_as(any_size(), 2, 13, false), std::nullopt);
}

}  // namespace
}  // namespace weft::graph
