#include "ops/lora.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace weft::ops {
namespace {

// Block `in` of the columns of a matrix shaped like A, for inputs of `cols` columns.
graph::View a_view(const Lowering& low, graph::TensorId matrix, std::int64_t in, std::int64_t cols) {
  return low.columns(matrix, in * cols, cols);
}

// Rows of a matrix shaped like B.
graph::View b_view(const Adapter& adapter, graph::TensorId matrix, std::int64_t row, std::int64_t count) {
  return {matrix, row * adapter.rank, count, adapter.rank, adapter.rank};
}

// The columns of x·Aᵀ that belong to a stored tensor.
graph::View hidden_view(const Lowering& low, const Adapter& adapter, graph::TensorId hidden, std::size_t stored) {
  return low.columns(hidden, static_cast<std::int64_t>(stored) * adapter.rank, adapter.rank);
}

// Calls visit(name, view, row, count, stored), `row` of B, for the columns of each output that one stored tensor holds.
template <class Visit>
void for_each_part(const Adapter& adapter, std::span<const AdapterOutput> outputs, const Visit& visit) {
  std::int64_t number = 0;
  for (const AdapterOutput& output : outputs) {
    for (const AdaptedRows& rows : adapter.rows) {
      const std::int64_t begin = std::max(output.row, rows.begin);
      const std::int64_t end = std::min(output.row + output.view.cols, rows.begin + rows.count);
      if (begin >= end) continue;
      graph::View part = output.view;
      part.offset += begin - output.row;
      part.cols = end - begin;
      const bool only = outputs.size() == 1 && adapter.rows.size() == 1;
      visit(only ? std::string() : fmt::format(".{}", number), part, begin - rows.begin + rows.b_begin, end - begin,
            rows.stored);
      ++number;
    }
  }
}

std::string block_name(std::int64_t blocks, std::int64_t in) {
  return blocks == 1 ? "" : fmt::format(".i{}", in);
}

graph::TensorId scaled(Lowering& low, const Adapter& adapter, const char* name, graph::TensorId x, std::int64_t rows) {
  const graph::TensorId out = low.activation(name, rows, adapter.width());
  low.emit(name, graph::Scale{rows * adapter.width(), adapter.scale}, {{"x", low.read(x)}, {"out", low.write(out)}});
  return out;
}

}  // namespace

std::vector<Adapter> adapters_of(const Lowering& low, const Parameter& weight) {
  std::vector<Adapter> adapters;
  for (const AdapterMatrices& matrices : weight.adapters) {
    const ParameterSpec& b = *matrices.b->spec;
    const std::string scope = adapters.empty() ? "lora" : fmt::format("lora{}", adapters.size() + 1);
    Adapter adapter{matrices.a, matrices.b, b.adapter->rank, b.adapter->scale, {}, scope};
    std::int64_t row = 0;
    for (const StoredRows& rows : stored_rows(low.model(), *weight.spec, low.grid())) {
      const auto found = std::ranges::find(b.adapter->rows, weight.spec->stored[rows.stored].row_begin);
      if (found == b.adapter->rows.end()) continue;
      const auto stored = static_cast<std::size_t>(found - b.adapter->rows.begin());
      adapter.rows.push_back({rows.begin, rows.count, stored, row});
      row += rows.count;
    }
    adapters.push_back(std::move(adapter));
  }
  return adapters;
}

graph::TensorId add_adapter(Lowering& low, const Adapter& adapter, std::span<const graph::View> inputs,
                            std::span<const AdapterOutput> outputs) {
  auto scope = low.enter(adapter.scope);
  const std::int64_t rows = inputs.front().rows, cols = inputs.front().cols;
  const graph::TensorId product = low.activation("hidden", rows, adapter.width());
  const auto blocks = static_cast<std::int64_t>(inputs.size());
  for (std::int64_t in = 0; in < blocks; ++in) {
    const graph::View& input = inputs[static_cast<std::size_t>(in)];
    graph::Gemm gemm{rows, adapter.width(), cols, false, true};
    gemm.accumulate = in > 0;
    low.emit("gemm_a" + block_name(blocks, in), gemm,
             {{"A", graph::read(input)},
              {"B", graph::read(a_view(low, adapter.a->tensor, in, cols))},
              {"C", Lowering::result(low.view(product), in > 0)}});
  }
  const graph::TensorId hidden = scaled(low, adapter, "scale", product, rows);
  for_each_part(
      adapter, outputs,
      [&](const std::string& name, const graph::View& part, std::int64_t row, std::int64_t count, std::size_t stored) {
        graph::Gemm gemm{rows, count, adapter.rank, false, true};
        gemm.accumulate = true;
        low.emit("gemm_b" + name, gemm,
                 {{"A", graph::read(hidden_view(low, adapter, hidden, stored))},
                  {"B", graph::read(b_view(adapter, adapter.b->tensor, row, count))},
                  {"C", graph::read_write(part)}});
      });
  return hidden;
}

graph::TensorId adapter_gradient(Lowering& low, const Adapter& adapter, std::span<const AdapterOutput> doutputs) {
  auto scope = low.enter(adapter.scope);
  const std::int64_t rows = doutputs.front().view.rows;
  const graph::TensorId product = low.activation("dhidden", rows, adapter.width());
  std::set<std::size_t> begun;
  for_each_part(
      adapter, doutputs,
      [&](const std::string& name, const graph::View& part, std::int64_t row, std::int64_t count, std::size_t stored) {
        graph::Gemm gemm{rows, adapter.rank, count};
        gemm.accumulate = !begun.insert(stored).second;
        low.emit("gemm_dhidden" + name, gemm,
                 {{"A", graph::read(part)},
                  {"B", graph::read(b_view(adapter, adapter.b->tensor, row, count))},
                  {"C", Lowering::result(hidden_view(low, adapter, product, stored), gemm.accumulate)}});
      });
  return scaled(low, adapter, "scale", product, rows);
}

void add_adapter_input_gradient(Lowering& low, const Adapter& adapter, graph::TensorId dhidden, std::int64_t in,
                                const graph::View& dinput) {
  auto scope = low.enter(adapter.scope);
  graph::Gemm gemm{dinput.rows, dinput.cols, adapter.width()};
  gemm.accumulate = true;
  low.emit("gemm_dx" + block_name(adapter.a->shard->cols / dinput.cols, in), gemm,
           {{"A", low.read(dhidden)},
            {"B", graph::read(a_view(low, adapter.a->tensor, in, dinput.cols))},
            {"C", graph::read_write(dinput)}});
}

void add_adapter_weight_gradients(Lowering& low, const Adapter& adapter, graph::TensorId hidden,
                                  graph::TensorId dhidden, std::span<const graph::View> inputs,
                                  std::span<const AdapterOutput> doutputs) {
  auto scope = low.enter(adapter.scope);
  const std::int64_t rows = inputs.front().rows, cols = inputs.front().cols;
  const auto da = low.gradient_slot(*adapter.a), db = low.gradient_slot(*adapter.b);
  const auto blocks = static_cast<std::int64_t>(inputs.size());
  for (std::int64_t in = 0; in < blocks; ++in) {
    const graph::View& input = inputs[static_cast<std::size_t>(in)];
    low.emit("gemm_da" + block_name(blocks, in), graph::Gemm{adapter.width(), cols, rows, true, false, da.accumulate},
             {{"A", low.read(dhidden)},
              {"B", graph::read(input)},
              {"C", Lowering::result(a_view(low, da.tensor, in, cols), da.accumulate)}});
  }
  for_each_part(
      adapter, doutputs,
      [&](const std::string& name, const graph::View& part, std::int64_t row, std::int64_t count, std::size_t stored) {
        low.emit("gemm_db" + name, graph::Gemm{count, adapter.rank, rows, true, false, db.accumulate},
                 {{"A", graph::read(part)},
                  {"B", graph::read(hidden_view(low, adapter, hidden, stored))},
                  {"C", Lowering::result(b_view(adapter, db.tensor, row, count), db.accumulate)}});
      });
}

}  // namespace weft::ops
