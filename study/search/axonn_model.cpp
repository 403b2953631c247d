#include "study/search/axonn_model.h"

#include <array>

#include "graph/operations/schema.h"

namespace weft::study {
namespace {

struct Product {
  double in = 0, out = 0;
  bool transposed = false;  // cut over y, then x
};

/// The share of an array that a ring of n ranks sends.
double ring(double n) {
  return (n - 1) / n;
}

}  // namespace

double axonn_seconds(const AxonnStep& step, const AxisBandwidth& bandwidth) {
  constexpr double kWeight = 2, kGradient = 4;  // bytes of an element
  const ops::ModelConfig& model = step.model;
  const graph::Grid& grid = step.grid;
  const double hidden = graph::as_double(model.hidden), q = graph::as_double(model.query_cols()),
               kv = graph::as_double(model.key_cols());
  const double up = graph::as_double(model.ffn) * (model.family == ops::Family::llama ? 2 : 1);
  const std::array<Product, 4> products = {Product{hidden, q + 2 * kv, false}, Product{q, hidden, true},
                                           Product{hidden, up, false},
                                           Product{graph::as_double(model.ffn), hidden, true}};
  const double x = graph::as_double(grid.x), y = graph::as_double(grid.y), z = graph::as_double(grid.z),
               data = graph::as_double(grid.data);
  const double rows = graph::as_double(step.sequences * step.seq_len) / (data * z);
  const double again = step.recompute ? 2 : 1, micro_batches = graph::as_double(step.micro_batches);
  double over_z = 0, over_x = 0, over_y = 0, over_data = 0;
  for (const Product& product : products) {
    const double weights = product.in * product.out / (x * y);
    over_z += (again + 1) * micro_batches * ring(z) * weights * kWeight;
    over_data += 2 * ring(data) * weights / z * kGradient;
    const double inner = product.transposed ? y : x, outer = product.transposed ? x : y;
    const double outputs = again * 2 * ring(inner) * rows * product.out / outer * kWeight;
    const double inputs = 2 * ring(outer) * rows * product.in / inner * kWeight;
    (product.transposed ? over_y : over_x) += outputs;
    (product.transposed ? over_x : over_y) += inputs;
  }
  const auto seconds = [&](double bytes, graph::Axis axis) {
    return bytes > 0 ? graph::as_double(model.layers) * bytes / bandwidth(axis) : 0;
  };
  return seconds(over_x, graph::Axis::x) + seconds(over_y, graph::Axis::y) + seconds(over_z, graph::Axis::z) +
         seconds(over_data, graph::Axis::data);
}

}  // namespace weft::study
