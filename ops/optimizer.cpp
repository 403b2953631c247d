#include "ops/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ops/collectives.h"

namespace weft::ops {
namespace {

constexpr const char* kNormPartials = "norm_partials";

// Parameters that a step updates.
std::int64_t trained_parameters(Lowering& low) {
  return std::ranges::count_if(low.specs(), [](const ParameterSpec& spec) { return !spec.frozen; });
}

// One slot for each trained parameter. It is scratch, so every step writes it anew.
graph::TensorId norm_partials(Lowering& low) {
  return low.named(kNormPartials, DType::f32, {trained_parameters(low)}, graph::Role::workspace);
}

/// Slots of "norm_partials" that these ranks don't write: of other stages' parameters. Sums over the world need zeros.
void zero_other_slots(Lowering& low, std::vector<bool> written) {
  for (std::size_t first = 0; first < written.size(); ++first) {
    if (written[first]) continue;
    std::size_t end = first;
    while (end < written.size() && !written[end]) ++end;
    const auto begin = static_cast<std::int64_t>(first), count = static_cast<std::int64_t>(end - first);
    low.emit(fmt::format("zero_norms{}", first), graph::Zero{count},
             {{"out", graph::write(low.elements(norm_partials(low), begin, count))}});
    first = end;
  }
}

void cast_into(Lowering& low, const std::string& what, graph::TensorId from, graph::TensorId out) {
  const std::int64_t n = low.tensor(from).elements();
  low.emit(what, graph::Cast{n},
           {{"x", graph::read(low.elements(from, 0, n))}, {"out", graph::write(low.elements(out, 0, n))}});
}

graph::TensorId cast(Lowering& low, const std::string& what, graph::TensorId from, DType to, graph::Role role) {
  const graph::TensorId out = low.scratch(what + ".out", to, {low.tensor(from).elements()}, role);
  cast_into(low, what, from, out);
  return out;
}

bool cut_by_z(const Lowering& low, const Parameter& parameter) {
  return low.grid().z > 1 && is_cut_over_z(parameter.shard->sharding);
}

// Where a parameter stands: "mlp.up.weight" of layer 3, "wte.weight" of none (-1).
struct LayerName {
  std::int64_t layer = -1;
  std::string_view rest;
};

LayerName layer_name(std::string_view name) {
  LayerName found{-1, name};
  const std::size_t dot = name.find('.');
  if (!name.starts_with('L')) return found;
  std::from_chars(name.data() + 1, name.data() + dot, found.layer);
  found.rest = name.substr(dot + 1);
  return found;
}

// "mlp.up.weight.grad.mb1" of all layers: they take turns. A gradient is written when the scatter of the layer above is
// done, whatever the policy, so in a micro-batch one layer's gradients take memory.
std::string buffer_name(const Parameter& parameter, std::string_view what, std::int64_t micro_batch) {
  return fmt::format("{}.{}.mb{}", layer_name(parameter.spec->name).rest, what, micro_batch);
}

std::string shard_sum_name(const Parameter& parameter) {
  return parameter.spec->name + ".grad.shard";
}

// Every rank has added its own heads' contributions: one sum over all ranks.
ReducedGradient reduce_everywhere(Lowering& low, const StepConfig& step, Parameter& parameter) {
  const graph::Grid& grid = low.grid();
  const std::int64_t of_stage = graph::group_size(grid, graph::Channel::stage);
  const bool narrow = of_stage > 1 && step.reduce_dtype == DType::bf16;
  graph::TensorId sum = parameter.gradient;
  if (narrow) sum = cast(low, "cast", sum, DType::bf16, graph::Role::gradient);
  all_reduce(low, "all_reduce", sum, parameter.shard->elements(),
             of_stage < grid.ranks()  ? graph::Channel::stage
             : grid.model_ranks() > 1 ? graph::Channel::world
                                      : graph::Channel::data);
  if (narrow) sum = cast(low, "cast_back", sum, DType::f32, graph::Role::gradient);
  return {&parameter, sum, false};
}

// The axis over which a narrow matrix's gradient is summed beside z and data: the one that cuts its layer W and not the
// matrix itself. Of an adapter's A the ranks have the products with their own outputs' gradients, of B those with their
// own inputs; of a router, ranks of y have the gradients of their own columns of the experts. None for other
// parameters.
std::optional<graph::Axis> sum_of_narrow(Sharding sharding) {
  switch (sharding) {
    case Sharding::columns_over_x:
    case Sharding::rows_over_x:
      return graph::Axis::y;
    case Sharding::columns_over_y:
    case Sharding::rows_over_y:
      return graph::Axis::x;
    default:
      return std::nullopt;
  }
}

// Sums a gradient over z, unless each micro-batch was (`shard_sum`), and over data; over x or y, too, where ranks have
// different parts of it. Experts of single ranks have had all tokens of their neighbours, so theirs are summed over the
// ranks of z that have the same experts.
ReducedGradient reduce(Lowering& low, const StepConfig& step, Parameter& parameter,
                       std::optional<graph::TensorId> shard_sum = {}) {
  const ParameterShard& shard = *parameter.shard;
  if (shard.sharding == Sharding::everywhere) return reduce_everywhere(low, step, parameter);
  const graph::Grid& grid = low.grid();
  const std::int64_t kept = shard.end - shard.begin;
  const bool own_experts = is_of_own_experts(shard.sharding);
  const graph::Channel z_ranks = own_experts ? graph::Channel::expert_copies : graph::Channel::z_scatter;
  const bool over_z = graph::group_size(grid, z_ranks) > 1 && !shard_sum;
  const bool cut_by_data = step.zero1 && zero1_cuts(shard, grid);
  const std::optional<graph::Axis> axis = parameter.of_own_rows ? graph::Axis::y : sum_of_narrow(shard.sharding);
  const bool travels = over_z || grid.data > 1 || (axis && grid.on(*axis) > 1);
  const bool narrow = travels && step.reduce_dtype == DType::bf16;
  const std::string suffix = shard_sum ? "_data" : "";

  graph::TensorId sum = shard_sum.value_or(parameter.gradient);
  if (narrow) sum = cast(low, "cast" + suffix, sum, DType::bf16, graph::Role::gradient);
  if (axis) all_reduce(low, fmt::format("all_reduce_{}", graph::to_string(*axis)), sum, kept, channel_of(*axis));
  if (over_z && cut_by_z(low, parameter)) {
    sum = reduce_scatter(low, "reduce_scatter", sum, {kept}, graph::Role::gradient, graph::Channel::z_scatter);
  } else if (over_z) {
    all_reduce(low, own_experts ? "all_reduce_copies" : "all_reduce_z", sum, kept, z_ranks);
  }
  if (cut_by_data) {
    sum = reduce_scatter(low, "reduce_scatter_data", sum, {kept / grid.data}, graph::Role::gradient,
                         graph::Channel::data);
  } else {
    all_reduce(low, "all_reduce", sum, kept, graph::Channel::data);
  }
  if (narrow) sum = cast(low, "cast_back" + suffix, sum, DType::f32, graph::Role::gradient);
  return {&parameter, sum, cut_by_data};
}

// The coordinate that is 0 on exactly one of the ranks that hold the same elements of a reduced gradient; nothing if no
// other rank holds them.
std::optional<CoordinateIndex> replicas_of(Sharding sharding, bool zero1) {
  switch (sharding) {
    case Sharding::normal:
    case Sharding::transposed:
      break;
    case Sharding::experts_up:
    case Sharding::experts_down:
      return zero1 ? CoordinateIndex::copy : CoordinateIndex::copy_data;
    case Sharding::columns:
      return zero1 ? CoordinateIndex::y : CoordinateIndex::y_data;
    case Sharding::over_x:
    case Sharding::columns_over_x:
    case Sharding::rows_over_x:
      return zero1 ? CoordinateIndex::yz : CoordinateIndex::yz_data;
    case Sharding::over_y:
    case Sharding::columns_over_y:
    case Sharding::rows_over_y:
      return zero1 ? CoordinateIndex::xz : CoordinateIndex::xz_data;
    case Sharding::everywhere:
      return CoordinateIndex::rank;
  }
  if (zero1) return std::nullopt;
  return CoordinateIndex::data;
}

}  // namespace

GradientReducer::GradientReducer(Lowering& low, const StepConfig& step) : low_(low), step_(step) {
  low_.on_gradient_complete(
      [this](Lowering&, Parameter& parameter, std::int64_t micro_batch) { complete(parameter, micro_batch); });
  choose_buffers(0);
}

void GradientReducer::choose_buffers(std::int64_t micro_batch) {
  if (!step_.scatters_each_micro_batch()) return;
  for (const auto& parameter : low_.parameters()) {
    if (cut_by_z(low_, *parameter)) parameter->gradient_name = buffer_name(*parameter, "grad", micro_batch);
  }
}

void GradientReducer::complete(Parameter& parameter, std::int64_t micro_batch) {
  const bool each = step_.scatters_each_micro_batch() && cut_by_z(low_, parameter);
  const bool last = micro_batch == step_.micro_batches - 1;
  if (!each && !last) return;
  // Within a layer the scope already names the matrix; elsewhere (embeddings, norms of Q and K, adapters) several
  // parameters share a scope.
  const std::string& name = parameter.spec->name;
  const bool shares_scope = parameter.shard->sharding == Sharding::everywhere || is_adapter(*parameter.spec);
  const std::size_t dot = name.rfind('.'), begin = shares_scope ? name.rfind('.', dot - 1) : dot;
  auto scope = low_.enter(name.starts_with('L') ? name.substr(begin + 1) : name);
  if (!each) {
    add(reduce(low_, step_, parameter));
    return;
  }
  // The same matrix of a layer above, whose buffer this one takes, had the time of a layer's backward pass for its
  // scatter; the head, the layer above all others, has as much.
  const LayerName at = layer_name(name);
  const auto has_had_time = [&](const PutOff& other) {
    const LayerName from = layer_name(other.parameter->spec->name);
    return from.layer < 0 ? at.layer + 2 <= low_.model().layers : from.layer > at.layer && from.rest == at.rest;
  };
  if (at.layer >= 0) emit_put_off(has_had_time);
  scatter(parameter, micro_batch);
}

void GradientReducer::scatter(Parameter& parameter, std::int64_t micro_batch) {
  const bool first = micro_batch == 0, last = micro_batch == step_.micro_batches - 1;
  const std::int64_t kept = parameter.shard->end - parameter.shard->begin;
  const auto buffer = [&](std::string_view what, DType dtype, std::int64_t count) {
    return low_.named(buffer_name(parameter, what, micro_batch), dtype, {count}, graph::Role::gradient);
  };
  const bool narrow = step_.reduce_dtype == DType::bf16;
  const graph::TensorId sum = low_.named(shard_sum_name(parameter), DType::f32, {kept}, graph::Role::gradient);
  const graph::TensorId part = first ? sum : buffer("part", DType::f32, kept);
  graph::TensorId in = low_.take_gradient(parameter), out = part;
  if (narrow) {
    const graph::TensorId sent = buffer("sent", DType::bf16, low_.tensor(in).elements());
    cast_into(low_, "cast", in, sent);
    in = sent;
    out = buffer("received", DType::bf16, kept);
  }
  reduce_scatter_into(low_, "reduce_scatter", in, out, graph::Channel::z_scatter);
  const auto rest = [=, this, &parameter] {
    if (narrow) cast_into(low_, "cast_back", out, part);
    if (!first) {
      low_.emit("accumulate", graph::Add{kept},
                {{"a", low_.read(sum)}, {"b", low_.read(part)}, {"out", low_.write(sum)}});
    }
    if (last) add(reduce(low_, step_, parameter, sum));
  };
  put_off_.push_back({&parameter, low_.here(), rest});
}

void GradientReducer::add(ReducedGradient gradient) {
  Parameter& parameter = *gradient.parameter;
  const PipelineLayout& layout = low_.layout();
  const bool tied = low_.model().tied && layout.stages() > 1 && parameter.spec->name == "wte.weight";
  if (!tied) {
    reduced_.push_back(gradient);
    return;
  }
  const std::int64_t count = low_.tensor(gradient.tensor).elements();
  if (layout.rank_of(0) != layout.last_rank()) {
    // After all messages, which the two stages' sum must not delay. One task of two stages has one name.
    Lowering::Frame frame = low_.here();
    frame.prefix = "tied.wte.";
    tied_ = PutOff{&parameter, frame, [this, gradient, count] {
                     all_reduce(low_, "all_reduce", gradient.tensor, count, graph::Channel::embedding);
                     reduced_.push_back(gradient);
                   }};
  } else if (parameter.embedding != nullptr) {
    of_head_ = gradient;
  } else {
    const graph::TensorId sum = low_.scratch("tied_sum", DType::f32, {count}, graph::Role::gradient);
    const auto all = [&](graph::TensorId tensor) { return low_.elements(tensor, 0, count); };
    low_.emit("add_tied", graph::Add{count},
              {{"a", graph::read(all(gradient.tensor))},
               {"b", graph::read(all(of_head_->tensor))},
               {"out", graph::write(all(sum))}});
    reduced_.push_back({&parameter, sum, gradient.zero1});
  }
}

void GradientReducer::emit_put_off(const std::function<bool(const PutOff&)>& chosen) {
  for (const PutOff& put_off : put_off_) {
    if (!chosen(put_off)) continue;
    auto scope = low_.enter_again(put_off.scope);
    put_off.emit();
  }
  std::erase_if(put_off_, chosen);
}

void GradientReducer::end_of_micro_batch(std::int64_t micro_batch) {
  emit_put_off([](const PutOff&) { return true; });
  if (tied_) {
    auto scope = low_.enter_again(tied_->scope);
    tied_->emit();
    tied_.reset();
  }
  choose_buffers(micro_batch + 1);
}

void clip_and_update(Lowering& low, const StepConfig& step, const std::vector<ReducedGradient>& reduced,
                     graph::TensorId metrics) {
  low.set_phase(graph::Phase::update);
  const std::int64_t count = trained_parameters(low);
  // Adapters are the last parameters, and trained alone, so a slot is counted from the first one that is trained.
  // Ranks hold different elements: each element is counted by its first owner only, and the partial sums are added over
  // ranks.
  const bool summed = low.grid().model_ranks() > 1 || step.zero1;
  std::vector<bool> written(static_cast<std::size_t>(count));
  for (const ReducedGradient& gradient : reduced) {
    const ParameterSpec& spec = *gradient.parameter->spec;
    const std::int64_t n = low.tensor(gradient.tensor).elements();
    const std::int64_t slot = spec.site - (std::ssize(low.specs()) - count);
    auto scope = low.enter(spec.name);
    // The first stage counts a tied embedding.
    if (is_copy(low.model(), low.layout(), spec, low.pipe())) continue;
    written.at(static_cast<std::size_t>(slot)) = true;
    const auto replicas =
        summed ? replicas_of(gradient.parameter->shard->sharding, gradient.zero1) : std::optional<CoordinateIndex>();
    low.emit("norm", graph::SumSquares{n, replicas.has_value()},
             {{"x", graph::read(low.elements(gradient.tensor, 0, n))},
              {"partial", graph::write(low.elements(norm_partials(low), slot, 1))},
              {"replica", graph::access_if(replicas.has_value(), [&] { return coordinate(low, *replicas); })}});
  }
  const graph::TensorId scalars = low.named(names::kScalars, DType::f32, {4}, graph::Role::scalar);
  const graph::View norm_and_factor = low.elements(metrics, 3, 2);
  zero_other_slots(low, std::move(written));
  if (summed) all_reduce(low, "all_reduce_norms", norm_partials(low), count, graph::Channel::world);
  const bool clips = step.clip > 0;
  const auto emit_clip = [&] {
    low.emit("clip", graph::ClipFactor{count, step.clip},
             {{"partials", low.read(norm_partials(low))}, {"norm_and_factor", graph::write(norm_and_factor)}});
  };
  if (clips) emit_clip();

  for (const auto& parameter : low.parameters()) {
    if (parameter->spec->frozen) continue;
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
    low.emit(
        "adamw",
        graph::AdamW{n, step.beta1, step.beta2, step.eps, spec.matrix ? step.weight_decay : 0.0F, has_master, !clips},
        {{"param", gradient.zero1 ? graph::write(weights) : graph::read_write(weights)},
         {"grad", graph::read(low.elements(gradient.tensor, 0, n))},
         {"m", moment(".m")},
         {"v", moment(".v")},
         {"scalars", low.read(scalars)},
         {"norm_and_factor", graph::access_if(clips, [&] { return graph::read(norm_and_factor); })},
         {"master", graph::access_if(has_master, [&] { return moment(".master"); })}});
    if (gradient.zero1) {
      const std::int64_t ranks = low.grid().data;
      low.emit("all_gather", graph::AllGather{graph::Channel::data, ranks, n},
               {{"in", graph::read(weights)}, {"out", graph::write(low.elements(parameter->tensor, 0, ranks * n))}});
    }
  }
  if (!clips) emit_clip();  // its norm is told; no update waits for it
}

}  // namespace weft::ops
