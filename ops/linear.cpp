#include "ops/linear.h"

#include <fmt/format.h>

#include <string>

#include "ops/collectives.h"
#include "ops/lora.h"

namespace weft::ops {
namespace {

// Output features [row, row + cols) of W, which one task computes, and their location: block `index` of the output
// `output`, whose shape is [blocks·rows, cols].
struct OutputBlock {
  std::size_t output;
  std::int64_t index, row, cols;
};

// The layer divided into products: one for each pair of an output block and an input block.
struct LinearLayout {
  graph::Axis in_axis, out_axis;
  std::int64_t rows = 0, in_cols = 0;  // of an input block
  std::int64_t in_blocks = 1;          // the number of ranks of out_axis if they cut the input's columns, × its parts
  std::vector<std::int64_t>
      out_blocks;  // by output: the number of ranks of in_axis if they cut its columns, × its parts
  std::vector<OutputBlock> blocks;

  bool single() const { return in_blocks == 1 && blocks.size() == 1; }
  // "" if the layer is one product, else ".o0.i1".
  std::string name(std::size_t block, std::int64_t in) const {
    return single() ? "" : fmt::format(".o{}.i{}", block, in);
  }
};

LinearLayout layout_of(const Lowering& low, const Value& x, const Parameter& weight,
                       const std::vector<LinearOutput>& outputs, Cut input, std::int64_t input_parts) {
  const bool transposed = weight.shard->sharding == Sharding::transposed;
  LinearLayout layout{transposed ? graph::Axis::y : graph::Axis::x,
                      transposed ? graph::Axis::x : graph::Axis::y,
                      x.rows / input_parts,
                      x.cols,
                      input_parts,
                      {},
                      {}};
  if (input == Cut::columns) layout.in_blocks *= low.grid().on(layout.out_axis);
  if (input == Cut::rows) layout.rows *= low.grid().on(layout.out_axis);
  std::int64_t row = 0;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const std::int64_t ranks = outputs[o].cut == Cut::columns ? low.grid().on(layout.in_axis) : 1;
    const std::int64_t count = ranks * outputs[o].parts;
    const std::int64_t cols = outputs[o].features / count;
    layout.out_blocks.push_back(count);
    for (std::int64_t i = 0; i < count; ++i, row += cols) layout.blocks.push_back({o, i, row, cols});
  }
  return layout;
}

// Block `index` of a tensor that consists of blocks [rows, cols].
graph::View block_view(graph::TensorId tensor, std::int64_t index, std::int64_t rows, std::int64_t cols) {
  return {tensor, index * rows * cols, rows, cols, cols};
}

// The part of a matrix shaped like W for an output block and an input block.
graph::View weight_view(const LinearLayout& layout, graph::TensorId matrix, const OutputBlock& block, std::int64_t in) {
  const std::int64_t stride = layout.in_blocks * layout.in_cols;
  return {matrix, block.row * stride + in * layout.in_cols, block.cols, layout.in_cols, stride};
}

// The input, block by block, and the outputs or their gradients, for an adapter.
std::vector<graph::View> input_views(const LinearLayout& layout, graph::TensorId input) {
  std::vector<graph::View> views;
  for (std::int64_t in = 0; in < layout.in_blocks; ++in) {
    views.push_back(block_view(input, in, layout.rows, layout.in_cols));
  }
  return views;
}

std::vector<AdapterOutput> output_views(const LinearLayout& layout, const std::vector<graph::TensorId>& outputs) {
  std::vector<AdapterOutput> views;
  for (const OutputBlock& block : layout.blocks) {
    views.push_back({block_view(outputs[block.output], block.index, layout.rows, block.cols), block.row});
  }
  return views;
}

// The gradient of the input x: for each input block, the sum over output blocks, then over the ranks of out_axis.
// `dhidden`: of each adapter.
graph::TensorId input_gradient(Lowering& low, const LinearLayout& layout, const std::vector<graph::TensorId>& dy,
                               Parameter& weight, const Value& x, Cut input, const std::vector<Adapter>& adapters,
                               const std::vector<graph::TensorId>& dhidden) {
  const std::int64_t rows = layout.rows, cols = layout.in_cols;
  const graph::TensorId matrix = low.weight(weight);
  const graph::TensorId dx = low.activation("dx", layout.in_blocks * rows, cols);
  for (std::int64_t in = 0; in < layout.in_blocks; ++in) {
    for (std::size_t b = 0; b < layout.blocks.size(); ++b) {
      const OutputBlock& block = layout.blocks[b];
      graph::Gemm gemm{rows, cols, block.cols};
      gemm.accumulate = b > 0;
      low.emit("gemm_dx" + layout.name(b, in), gemm,
               {{"A", graph::read(block_view(dy[block.output], block.index, rows, block.cols))},
                {"B", graph::read(weight_view(layout, matrix, block, in))},
                {"C", Lowering::result(block_view(dx, in, rows, cols), b > 0)}});
    }
    for (std::size_t i = 0; i < adapters.size(); ++i) {
      add_adapter_input_gradient(low, adapters[i], dhidden[i], in, block_view(dx, in, rows, cols));
    }
  }
  const graph::Channel channel = channel_of(layout.out_axis);
  if (input != Cut::none)
    return reduce_scatter(low, "reduce_scatter_dx", dx, {x.rows, x.cols}, graph::Role::activation, channel);
  all_reduce(low, "all_reduce_dx", dx, rows * cols, channel);
  return dx;
}

// The gradients of W and of the bias, in the blocks that the forward pass multiplies by.
void add_weight_gradients(Lowering& low, const LinearLayout& layout, const std::vector<graph::TensorId>& dy,
                          graph::TensorId input, Parameter& weight, Parameter* bias) {
  const std::int64_t rows = layout.rows;
  const auto dw = low.gradient_slot(weight);
  for (std::size_t b = 0; b < layout.blocks.size(); ++b) {
    const OutputBlock& block = layout.blocks[b];
    const graph::View dout = block_view(dy[block.output], block.index, rows, block.cols);
    for (std::int64_t in = 0; in < layout.in_blocks; ++in) {
      low.emit("gemm_dw" + layout.name(b, in),
               graph::Gemm{block.cols, layout.in_cols, rows, true, false, dw.accumulate},
               {{"A", graph::read(dout)},
                {"B", graph::read(block_view(input, in, rows, layout.in_cols))},
                {"C", Lowering::result(weight_view(layout, dw.tensor, block, in), dw.accumulate)}});
    }
  }
  if (bias == nullptr) return;
  const auto db = low.gradient_slot(*bias);
  for (std::size_t b = 0; b < layout.blocks.size(); ++b) {
    const OutputBlock& block = layout.blocks[b];
    low.emit("bias_grad" + (layout.blocks.size() == 1 ? "" : fmt::format(".o{}", b)),
             graph::BiasGradient{rows, block.cols, db.accumulate},
             {{"dy", graph::read(block_view(dy[block.output], block.index, rows, block.cols))},
              {"db", Lowering::result(low.elements(db.tensor, block.row, block.cols), db.accumulate)}});
  }
}

// The sums of the outputs over the ranks of in_axis: whole on each rank, or its own part.
std::vector<Value> summed(Lowering& low, const LinearLayout& layout, const std::vector<LinearOutput>& outputs,
                          const std::vector<graph::TensorId>& partial) {
  const graph::Channel channel = channel_of(layout.in_axis);
  std::vector<Value> values;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const std::string suffix = outputs.size() == 1 ? "" : fmt::format(".{}", o);
    const std::int64_t cols = outputs[o].features / layout.out_blocks[o];
    Value value{partial[o], layout.rows * outputs[o].parts, cols};
    if (outputs[o].cut == Cut::rows) value.rows /= low.grid().on(layout.in_axis);
    if (outputs[o].cut == Cut::none) {
      all_reduce(low, "all_reduce" + suffix, value.tensor, value.rows * cols, channel);
    } else {
      value.tensor = reduce_scatter(low, "reduce_scatter" + suffix, value.tensor, {value.rows, cols},
                                    graph::Role::activation, channel);
    }
    values.push_back(value);
  }
  return values;
}

}  // namespace

std::vector<Value> linear(Lowering& low, Value x, Parameter& weight, Parameter* bias,
                          const std::vector<LinearOutput>& outputs, Cut input_cut, std::int64_t input_parts) {
  const LinearLayout layout = layout_of(low, x, weight, outputs, input_cut, input_parts);
  const std::int64_t rows = layout.rows;
  const graph::Channel reduce_channel = channel_of(layout.in_axis);
  const bool reduces = low.grid().on(layout.in_axis) > 1;
  const auto whole_input = [=](Lowering& l) {
    return input_cut == Cut::none ? x.tensor : all_gather(l, "all_gather_x", x.tensor, channel_of(layout.out_axis));
  };
  const graph::TensorId input = whole_input(low);
  const bool gathers_again = low.sequence_parallel() && !low.recomputing();
  const graph::TensorId matrix = low.weight(weight);

  std::vector<graph::TensorId> partial;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const std::int64_t blocks = layout.out_blocks[o];
    partial.push_back(low.activation(outputs.size() == 1 ? "out" : fmt::format("out{}", o), blocks * rows,
                                     outputs[o].features / blocks));
  }
  for (std::size_t b = 0; b < layout.blocks.size(); ++b) {
    const OutputBlock& block = layout.blocks[b];
    const graph::View out = block_view(partial[block.output], block.index, rows, block.cols);
    const auto bias_view = [&] { return low.elements(bias->tensor, block.row, block.cols); };
    for (std::int64_t in = 0; in < layout.in_blocks; ++in) {
      graph::Gemm gemm{rows, block.cols, layout.in_cols, false, true};
      gemm.accumulate = in > 0;
      gemm.has_bias = bias != nullptr && !reduces && in == 0;
      low.emit("gemm" + layout.name(b, in), gemm,
               {{"A", graph::read(block_view(input, in, rows, layout.in_cols))},
                {"B", graph::read(weight_view(layout, matrix, block, in))},
                {"C", Lowering::result(out, in > 0)},
                {"bias", graph::access_if(gemm.has_bias, [&] { return graph::read(bias_view()); })}});
    }
    if (bias != nullptr && reduces) {
      low.emit("bias" + (layout.single() ? "" : fmt::format(".o{}", b)), graph::AddBias{rows, block.cols},
               {{"y", graph::read_write(out)},
                {"bias", graph::read(bias_view())},
                {"coordinate", coordinate(low, layout.in_axis)}});
    }
  }
  const std::vector<Adapter> adapters = adapters_of(low, weight);
  std::vector<Parameter*> trained = {&weight, bias};
  std::vector<graph::TensorId> hidden;
  for (const Adapter& adapter : adapters) {
    trained.insert(trained.end(), {adapter.a, adapter.b});
    hidden.push_back(add_adapter(low, adapter, input_views(layout, input), output_views(layout, partial)));
  }
  const std::vector<Value> values = summed(low, layout, outputs, partial);

  low.record(trained, [=, &weight](Lowering& l) {
    std::vector<graph::TensorId> dy;
    for (std::size_t o = 0; o < values.size(); ++o) {
      const std::string suffix = values.size() == 1 ? "" : fmt::format(".{}", o);
      const graph::TensorId gradient = l.gradient(values[o]);
      dy.push_back(outputs[o].cut == Cut::none ? gradient
                                               : all_gather(l, "all_gather_dy" + suffix, gradient, reduce_channel));
    }
    // Before the product that the rest of the backward pass waits for, so that the gather can hide beside it.
    const graph::TensorId again = gathers_again ? whole_input(l) : input;
    std::vector<graph::TensorId> dhidden;
    dhidden.reserve(adapters.size());
    for (const Adapter& adapter : adapters) {
      dhidden.push_back(adapter_gradient(l, adapter, output_views(layout, dy)));
    }
    l.add_gradient(x, input_gradient(l, layout, dy, weight, x, input_cut, adapters, dhidden));
    for (std::size_t i = 0; i < adapters.size(); ++i) {
      add_adapter_weight_gradients(l, adapters[i], hidden[i], dhidden[i], input_views(layout, again),
                                   output_views(layout, dy));
    }
    add_weight_gradients(l, layout, dy, again, weight, bias);
  });
  return values;
}

Value linear(Lowering& low, Value x, Parameter& weight, Parameter* bias) {
  return linear(low, x, weight, bias, {{weight.shard->rows}}).front();
}

}  // namespace weft::ops
