#include "ops/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "ops/layers.h"
#include "ops/linear.h"

namespace weft::ops {
namespace {

// Dropout sites: 0 is the embedding, followed by two for each layer.
DropoutSite site(const ForwardOptions& options, std::int64_t number) {
  return {options.dropout, static_cast<std::uint32_t>(number), options.row_offset};
}

Parameter* bias_of(Lowering& low, bool has_bias, const std::string& parameter) {
  return has_bias ? &low.parameter(parameter + ".bias") : nullptr;
}

Value mlp_linear(Lowering& low, Value x, const char* scope_name, const std::string& parameter) {
  auto scope = low.enter(scope_name);
  return linear(low, x, low.parameter(parameter + ".weight"), bias_of(low, low.model().has_mlp_bias(), parameter));
}

Value named_norm(Lowering& low, Value x, const char* scope_name, const std::string& parameter) {
  auto scope = low.enter(scope_name);
  return norm(low, x, parameter);
}

Value block(Lowering& low, Value x, const ForwardOptions& options, std::int64_t layer) {
  auto layer_scope = low.enter_layer(layer);
  const std::string name = fmt::format("L{}.", layer);
  const Value normed = named_norm(low, x, "norm1", name + "norm1");
  Value branch;
  {
    auto scope = low.enter("attn");
    std::vector<Value> qkv;
    {
      auto scope_qkv = low.enter("qkv");
      qkv = linear(low, normed, low.parameter(name + "attn.qkv.weight"),
                   bias_of(low, low.model().has_qkv_bias(), name + "attn.qkv"), qkv_outputs(low.model(), low.grid()));
    }
    branch = attention(low, qkv, options.sequences, layer);
    {
      auto scope_out = low.enter("out");
      Parameter& weight = low.parameter(name + "attn.out.weight");
      Parameter* bias = bias_of(low, low.model().has_out_bias(), name + "attn.out");
      branch = linear(low, branch, weight, bias, {{weight.shard->rows, false}}, true).front();
    }
    x = add_residual(low, x, branch, site(options, 2 * layer + 1));
  }
  const Value normed_again = named_norm(low, x, "norm2", name + "norm2");
  auto scope = low.enter("mlp");
  branch = mlp_linear(low, normed_again, "up", name + "mlp.up");
  {
    auto activation_scope = low.enter("act");
    branch = low.model().family == Family::gpt2 ? gelu(low, branch) : swiglu(low, branch);
  }
  branch = mlp_linear(low, branch, "down", name + "mlp.down");
  return add_residual(low, x, branch, site(options, 2 * layer + 2));
}

Value embed(Lowering& low, graph::View tokens, std::int64_t rows, const ForwardOptions& options) {
  const bool decode = options.sequences.mode == Sequences::Mode::decode;
  auto scope = low.enter("embed");
  const Value x = embedding(low, tokens, rows, options.sequences.seq_len, decode);
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

/// Receives a stage's input [rows, hidden/x] from the ranks of the stage before. Its adjoint sends the gradient back.
Value receive_input(Lowering& low, std::int64_t stage, std::int64_t rows) {
  auto scope = low.enter(fmt::format("S{}", stage));
  const std::int64_t cols = low.model().hidden / low.grid().x;
  const Value input{low.activation("input", rows, cols), rows, cols};
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

}  // namespace

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
  return named_norm(low, *x, "norm", "norm");
}

Value language_model_head(Lowering& low, Value hidden) {
  auto stage_scope = low.enter_stage(low.layout().stages() - 1);
  auto scope = low.enter("head");
  return linear(low, hidden, low.head_weight(), nullptr);
}

}  // namespace weft::ops
