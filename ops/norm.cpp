#include "ops/norm.h"

#include "ops/collectives.h"

namespace weft::ops {
namespace {

Value layer_norm(Lowering& low, Value x, Parameter& weight, Parameter& bias) {
  const Value y{low.activation("out", x.rows, x.cols), x.rows, x.cols};
  const graph::TensorId mean = low.scratch("mean", DType::f32, {x.rows}, graph::Role::activation);
  const graph::TensorId rstd = low.scratch("rstd", DType::f32, {x.rows}, graph::Role::activation);
  low.emit("norm", graph::LayerNormForward{x.rows, x.cols, low.model().norm_eps},
           {{"x", low.read(x.tensor)},
            {"weight", low.read(weight.tensor)},
            {"bias", low.read(bias.tensor)},
            {"y", low.write(y.tensor)},
            {"mean", low.write(mean)},
            {"rstd", low.write(rstd)}});
  low.record({&weight, &bias}, [=, &weight, &bias](Lowering& l) {
    const graph::TensorId dx = l.activation("dx", x.rows, x.cols);
    const auto residual = l.partial_gradient(x);
    const auto dw = l.gradient_slot(weight), db = l.gradient_slot(bias);
    l.emit("norm_dx", graph::LayerNormBackward{x.rows, x.cols, residual.has_value(), dw.accumulate},
           {{"x", l.read(x.tensor)},
            {"weight", l.read(weight.tensor)},
            {"mean", l.read(mean)},
            {"rstd", l.read(rstd)},
            {"dy", l.read(l.gradient(y))},
            {"dx", l.write(dx)},
            {"dweight", l.result(dw)},
            {"dbias", l.result(db)},
            {"dresidual", graph::access_if(residual.has_value(), [&] { return l.read(*residual); })}});
    l.set_gradient(x, dx);
  });
  return y;
}

Value rms_norm(Lowering& low, Value x, Parameter& weight) {
  const Value y{low.activation("out", x.rows, x.cols), x.rows, x.cols};
  const graph::TensorId rstd = low.scratch("rstd", DType::f32, {x.rows}, graph::Role::activation);
  low.emit("norm", graph::RmsNormForward{x.rows, x.cols, low.model().norm_eps},
           {{"x", low.read(x.tensor)},
            {"weight", low.read(weight.tensor)},
            {"y", low.write(y.tensor)},
            {"rstd", low.write(rstd)}});
  low.record({&weight}, [=, &weight](Lowering& l) {
    const graph::TensorId dx = l.activation("dx", x.rows, x.cols);
    const auto residual = l.partial_gradient(x);
    const auto dw = l.gradient_slot(weight);
    l.emit("norm_dx", graph::RmsNormBackward{x.rows, x.cols, residual.has_value(), dw.accumulate},
           {{"x", l.read(x.tensor)},
            {"weight", l.read(weight.tensor)},
            {"rstd", l.read(rstd)},
            {"dy", l.read(l.gradient(y))},
            {"dx", l.write(dx)},
            {"dweight", l.result(dw)},
            {"dresidual", graph::access_if(residual.has_value(), [&] { return l.read(*residual); })}});
    l.set_gradient(x, dx);
  });
  return y;
}

// Norm of rows whose columns are sharded over x: the ranks exchange each row's statistics, forward and backward.
Value norm_of_parts(Lowering& low, Value x, Parameter& weight, Parameter* bias) {
  const bool centered = bias != nullptr;
  const std::int64_t parts = low.grid().x, width = centered ? 2 : 1;
  const auto per_row = [&](Lowering& l, std::string_view name) {
    return l.scratch(name, DType::f32, {x.rows}, graph::Role::activation);
  };
  const graph::TensorId own = low.scratch("statistics", DType::f32, {x.rows, width}, graph::Role::activation);
  low.emit("norm_statistics", graph::NormStatistics{x.rows, x.cols, centered},
           {{"x", low.read(x.tensor)}, {"statistics", low.write(own)}});
  const graph::TensorId all = all_gather(low, "all_gather_statistics", own, graph::Channel::x);

  const Value y{low.activation("out", x.rows, x.cols), x.rows, x.cols};
  const graph::TensorId mean = centered ? per_row(low, "mean") : graph::TensorId();
  const graph::TensorId rstd = per_row(low, "rstd");
  low.emit("norm", graph::NormForwardOfParts{x.rows, x.cols, parts, low.model().norm_eps, centered},
           {{"x", low.read(x.tensor)},
            {"weight", low.read(weight.tensor)},
            {"bias", graph::access_if(centered, [&] { return low.read(bias->tensor); })},
            {"statistics", low.read(all)},
            {"y", low.write(y.tensor)},
            {"mean", graph::access_if(centered, [&] { return low.write(mean); })},
            {"rstd", low.write(rstd)}});

  std::vector<Parameter*> parameters = {&weight};
  if (centered) parameters.push_back(bias);
  low.record(parameters, [=, &weight](Lowering& l) {
    const graph::TensorId dy = l.gradient(y);
    const graph::TensorId sums = l.scratch("sums", DType::f32, {x.rows, width}, graph::Role::activation);
    const auto saved_mean = graph::access_if(centered, [&] { return l.read(mean); });
    l.emit("norm_sums", graph::NormBackwardSums{x.rows, x.cols, centered},
           {{"x", l.read(x.tensor)},
            {"weight", l.read(weight.tensor)},
            {"mean", saved_mean},
            {"rstd", l.read(rstd)},
            {"dy", l.read(dy)},
            {"sums", l.write(sums)}});
    all_reduce(l, "all_reduce_sums", sums, x.rows * width, graph::Channel::x);

    const graph::TensorId dx = l.activation("dx", x.rows, x.cols);
    const auto residual = l.partial_gradient(x);
    const auto dw = l.gradient_slot(weight);
    l.emit("norm_dx", graph::NormBackwardOfParts{x.rows, x.cols, parts, centered, residual.has_value(), dw.accumulate},
           {{"x", l.read(x.tensor)},
            {"weight", l.read(weight.tensor)},
            {"mean", saved_mean},
            {"rstd", l.read(rstd)},
            {"dy", l.read(dy)},
            {"sums", l.read(sums)},
            {"dx", l.write(dx)},
            {"dweight", l.result(dw)},
            {"dbias", graph::access_if(centered, [&] { return l.result(l.gradient_slot(*bias)); })},
            {"dresidual", graph::access_if(residual.has_value(), [&] { return l.read(*residual); })}});
    l.set_gradient(x, dx);
  });
  return y;
}

}  // namespace

Value norm(Lowering& low, Value x, const std::string& name) {
  Parameter& weight = low.parameter(name + ".weight");
  Parameter* bias = low.model().family == Family::llama ? nullptr : &low.parameter(name + ".bias");
  if (low.grid().x > 1) return norm_of_parts(low, x, weight, bias);
  return bias == nullptr ? rms_norm(low, x, weight) : layer_norm(low, x, weight, *bias);
}

}  // namespace weft::ops
