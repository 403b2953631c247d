// Low-rank adapters of linear layers (LoRA): their products, beside the products of W, and the adjoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ops/lowering.h"

namespace weft::ops {

/// Consecutive rows of a rank's block of W with an adapter.
struct AdaptedRows {
  std::int64_t begin = 0, count = 0;
  std::size_t stored = 0;    // the one of A's stored tensors that computes them
  std::int64_t b_begin = 0;  // the first of them in B's block
};

/// The adapter of a matrix W [out, in] on a grid: y += scale · (x·Aᵀ)·Bᵀ. Where several tensors store rows of W, each
/// has an adapter of its own: A has `rank` rows for each of them, and a row of B reads the columns of x·Aᵀ of its
/// tensor. Tensors without an adapter have no rows in A and B, and those with another rank or scale are in another
/// Adapter of W.
///
/// All is linear, so no activation is sent on the adapter's account. A is cut along `in` and B along `out`, as W is. A
/// rank adds its part to its partial sum of W's outputs, and to that of the input's gradient, before these are reduced.
/// Only the gradients of A and B themselves remain to be summed over the axis that cuts the other side of W.
struct Adapter {
  Parameter *a = nullptr, *b = nullptr;
  std::int64_t rank = 0;
  float scale = 0.0F;
  std::vector<AdaptedRows> rows;
  std::string scope;  // of its tasks

  /// Columns of x·Aᵀ.
  std::int64_t width() const { return a->shard->rows; }
};

/// Of a matrix; mostly one, or none.
std::vector<Adapter> adapters_of(const Lowering& low, const Parameter& weight);

/// Columns of the layer's output, or of its gradient, [rows, cols]. The rows of W's block from `row` on compute them.
struct AdapterOutput {
  graph::View view;
  std::int64_t row = 0;
};

/// Adds to `outputs`. `inputs`: x, in blocks of columns that follow one another. Returns scale · x·Aᵀ for the adjoint.
graph::TensorId add_adapter(Lowering& low, const Adapter& adapter, std::span<const graph::View> inputs,
                            std::span<const AdapterOutput> outputs);

/// The gradient of x·Aᵀ.
graph::TensorId adapter_gradient(Lowering& low, const Adapter& adapter, std::span<const AdapterOutput> doutputs);

/// Adds to `dinput`, the gradient of block `in` of the inputs.
void add_adapter_input_gradient(Lowering& low, const Adapter& adapter, graph::TensorId dhidden, std::int64_t in,
                                const graph::View& dinput);

/// Adds to the gradients of A and B.
void add_adapter_weight_gradients(Lowering& low, const Adapter& adapter, graph::TensorId hidden,
                                  graph::TensorId dhidden, std::span<const graph::View> inputs,
                                  std::span<const AdapterOutput> doutputs);

}  // namespace weft::ops
