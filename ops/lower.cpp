#include "ops/lower.h"

#include <optional>
#include <utility>
#include <vector>

#include "ops/collectives.h"
#include "ops/layers.h"
#include "ops/lowering.h"
#include "ops/optimizer.h"
#include "ops/transformer.h"

namespace weft::ops {
namespace {

// Hidden states → fp32 logits of the row at "position".
void logits_of_last_stage(Lowering& low, Value hidden, graph::TensorId logits) {
  graph::TensorId row = hidden.tensor;
  if (hidden.rows > 1) {
    const graph::TensorId position = low.named(names::kPosition, DType::i64, {1}, graph::Role::scalar);
    row = low.activation("last", 1, hidden.cols);
    low.emit("select", graph::SelectRow{hidden.rows, hidden.cols},
             {{"x", low.read(hidden.tensor)}, {"index", low.read(position)}, {"out", low.write(row)}});
  }
  Parameter& weight = low.head_weight();
  const std::int64_t ranks = low.grid().y, own = weight.shard->rows;
  const graph::TensorId part = ranks == 1 ? logits : low.scratch("part", DType::f32, {own}, graph::Role::activation);
  low.emit("gemm", graph::Gemm{1, own, hidden.cols, false, true},
           {{"A", low.read(row)}, {"B", low.read(low.weight(weight))}, {"C", low.write(part)}});
  all_reduce(low, "all_reduce", part, own, graph::Channel::x);
  if (ranks > 1) {
    low.emit("all_gather", graph::AllGather{graph::Channel::y, ranks, own},
             {{"in", low.read(part)}, {"out", low.write(logits)}});
  }
}

// On all ranks: the last stage's ranks hand the logits to the others.
void logits_of_position(Lowering& low, std::optional<Value> hidden) {
  auto stage_scope = low.enter_stage(low.layout().stages() - 1);
  auto scope = low.enter("head");
  const std::int64_t count = low.grid().y * local_vocab(low.model(), low.grid());
  const graph::TensorId logits = low.named(names::kLogits, DType::f32, {count}, graph::Role::scalar);
  if (hidden) logits_of_last_stage(low, *hidden, logits);
  if (low.grid().pipe == 1) return;
  low.emit("broadcast", graph::Broadcast{graph::Channel::pipe, low.grid().pipe, count, low.layout().last_rank()},
           {{"buffer", low.read_write(logits)}});
}

// Sums over ranks; each rank counted only its own share. Ranks without the last stage counted nothing.
void all_reduce_metrics(Lowering& low, graph::TensorId metrics, std::int64_t count) {
  if (!low.has_last_stage()) low.emit("zero", graph::Zero{2}, {{"out", graph::write(low.elements(metrics, 0, 2))}});
  all_reduce(low, "all_reduce", metrics, count,
             low.grid().model_ranks() > 1 ? graph::Channel::world : graph::Channel::data);
}

// An input of ids or positions that only some steps have.
std::optional<graph::TensorId> inputs_if(Lowering& low, bool present, const char* name,
                                         std::vector<std::int64_t> shape) {
  if (!present) return std::nullopt;
  return low.named(name, DType::i32, std::move(shape), graph::Role::input);
}

}  // namespace

std::array<std::int64_t, 11> coordinate_values(const graph::Grid& grid, const graph::Coordinates& at) {
  const auto pair = [](std::int64_t inner, std::int64_t size, std::int64_t outer) { return inner + size * outer; };
  return {at.x,
          at.y,
          at.z,
          at.data,
          pair(at.x, grid.x, at.y),
          pair(at.y, grid.y, at.data),
          pair(at.y, grid.y, pair(at.z, grid.z, at.data)),
          pair(at.x, grid.x, pair(at.z, grid.z, at.data)),
          pair(at.y, grid.y, at.z),
          pair(at.x, grid.x, at.z),
          pair(at.x, grid.x, pair(at.y, grid.y, pair(at.z, grid.z, at.data)))};
}

std::shared_ptr<const graph::Graph> lower_train(const ModelConfig& model, const StepConfig& step, std::int64_t pipe) {
  Lowering low(model, step.dtype, step.grid, step.reshard_after_forward, {step.pipeline, pipe});
  const std::int64_t rows = step.micro_batch * step.seq_len;
  const graph::TensorId tokens = low.named(names::kTokens, DType::i32, {step.micro_batches, rows}, graph::Role::input);
  const graph::TensorId targets =
      low.named(names::kTargets, DType::i32, {step.micro_batches, rows}, graph::Role::input);
  const auto document_starts = inputs_if(low, step.document_mask, names::kDocumentStarts, {step.micro_batches, rows});
  const graph::TensorId metrics = low.named(names::kMetrics, DType::f32, {5}, graph::Role::scalar);
  GradientReducer reducer(low, step);

  for (std::int64_t mb = 0; mb < step.micro_batches; ++mb) {
    auto scope = low.enter_micro_batch(mb);
    low.set_phase(graph::Phase::forward);
    ForwardOptions options;
    options.sequences = {step.micro_batch, step.seq_len, Sequences::Mode::training};
    if (document_starts) options.sequences.document_starts = low.elements(*document_starts, mb * rows, rows);
    options.dropout = step.dropout;
    options.row_offset = mb * rows;
    options.recompute_blocks = step.recompute_blocks;
    const std::optional<Value> hidden = transformer(low, low.elements(tokens, mb * rows, rows), rows, options);
    if (hidden) {
      const Value logits = language_model_head(low, *hidden);
      auto stage_scope = low.enter_stage(low.layout().stages() - 1);
      auto loss_scope = low.enter("loss");
      cross_entropy(low, logits, low.elements(targets, mb * rows, rows), low.elements(metrics, 0, 2), mb == 0, true);
    }
    if (mb == step.micro_batches - 1) {
      auto loss_scope = low.enter("loss");
      all_reduce_metrics(low, metrics, 3);
    }
    low.backward();
    reducer.end_of_micro_batch(mb);
  }
  clip_and_update(low, step, reducer.reduced(), metrics);
  return std::move(low).finish();
}

std::shared_ptr<const graph::Graph> lower_eval(const ModelConfig& model, const StepConfig& step, std::int64_t pipe) {
  Lowering low(model, step.dtype, step.grid, step.reshard_after_forward, {step.pipeline, pipe});
  const std::int64_t rows = step.micro_batch * step.seq_len;
  const graph::TensorId tokens = low.named(names::kEvalTokens, DType::i32, {rows}, graph::Role::input);
  const graph::TensorId targets = low.named(names::kEvalTargets, DType::i32, {rows}, graph::Role::input);
  const auto document_starts = inputs_if(low, step.document_mask, names::kEvalDocumentStarts, {rows});
  const graph::TensorId sums = low.named(names::kEvalSums, DType::f32, {3}, graph::Role::scalar);
  auto scope = low.enter("eval");
  ForwardOptions options;
  options.sequences = {step.micro_batch, step.seq_len, Sequences::Mode::training};
  if (document_starts) options.sequences.document_starts = low.elements(*document_starts, 0, rows);
  const std::optional<Value> hidden = transformer(low, low.elements(tokens, 0, rows), rows, options);
  if (hidden) {
    const Value logits = language_model_head(low, *hidden);
    auto loss_scope = low.enter("loss");
    cross_entropy(low, logits, low.elements(targets, 0, rows), low.elements(sums, 0, 2), true, false);
  }
  auto loss_scope = low.enter("loss");
  all_reduce_metrics(low, sums, 3);
  return std::move(low).finish();
}

namespace {

// Lowers one sequence of tokens, which the state `input` holds, up to the logits.
std::shared_ptr<const graph::Graph> lower_sequence(Lowering low, const char* name, const char* input,
                                                   const Sequences& sequences) {
  const std::int64_t rows = sequences.seq_len;
  const graph::TensorId tokens = low.named(input, DType::i32, {rows}, graph::Role::input);
  auto scope = low.enter(name);
  ForwardOptions options;
  options.sequences = sequences;
  logits_of_position(low, transformer(low, low.elements(tokens, 0, rows), rows, options));
  return std::move(low).finish();
}

}  // namespace

std::shared_ptr<const graph::Graph> lower_prefill(const ModelConfig& model, DType dtype, std::int64_t seq_len,
                                                  const graph::Grid& grid, const PipelinePart& part) {
  return lower_sequence({model, dtype, grid, false, part}, "prefill", names::kPrefillTokens,
                        {1, seq_len, Sequences::Mode::prefill});
}

std::shared_ptr<const graph::Graph> lower_decode(const ModelConfig& model, DType dtype, const graph::Grid& grid,
                                                 const PipelinePart& part) {
  return lower_sequence({model, dtype, grid, false, part}, "decode", names::kDecodeToken,
                        {1, 1, Sequences::Mode::decode});
}

}  // namespace weft::ops
