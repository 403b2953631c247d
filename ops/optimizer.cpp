#include "ops/optimizer.h"

namespace weft {
namespace {

constexpr const char* kNormPartials = "norm_partials";

// One slot a parameter; scratch, so written anew each step.
TensorId norm_partials(Lowering& low) {
  return low.named(kNormPartials, DType::f32, {static_cast<std::int64_t>(low.parameters().size())}, Role::workspace);
}

}  // namespace

void all_reduce_data(Lowering& low, std::string_view what, TensorId tensor, std::int64_t count,
                     std::int64_t data_ranks) {
  if (data_ranks == 1) return;
  const DType dtype = low.tensor(tensor).dtype;
  const TensorId workspace =
      low.scratch(std::string(what) + ".workspace", dtype, {all_reduce_workspace(count, data_ranks)}, Role::workspace);
  low.emit(what, AllReduce{Channel::data, data_ranks, count},
           {read_write(low.elements(tensor, 0, count)), low.write(workspace)});
}

void reduce_gradients_as_they_complete(Lowering& low, const StepConfig& step, std::vector<Parameter*>& completed) {
  low.on_gradient_complete(
      [ranks = step.data_ranks, &completed](Lowering& l, Parameter& parameter) {
        completed.push_back(&parameter);
        // Within a layer the scope already says which matrix; elsewhere (embeddings) several share one.
        const std::string& name = parameter.spec->name;
        auto scope = l.enter(name.starts_with('L') ? name.substr(name.rfind('.') + 1) : name);
        all_reduce_data(l, "all_reduce", parameter.gradient, l.tensor(parameter.gradient).elements(), ranks);
      },
      step.micro_batches - 1);
}

void clip_and_update(Lowering& low, const StepConfig& step, const std::vector<Parameter*>& completed,
                     TensorId metrics) {
  low.set_phase(Phase::update);
  for (Parameter* parameter : completed) {
    const std::int64_t n = low.tensor(parameter->gradient).elements();
    auto scope = low.enter(parameter->spec->name);
    low.emit("norm", SumSquares{n},
             {read(low.elements(parameter->gradient, 0, n)),
              write(low.elements(norm_partials(low), parameter->spec->site, 1))});
  }
  const auto count = static_cast<std::int64_t>(low.parameters().size());
  const TensorId scalars = low.named(names::kScalars, DType::f32, {4}, Role::scalar);
  const View norm_and_factor = low.elements(metrics, 3, 2);
  low.emit("clip", ClipFactor{count, step.clip}, {low.read(norm_partials(low)), write(norm_and_factor)});
  for (const auto& parameter : low.parameters()) {
    const std::string& name = parameter->spec->name;
    const std::vector<std::int64_t> shape = low.tensor(parameter->tensor).shape;
    const std::int64_t n = low.tensor(parameter->tensor).elements();
    const auto flat = [&](TensorId id) { return low.elements(id, 0, n); };
    const auto moment = [&](const char* suffix) {
      return read_write(flat(low.named(name + suffix, DType::f32, shape, Role::optimizer_state)));
    };
    const bool has_master = low.dtype() == DType::bf16;
    std::vector<Access> accesses = {read_write(flat(parameter->tensor)),
                                    read(flat(parameter->gradient)),
                                    moment(".m"),
                                    moment(".v"),
                                    low.read(scalars),
                                    read(norm_and_factor)};
    if (has_master) accesses.push_back(moment(".master"));
    auto scope = low.enter(name);
    low.emit("adamw",
             AdamW{n, step.beta1, step.beta2, step.eps, parameter->spec->matrix ? step.weight_decay : 0.0F, has_master},
             std::move(accesses));
  }
}

}  // namespace weft
