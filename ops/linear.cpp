#include "ops/linear.h"

namespace weft {

Value linear(Lowering& low, Value x, Parameter& weight, Parameter* bias) {
  const std::int64_t out = weight.spec->rows, in = weight.spec->cols;
  const Value y{low.activation("out", x.rows, out), x.rows, out};
  std::vector<Access> accesses = {low.read(x.tensor), low.read(weight.tensor), low.write(y.tensor)};
  if (bias != nullptr) accesses.push_back(low.read(bias->tensor));
  low.emit("gemm", Gemm{x.rows, out, in, false, true, false, bias != nullptr}, std::move(accesses));

  std::vector<Parameter*> parameters = {&weight};
  if (bias != nullptr) parameters.push_back(bias);
  low.record(parameters, [=, &weight](Lowering& l) {
    const TensorId dy = l.gradient(y);
    const TensorId dx = l.activation("dx", x.rows, in);
    l.emit("gemm_dx", Gemm{x.rows, in, out}, {l.read(dy), l.read(weight.tensor), l.write(dx)});
    l.add_gradient(x, dx);
    const auto dw = l.gradient_slot(weight);
    l.emit("gemm_dw", Gemm{out, in, x.rows, true, false, dw.accumulate},
           {l.read(dy), l.read(x.tensor), dw.accumulate ? l.read_write(dw.tensor) : l.write(dw.tensor)});
    if (bias != nullptr) {
      const auto db = l.gradient_slot(*bias);
      l.emit("bias_grad", BiasGradient{x.rows, out, db.accumulate},
             {l.read(dy), db.accumulate ? l.read_write(db.tensor) : l.write(db.tensor)});
    }
  });
  return y;
}

}  // namespace weft
