#include "ops/activation.h"

#include "ops/collectives.h"
#include "ops/lower.h"

namespace weft::ops {
namespace {

graph::TensorId random_state(Lowering& low) {
  return low.named(names::kRandom, DType::i64, {3}, graph::Role::scalar);
}

// y = x with elements dropped (+ residual). Values beside the residual stream are sharded over x, and so is the mask's
// coordinate.
void emit_dropout(Lowering& low, std::string_view what, const Value& x, graph::TensorId y, const DropoutSite& where,
                  std::optional<graph::TensorId> residual) {
  const std::int64_t parts = low.grid().x;
  graph::Dropout op{x.rows, x.cols, where.row_offset, where.p, where.site, residual.has_value(), parts};
  low.emit(what, op,
           {{"x", low.read(x.tensor)},
            {"random", low.read(random_state(low))},
            {"y", low.write(y)},
            {"residual", graph::access_if(op.residual, [&] { return low.read(*residual); })},
            {"coordinate", graph::access_if(parts > 1, [&] { return coordinate(low, graph::Axis::x); })}});
}

// dy with the same elements dropped as in the forward pass.
graph::TensorId dropped_gradient(Lowering& low, graph::TensorId dy, std::int64_t rows, std::int64_t cols,
                                 const DropoutSite& where) {
  const graph::TensorId dx = low.activation("dropout_dx", rows, cols);
  emit_dropout(low, "dropout_dx", {dy, rows, cols}, dx, where, std::nullopt);
  return dx;
}

}  // namespace

Value gelu(Lowering& low, Value x) {
  const std::int64_t n = x.rows * x.cols;
  const Value y{low.activation("out", x.rows, x.cols), x.rows, x.cols};
  low.emit("gelu", graph::GeluForward{n}, {{"x", low.read(x.tensor)}, {"y", low.write(y.tensor)}});
  low.record({}, [=](Lowering& l) {
    const graph::TensorId dx = l.activation("dx", x.rows, x.cols);
    l.emit("gelu_dx", graph::GeluBackward{n},
           {{"x", l.read(x.tensor)}, {"dy", l.read(l.gradient(y))}, {"dx", l.write(dx)}});
    l.add_gradient(x, dx);
  });
  return y;
}

Value swiglu(Lowering& low, Value x) {
  const std::int64_t cols = x.cols / 2;
  const Value y{low.activation("out", x.rows, cols), x.rows, cols};
  low.emit("swiglu", graph::SwiGluForward{x.rows, cols}, {{"x", low.read(x.tensor)}, {"y", low.write(y.tensor)}});
  low.record({}, [=](Lowering& l) {
    const graph::TensorId dx = l.activation("dx", x.rows, x.cols);
    l.emit("swiglu_dx", graph::SwiGluBackward{x.rows, cols},
           {{"x", l.read(x.tensor)}, {"dy", l.read(l.gradient(y))}, {"dx", l.write(dx)}});
    l.add_gradient(x, dx);
  });
  return y;
}

Value dropout(Lowering& low, Value x, const DropoutSite& where) {
  if (where.p == 0.0F) return x;
  const Value y{low.activation("dropout", x.rows, x.cols), x.rows, x.cols};
  emit_dropout(low, "dropout", x, y.tensor, where, std::nullopt);
  low.record({}, [=](Lowering& l) { l.add_gradient(x, dropped_gradient(l, l.gradient(y), x.rows, x.cols, where)); });
  return y;
}

Value add_residual(Lowering& low, Value residual, Value branch, const DropoutSite& where) {
  const Value y{low.activation("residual", residual.rows, residual.cols), residual.rows, residual.cols};
  if (where.p == 0.0F) {
    low.emit("add", graph::Add{y.rows * y.cols},
             {{"a", low.read(residual.tensor)}, {"b", low.read(branch.tensor)}, {"out", low.write(y.tensor)}});
  } else {
    emit_dropout(low, "dropout_add", branch, y.tensor, where, residual.tensor);
  }
  low.record({}, [=](Lowering& l) {
    const graph::TensorId dy = l.gradient(y);
    l.add_gradient(residual, dy);
    l.add_gradient(branch, where.p == 0.0F ? dy : dropped_gradient(l, dy, y.rows, y.cols, where));
  });
  return y;
}

}  // namespace weft::ops
