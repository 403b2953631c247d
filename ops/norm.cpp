#include "ops/norm.h"

#include "ops/collectives.h"

namespace weft {
namespace {

Access slot_access(const Lowering& low, const Lowering::GradientSlot& slot) {
  return slot.accumulate ? low.read_write(slot.tensor) : low.write(slot.tensor);
}

Value layer_norm(Lowering& low, Value x, Parameter& weight, Parameter& bias) {
  const Value y{low.activation("out", x.rows, x.cols), x.rows, x.cols};
  const TensorId mean = low.scratch("mean", DType::f32, {x.rows}, Role::activation);
  const TensorId rstd = low.scratch("rstd", DType::f32, {x.rows}, Role::activation);
  low.emit("norm", LayerNormForward{x.rows, x.cols, low.model().norm_eps},
           {low.read(x.tensor), low.read(weight.tensor), low.read(bias.tensor), low.write(y.tensor), low.write(mean),
            low.write(rstd)});
  low.record({&weight, &bias}, [=, &weight, &bias](Lowering& l) {
    const TensorId dx = l.activation("dx", x.rows, x.cols);
    const auto residual = l.partial_gradient(x);
    const auto dw = l.gradient_slot(weight), db = l.gradient_slot(bias);
    std::vector<Access> accesses = {l.read(x.tensor),   l.read(weight.tensor), l.read(mean),
                                    l.read(rstd),       l.read(l.gradient(y)), l.write(dx),
                                    slot_access(l, dw), slot_access(l, db)};
    if (residual) accesses.push_back(l.read(*residual));
    l.emit("norm_dx", LayerNormBackward{x.rows, x.cols, residual.has_value(), dw.accumulate}, std::move(accesses));
    l.set_gradient(x, dx);
  });
  return y;
}

Value rms_norm(Lowering& low, Value x, Parameter& weight) {
  const Value y{low.activation("out", x.rows, x.cols), x.rows, x.cols};
  const TensorId rstd = low.scratch("rstd", DType::f32, {x.rows}, Role::activation);
  low.emit("norm", RmsNormForward{x.rows, x.cols, low.model().norm_eps},
           {low.read(x.tensor), low.read(weight.tensor), low.write(y.tensor), low.write(rstd)});
  low.record({&weight}, [=, &weight](Lowering& l) {
    const TensorId dx = l.activation("dx", x.rows, x.cols);
    const auto residual = l.partial_gradient(x);
    const auto dw = l.gradient_slot(weight);
    std::vector<Access> accesses = {l.read(x.tensor),      l.read(weight.tensor), l.read(rstd),
                                    l.read(l.gradient(y)), l.write(dx),           slot_access(l, dw)};
    if (residual) accesses.push_back(l.read(*residual));
    l.emit("norm_dx", RmsNormBackward{x.rows, x.cols, residual.has_value(), dw.accumulate}, std::move(accesses));
    l.set_gradient(x, dx);
  });
  return y;
}

// Rows whose columns lie on the ranks of x: they exchange each row's statistics, forward and backward.
Value norm_of_parts(Lowering& low, Value x, Parameter& weight, Parameter* bias) {
  const bool centered = bias != nullptr;
  const std::int64_t parts = low.grid().x, width = centered ? 2 : 1;
  const auto per_row = [&](Lowering& l, std::string_view name) {
    return l.scratch(name, DType::f32, {x.rows}, Role::activation);
  };
  const TensorId own = low.scratch("statistics", DType::f32, {x.rows, width}, Role::activation);
  low.emit("norm_statistics", NormStatistics{x.rows, x.cols, centered}, {low.read(x.tensor), low.write(own)});
  const TensorId all = all_gather(low, "all_gather_statistics", own, Channel::x);

  const Value y{low.activation("out", x.rows, x.cols), x.rows, x.cols};
  const TensorId mean = centered ? per_row(low, "mean") : TensorId();
  const TensorId rstd = per_row(low, "rstd");
  std::vector<Access> accesses = {low.read(x.tensor), low.read(weight.tensor)};
  if (centered) accesses.push_back(low.read(bias->tensor));
  accesses.insert(accesses.end(), {low.read(all), low.write(y.tensor)});
  if (centered) accesses.push_back(low.write(mean));
  accesses.push_back(low.write(rstd));
  low.emit("norm", NormForwardOfParts{x.rows, x.cols, parts, low.model().norm_eps, centered}, std::move(accesses));

  std::vector<Parameter*> parameters = {&weight};
  if (centered) parameters.push_back(bias);
  low.record(parameters, [=, &weight](Lowering& l) {
    const TensorId dy = l.gradient(y);
    const TensorId sums = l.scratch("sums", DType::f32, {x.rows, width}, Role::activation);
    std::vector<Access> inputs = {l.read(x.tensor), l.read(weight.tensor)};
    if (centered) inputs.push_back(l.read(mean));
    inputs.insert(inputs.end(), {l.read(rstd), l.read(dy)});
    std::vector<Access> of_sums = inputs;
    of_sums.push_back(l.write(sums));
    l.emit("norm_sums", NormBackwardSums{x.rows, x.cols, centered}, std::move(of_sums));
    all_reduce(l, "all_reduce_sums", sums, x.rows * width, Channel::x);

    const TensorId dx = l.activation("dx", x.rows, x.cols);
    const auto residual = l.partial_gradient(x);
    const auto dw = l.gradient_slot(weight);
    inputs.insert(inputs.end(), {l.read(sums), l.write(dx), slot_access(l, dw)});
    if (centered) inputs.push_back(slot_access(l, l.gradient_slot(*bias)));
    if (residual) inputs.push_back(l.read(*residual));
    l.emit("norm_dx", NormBackwardOfParts{x.rows, x.cols, parts, centered, residual.has_value(), dw.accumulate},
           std::move(inputs));
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

}  // namespace weft
