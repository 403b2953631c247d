#include "ops/optimizer.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "ops/collectives.h"

namespace weft::ops {
namespace {

constexpr const char* kNormPartials = "norm_partials";

// One slot for each parameter; scratch, so written anew in each step.
graph::TensorId norm_partials(Lowering& low) {
  return low.named(kNormPartials, DType::f32, {static_cast<std::int64_t>(low.parameters().size())},
                   graph::Role::workspace);
}

graph::TensorId cast(Lowering& low, const std::string& what, graph::TensorId from, DType to, graph::Role role) {
  const std::int64_t n = low.tensor(from).elements();
  const graph::TensorId out = low.scratch(what + ".out", to, {n}, role);
  low.emit(what, graph::Cast{n},
           {{"x", graph::read(low.elements(from, 0, n))}, {"out", graph::write(low.elements(out, 0, n))}});
  return out;
}

ReducedGradient reduce(Lowering& low, const StepConfig& step, Parameter& parameter) {
  const ParameterShard& shard = *parameter.shard;
  const graph::Grid& grid = low.grid();
  const std::int64_t kept = shard.end - shard.begin;
  const bool over_z = grid.z > 1, cut_by_z = over_z && is_matrix(shard.sharding);
  const bool cut_by_data = step.zero1 && zero1_cuts(shard, grid);
  const bool travels = over_z || grid.data > 1, narrow = travels && step.reduce_dtype == DType::bf16;

  graph::TensorId sum = parameter.gradient;
  if (narrow) sum = cast(low, "cast", sum, DType::bf16, graph::Role::gradient);
  if (cut_by_z) {
    sum = reduce_scatter(low, "reduce_scatter", sum, {kept}, graph::Role::gradient, graph::Channel::z_scatter);
  } else {
    all_reduce(low, "all_reduce_z", sum, kept, graph::Channel::z_scatter);
  }
  if (cut_by_data) {
    sum = reduce_scatter(low, "reduce_scatter_data", sum, {kept / grid.data}, graph::Role::gradient,
                         graph::Channel::data);
  } else {
    all_reduce(low, "all_reduce", sum, kept, graph::Channel::data);
  }
  if (narrow) sum = cast(low, "cast_back", sum, DType::f32, graph::Role::gradient);
  return {&parameter, sum, cut_by_data};
}

// The coordinate that is 0 on exactly one of the ranks that hold the same elements of a reduced gradient; nothing if no
// other rank holds them.
std::optional<CoordinateIndex> replicas_of(Sharding sharding, bool zero1) {
  switch (sharding) {
    case Sharding::normal:
    case Sharding::transposed:
      break;
    case Sharding::columns:
      return zero1 ? CoordinateIndex::y : CoordinateIndex::y_data;
    case Sharding::over_x:
      return zero1 ? CoordinateIndex::yz : CoordinateIndex::yz_data;
    case Sharding::over_y:
      return zero1 ? CoordinateIndex::xz : CoordinateIndex::xz_data;
  }
  if (zero1) return std::nullopt;
  return CoordinateIndex::data;
}

}  // namespace

void reduce_gradients_as_they_complete(Lowering& low, const StepConfig& step, std::vector<ReducedGradient>& reduced) {
  low.on_gradient_complete(
      [step, &reduced](Lowering& l, Parameter& parameter) {
        // Within a layer the scope already names the matrix; elsewhere (embeddings) several parameters share a scope.
        const std::string& name = parameter.spec->name;
        auto scope = l.enter(name.starts_with('L') ? name.substr(name.rfind('.') + 1) : name);
        reduced.push_back(reduce(l, step, parameter));
      },
      step.micro_batches - 1);
}

void clip_and_update(Lowering& low, const StepConfig& step, const std::vector<ReducedGradient>& reduced,
                     graph::TensorId metrics) {
  low.set_phase(graph::Phase::update);
  const auto count = static_cast<std::int64_t>(low.parameters().size());
  // Ranks hold different elements: each element is counted by its first owner only, and the partial sums are added over
  // ranks.
  const bool summed = low.grid().model_ranks() > 1 || step.zero1;
  for (const ReducedGradient& gradient : reduced) {
    const ParameterSpec& spec = *gradient.parameter->spec;
    const std::int64_t n = low.tensor(gradient.tensor).elements();
    auto scope = low.enter(spec.name);
    const auto replicas =
        summed ? replicas_of(gradient.parameter->shard->sharding, gradient.zero1) : std::optional<CoordinateIndex>();
    low.emit("norm", graph::SumSquares{n, replicas.has_value()},
             {{"x", graph::read(low.elements(gradient.tensor, 0, n))},
              {"partial", graph::write(low.elements(norm_partials(low), spec.site, 1))},
              {"replica", graph::access_if(replicas.has_value(), [&] { return coordinate(low, *replicas); })}});
  }
  const graph::TensorId scalars = low.named(names::kScalars, DType::f32, {4}, graph::Role::scalar);
  const graph::View norm_and_factor = low.elements(metrics, 3, 2);
  if (summed) all_reduce(low, "all_reduce_norms", norm_partials(low), count, graph::Channel::world);
  low.emit("clip", graph::ClipFactor{count, step.clip},
           {{"partials", low.read(norm_partials(low))}, {"norm_and_factor", graph::write(norm_and_factor)}});

  for (const auto& parameter : low.parameters()) {
    const ReducedGradient& gradient = *std::find_if(
        reduced.begin(), reduced.end(), [&](const ReducedGradient& r) { return r.parameter == parameter.get(); });
    const ParameterSpec& spec = *parameter->spec;
    const std::int64_t n = low.tensor(gradient.tensor).elements();
    const std::vector<std::int64_t> shape = gradient.zero1 ? std::vector{n} : low.tensor(parameter->tensor).shape;
    const auto moment = [&](const char* suffix) {
      return graph::read_write(
          low.elements(low.named(spec.name + suffix, DType::f32, shape, graph::Role::optimizer_state), 0, n));
    };
    auto scope = low.enter(spec.name);
    // With ZeRO-1 the rank's part of the weights comes from its master copy, and every rank gathers all parts.
    const graph::TensorId updated =
        gradient.zero1 ? low.scratch("own", low.dtype(), {n}, graph::Role::workspace) : parameter->tensor;
    const bool has_master = low.dtype() == DType::bf16 || gradient.zero1;
    const graph::View weights = low.elements(updated, 0, n);
    low.emit("adamw",
             graph::AdamW{n, step.beta1, step.beta2, step.eps, spec.matrix ? step.weight_decay : 0.0F, has_master},
             {{"param", gradient.zero1 ? graph::write(weights) : graph::read_write(weights)},
              {"grad", graph::read(low.elements(gradient.tensor, 0, n))},
              {"m", moment(".m")},
              {"v", moment(".v")},
              {"scalars", low.read(scalars)},
              {"norm_and_factor", graph::read(norm_and_factor)},
              {"master", graph::access_if(has_master, [&] { return moment(".master"); })}});
    if (gradient.zero1) {
      const std::int64_t ranks = low.grid().data;
      low.emit("all_gather", graph::AllGather{graph::Channel::data, ranks, n},
               {{"in", graph::read(weights)}, {"out", graph::write(low.elements(parameter->tensor, 0, ranks * n))}});
    }
  }
}

}  // namespace weft::ops
