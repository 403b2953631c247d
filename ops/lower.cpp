#include "ops/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "ops/attention.h"
#include "ops/collectives.h"
#include "ops/experts.h"
#include "ops/layers.h"
#include "ops/linear.h"
#include "ops/lowering.h"
#include "ops/optimizer.h"

namespace weft::ops {
namespace {

/// Options of the forward pass besides the model.
struct ForwardOptions {
  Sequences sequences;
  float dropout = 0.0F;
  std::int64_t row_offset = 0;  // of this micro-batch's first row, among the rows of the rank's sequences of the step
  bool recompute_blocks = false;
  std::optional<StepRouting> routing = {};  // of a training step
};

// Dropout sites: 0 is the embedding, followed by two for each layer.
DropoutSite site(const ForwardOptions& options, std::int64_t number) {
  return {options.dropout, static_cast<std::uint32_t>(number), options.row_offset, options.sequences.seq_len};
}

Parameter* bias_of(Lowering& low, bool has_bias, const std::string& parameter) {
  return has_bias ? &low.parameter(parameter + ".bias") : nullptr;
}

// How ranks share what lies between two products, but for attention's heads.
Cut between_products(const Lowering& low) {
  return low.sequence_parallel() ? Cut::rows : Cut::none;
}

Value mlp_linear(Lowering& low, Value x, const char* scope_name, const std::string& parameter) {
  auto scope = low.enter(scope_name);
  Parameter& weight = low.parameter(parameter + ".weight");
  const Cut cut = between_products(low);
  return linear(low, x, weight, bias_of(low, low.model().has_mlp_bias(), parameter), {{weight.shard->rows, cut}}, cut)
      .front();
}

Value mlp(Lowering& low, Value x, const std::string& parameters) {
  Value columns = mlp_linear(low, x, "up", parameters + "up");
  {
    auto scope = low.enter("act");
    columns = activation(low, columns);
  }
  return mlp_linear(low, columns, "down", parameters + "down");
}

Value named_norm(Lowering& low, Value x, const char* scope_name, const std::string& parameter) {
  auto scope = low.enter(scope_name);
  return norm(low, x, parameter);
}

// The input of a branch, and what it adds to the residual stream: normalised where the family does so.
Value branch_input(Lowering& low, Value x, const char* scope_name, const std::string& parameter) {
  return low.model().parts().place == NormPlace::after ? x : named_norm(low, x, scope_name, parameter);
}

Value branch_output(Lowering& low, Value branch, const char* scope_name, const std::string& parameter) {
  if (low.model().parts().place != NormPlace::before) branch = named_norm(low, branch, scope_name, parameter);
  return scaled(low, branch, low.model().residual_factor);
}

Value block(Lowering& low, Value x, const ForwardOptions& options, std::int64_t layer) {
  auto layer_scope = low.enter_layer(layer);
  const std::string name = fmt::format("L{}.", layer);
  const Value to_attention = branch_input(low, x, "norm1", name + "norm1");
  Value branch;
  {
    auto scope = low.enter("attn");
    std::vector<Value> qkv;
    {
      auto scope_qkv = low.enter("qkv");
      qkv = linear(low, to_attention, low.parameter(name + "attn.qkv.weight"),
                   bias_of(low, low.model().has_qkv_bias(), name + "attn.qkv"), qkv_outputs(low.model(), low.grid()),
                   between_products(low));
    }
    branch = attention(low, qkv, options.sequences, layer);
    {
      auto scope_out = low.enter("out");
      Parameter& weight = low.parameter(name + "attn.out.weight");
      Parameter* bias = bias_of(low, low.model().has_out_bias(), name + "attn.out");
      branch = linear(low, branch, weight, bias, {{weight.shard->rows, between_products(low)}}, Cut::columns,
                      low.grid().context)
                   .front();
    }
    branch = branch_output(low, branch, "post_norm1", name + "post_norm1");
    x = add_residual(low, x, branch, site(options, 2 * layer + 1));
  }
  const Value to_mlp = branch_input(low, x, "norm2", name + "norm2");
  auto scope = low.enter("mlp");
  branch =
      low.model().has_experts(layer) ? experts(low, to_mlp, layer, options.routing) : mlp(low, to_mlp, name + "mlp.");
  branch = branch_output(low, branch, "post_norm2", name + "post_norm2");
  return add_residual(low, x, branch, site(options, 2 * layer + 2));
}

Value embed(Lowering& low, graph::View tokens, std::int64_t rows, const ForwardOptions& options) {
  const Sequences& sequences = options.sequences;
  auto scope = low.enter("embed");
  Positions positions{sequences.seq_len};
  if (sequences.mode == Sequences::Mode::decode) positions.first = names::kPosition;
  if (sequences.mode == Sequences::Mode::training && low.grid().context > 1)
    positions = {sequences.seq_len / low.grid().context, names::kFirstPosition};
  const Value rows_of_table = embedding(low, tokens, rows, positions);
  const Value x = scaled(low, rows_of_table, low.model().embedding_scale());
  auto dropout_scope = low.enter("drop");
  return dropout(low, x, site(options, 0));
}

enum class Pass : std::uint8_t { forward, backward };

/// Both ends give a message that enters `stage`, or whose gradient leaves it, the same number: from 1, in a step.
std::int64_t message_number(const Lowering& low, std::int64_t stage, Pass pass) {
  const std::int64_t micro_batch = std::max<std::int64_t>(0, low.here().micro_batch);
  return 1 + 2 * (micro_batch * low.layout().stages() + stage) + (pass == Pass::forward ? 0 : 1);
}

void send(Lowering& low, graph::Channel channel, std::int64_t message, graph::TensorId tensor) {
  const std::int64_t count = low.tensor(tensor).elements();
  low.emit("send", graph::Send{channel, message, count}, {{"buffer", graph::read(low.elements(tensor, 0, count))}});
}

void receive(Lowering& low, graph::Channel channel, std::int64_t message, graph::TensorId tensor) {
  const std::int64_t count = low.tensor(tensor).elements();
  low.emit("receive", graph::Receive{graph::other_end(channel), message, count},
           {{"buffer", graph::write(low.elements(tensor, 0, count))}});
}

/// Receives a stage's input [rows, hidden/x], or the rank's rows of it, from the ranks of the stage before. Its adjoint
/// sends the gradient back.
Value receive_input(Lowering& low, std::int64_t stage, std::int64_t rows) {
  auto scope = low.enter(fmt::format("S{}", stage));
  const std::int64_t cols = low.model().hidden / low.grid().x;
  const std::int64_t own = low.residual_rows(rows);
  const Value input{low.activation("input", own, cols), own, cols};
  receive(low, forward_channel(low.layout(), stage), message_number(low, stage, Pass::forward), input.tensor);
  low.record({}, [=](Lowering& l) {
    send(l, backward_channel(l.layout(), stage), message_number(l, stage, Pass::backward), l.gradient(input));
  });
  return input;
}

/// Sends a stage's output to the ranks of the next stage. Its adjoint receives the gradient.
void send_output(Lowering& low, std::int64_t stage, const Value& output) {
  auto scope = low.enter(fmt::format("S{}", stage));
  const std::int64_t next = stage + 1;
  send(low, forward_channel(low.layout(), next), message_number(low, next, Pass::forward), output.tensor);
  low.record({}, [=](Lowering& l) {
    const graph::TensorId gradient = l.activation("gradient", output.rows, output.cols);
    receive(l, backward_channel(l.layout(), next), message_number(l, next, Pass::backward), gradient);
    l.set_gradient(output, gradient);
  });
}

/// Embedding, blocks and final norm: tokens (i32 view of `rows` elements) → [rows, hidden]. Of several stages, the ones
/// that these ranks have: an input that another rank makes is received, an output that another rank needs is sent, and
/// nothing is returned without the last stage.
///
///   x += post_norm1(attn.out(attention(qkv(norm1(x))))); x += post_norm2(mlp.down(activation(mlp.up(norm2(x)))))
///   with experts in place of the MLP in some layers (ops/experts.h)
///
/// The family's row (ops/family.h) says which of the four norms there are, and what each part computes. Logits are
/// linear in the last norm's result, so that it is divided by their divisor, which is fewer numbers.
std::optional<Value> transformer(Lowering& low, graph::View tokens, std::int64_t rows, const ForwardOptions& options) {
  const PipelineLayout& layout = low.layout();
  const std::int64_t stages = layout.stages();
  std::optional<Value> x;  // of the stage before, if these ranks have it
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    if (!low.has_stage(stage)) {
      x.reset();
      continue;
    }
    auto scope = low.enter_stage(stage);
    Value value = stage == 0 ? embed(low, tokens, rows, options) : x ? *x : receive_input(low, stage, rows);
    const std::int64_t end = stages == 1 ? low.model().layers : layout.end_layer(stage);
    for (std::int64_t layer = stages == 1 ? 0 : layout.first_layer(stage); layer < end; ++layer) {
      const auto segment = [options, layer](Lowering& l, Value input) { return block(l, input, options, layer); };
      value = options.recompute_blocks ? low.checkpoint(value, segment) : segment(low, value);
    }
    if (stage + 1 < stages && !low.has_stage(stage + 1)) send_output(low, stage, value);
    x = value;
  }
  if (!x) return std::nullopt;
  auto scope = low.enter_stage(stages - 1);
  const Value hidden = named_norm(low, *x, "norm", "norm");
  auto scale_scope = low.enter("norm");
  return scaled(low, hidden, 1.0F / low.model().logits_divisor);
}

/// Logits [rows, vocab] of hidden states; a tied model multiplies by the token embedding.
Value language_model_head(Lowering& low, Value hidden) {
  auto stage_scope = low.enter_stage(low.layout().stages() - 1);
  auto scope = low.enter("head");
  Parameter& weight = low.head_weight();
  return linear(low, hidden, weight, nullptr, {{weight.shard->rows}}, between_products(low)).front();
}

// Rows of x from `begin` on, as a value of their own. Its gradient becomes that of these rows in `gradient`.
Value copied_rows(Lowering& low, const Value& x, std::int64_t begin, std::int64_t rows, graph::TensorId gradient) {
  const std::int64_t count = rows * x.cols;
  const Value part{low.activation("rows", rows, x.cols), rows, x.cols};
  low.emit("rows", graph::Scale{count, 1.0F},
           {{"x", graph::read(low.elements(x.tensor, begin * x.cols, count))}, {"out", low.write(part.tensor)}});
  low.record({}, [=](Lowering& l) {
    l.emit("rows_dx", graph::Scale{count, 1.0F},
           {{"x", l.read(l.gradient(part))}, {"out", graph::write(l.elements(gradient, begin * x.cols, count))}});
  });
  return part;
}

// The elements of a step's ids or sums that the loss reads and writes.
struct LossTensors {
  graph::TensorId targets, sums;
  std::int64_t first_target = 0;
  bool first = true;  // sums begin
};

// Logits and their loss, `gradient`: with the gradient of `hidden`.
void loss_of_hidden(Lowering& low, const Value& hidden, const LossTensors& in, std::int64_t parts, bool gradient) {
  const auto loss = [&](const Value& rows, std::int64_t begin) {
    const Value logits = language_model_head(low, rows);
    auto scope = low.enter("loss");
    cross_entropy(low, logits, low.elements(in.targets, in.first_target + begin, logits.rows),
                  low.elements(in.sums, 0, 2), in.first && begin == 0, gradient);
  };
  if (parts == 1) return loss(hidden, 0);
  const std::int64_t rows = hidden.rows / parts;
  const graph::TensorId dhidden = low.activation("dhidden", hidden.rows, hidden.cols);
  if (gradient) low.record({&low.head_weight()}, [=](Lowering& l) { l.set_gradient(hidden, dhidden); });
  for (std::int64_t part = 0; part < parts; ++part) {
    auto scope = low.enter(fmt::format("part{}", part));
    const auto of_part = [&] { loss(copied_rows(low, hidden, part * rows, rows, dhidden), part * rows); };
    gradient ? low.differentiate_at_once(of_part) : of_part();
  }
}

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

std::string names::of_router(std::int64_t layer, std::string_view name) {
  return fmt::format("L{}.mlp.router.{}", layer, name);
}

std::array<std::int64_t, 14> coordinate_values(const graph::Grid& grid, const graph::Coordinates& at) {
  const auto pair = [](std::int64_t inner, std::int64_t size, std::int64_t outer) { return inner + size * outer; };
  const std::int64_t copy = at.z / grid.expert;
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
          pair(at.x, grid.x, pair(at.y, grid.y, pair(at.z, grid.z, at.data))),
          graph::expert_rank(grid, at),
          copy,
          pair(copy, grid.z / grid.expert, at.data)};
}

std::int64_t first_row(const StepConfig& step, const graph::Coordinates& at) {
  const std::int64_t rows = step.micro_batch * step.seq_len, own = step.seq_len / step.grid.context;
  const std::int64_t cut = step.sequence_parallel ? at.y * (rows / step.grid.context / step.grid.y) : 0;
  const std::int64_t in_sequences = cut / own * step.seq_len + first_position(step, at) + cut % own;
  return graph::batch_rank(step.grid, at) * step.micro_batches * rows + in_sequences;
}

std::int64_t first_position(const StepConfig& step, const graph::Coordinates& at) {
  return graph::context_rank(step.grid, at) * (step.seq_len / step.grid.context);
}

std::shared_ptr<const graph::Graph> lower_train(const ModelConfig& model, const StepConfig& step, std::int64_t pipe) {
  Lowering low(model, step.dtype, step.grid, step.reshard_after_forward, {step.pipeline, pipe}, step.sequence_parallel);
  const std::int64_t all_rows = step.micro_batch * step.seq_len, rows = all_rows / step.grid.context;
  const graph::TensorId tokens = low.named(names::kTokens, DType::i32, {step.micro_batches, rows}, graph::Role::input);
  const graph::TensorId targets =
      low.named(names::kTargets, DType::i32, {step.micro_batches, rows}, graph::Role::input);
  const auto document_starts =
      inputs_if(low, step.document_mask, names::kDocumentStarts, {step.micro_batches, all_rows});
  const graph::TensorId metrics = low.named(names::kMetrics, DType::f32, {5}, graph::Role::scalar);
  GradientReducer reducer(low, step);

  for (std::int64_t mb = 0; mb < step.micro_batches; ++mb) {
    auto scope = low.enter_micro_batch(mb);
    low.set_phase(graph::Phase::forward);
    ForwardOptions options;
    options.sequences = {step.micro_batch, step.seq_len, Sequences::Mode::training};
    if (document_starts) options.sequences.document_starts = low.elements(*document_starts, mb * all_rows, all_rows);
    options.dropout = step.dropout;
    options.row_offset = mb * all_rows;
    options.recompute_blocks = step.recompute_blocks;
    options.routing = StepRouting{step.routing, step.micro_batches};
    const std::optional<Value> hidden = transformer(low, low.elements(tokens, mb * rows, rows), rows, options);
    if (hidden) {
      auto stage_scope = low.enter_stage(low.layout().stages() - 1);
      loss_of_hidden(low, *hidden, {targets, metrics, mb * rows, mb == 0}, step.loss_parts, true);
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
  const std::int64_t all_rows = step.micro_batch * step.seq_len, rows = all_rows / step.grid.context;
  const graph::TensorId tokens = low.named(names::kEvalTokens, DType::i32, {rows}, graph::Role::input);
  const graph::TensorId targets = low.named(names::kEvalTargets, DType::i32, {rows}, graph::Role::input);
  const auto document_starts = inputs_if(low, step.document_mask, names::kEvalDocumentStarts, {all_rows});
  const graph::TensorId sums = low.named(names::kEvalSums, DType::f32, {3}, graph::Role::scalar);
  auto scope = low.enter("eval");
  ForwardOptions options;
  options.sequences = {step.micro_batch, step.seq_len, Sequences::Mode::training};
  if (document_starts) options.sequences.document_starts = low.elements(*document_starts, 0, all_rows);
  const std::optional<Value> hidden = transformer(low, low.elements(tokens, 0, rows), rows, options);
  if (hidden) loss_of_hidden(low, *hidden, {targets, sums}, step.loss_parts, false);
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
