#include "ops/norm.h"

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

}  // namespace

Value norm(Lowering& low, Value x, const std::string& name) {
  Parameter& weight = low.parameter(name + ".weight");
  if (low.model().family == Family::llama) return rms_norm(low, x, weight);
  return layer_norm(low, x, weight, low.parameter(name + ".bias"));
}

}  // namespace weft
