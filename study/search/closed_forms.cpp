#include "study/search/closed_forms.h"

#include <algorithm>
#include <limits>
#include <string>

#include "graph/operations/schema.h"
#include "ops/pipeline_layout.h"
#include "runtime/cost/measured_rates.h"

namespace weft::study {
namespace {

double element_bytes(DType dtype) {
  return static_cast<double>(static_cast<std::int64_t>(size_of(dtype)));
}

/// The factor by which every collective slows every computation down, if there is one for all of them.
double common_slowdown(const cost::Machine& machine) {
  const bool common = machine.slowdowns.size() == 1 && machine.slowdowns.front().compute.empty() &&
                      machine.slowdowns.front().collective.empty();
  return common ? machine.slowdowns.front().factor : 1;
}

/// Whether the policy runs gradients of weights, a third of the work, where a rank would be idle.
bool fills_idle_time(const policy::Policy& policy) {
  const std::string name = policy.name();
  return name != "gpipe" && name != "1f1b" && name != "interleaved";
}

bool one_by_one(const policy::Policy& policy) {
  return policy.name() == "program" || policy.name() == "serial" || policy.name() == "random";
}

/// The share of an array that a ring of n ranks sends.
double ring(double n) {
  return (n - 1) / n;
}

}  // namespace

std::array<LayerProduct, 4> layer_products(const ops::ModelConfig& model) {
  const double hidden = graph::as_double(model.hidden), q = graph::as_double(model.query_cols()),
               kv = graph::as_double(model.key_cols());
  const double ffn = graph::as_double(model.experts > 0 ? model.expert_cols() : model.ffn);
  const double matrices = model.experts > 0 ? graph::as_double(model.experts) : 1;
  const double taken = model.experts > 0 ? graph::as_double(model.experts_per_token) : 1;
  const double up = ffn * (model.parts().gated() ? 2 : 1);
  const ops::LoraConfig& lora = model.lora;
  const auto trained = [&](const ops::LoraModules& of_product) { return !lora.used() || (lora.on & of_product).any(); };
  return {LayerProduct{.in = hidden, .out = q + 2 * kv, .trained = trained(ops::kLoraQkv)},
          LayerProduct{.in = q, .out = hidden, .transposed = true, .trained = trained(ops::kLoraOut)},
          LayerProduct{.in = hidden,
                       .out = up,
                       .matrices = matrices,
                       .taken = taken,
                       .trained = trained(ops::only(ops::LoraModule::gate) | ops::only(ops::LoraModule::up))},
          // Its result is the layer's own, which no backward pass needs again.
          LayerProduct{.in = ffn,
                       .out = hidden,
                       .matrices = matrices,
                       .taken = taken,
                       .transposed = true,
                       .recomputed = false,
                       .trained = trained(ops::only(ops::LoraModule::down))}};
}

double ClosedForms::least_bytes(const StepSetup& setup) const {
  const ops::ModelConfig& model = config_.model;
  const double adam = config_.dtype == DType::f32 && !setup.zero1 ? 8 : 12;  // moments, and a master copy
  const double sharers = setup.zero1 ? graph::as_double(setup.grid.data) : 1;
  const double element = element_bytes(config_.dtype), frozen = model.lora.used() ? weights_ : 0;
  const double trained = model.lora.used() ? graph::as_double(model.adapter_parameters()) : weights_;
  const double state =
      (frozen * element + trained * (element + adam / sharers)) / graph::as_double(setup.grid.model_ranks());
  double columns = graph::as_double(model.hidden);
  if (setup.recompute == train::Recompute::none) {
    columns = 0;
    // Rows are gathered for experts again, but what these made of them is kept.
    for (const LayerProduct& product : products_) {
      if (product.trained) columns += product.in * (product.transposed ? product.taken : 1);
    }
  }
  const double rows = graph::as_double(setup.micro_batch * config_.seq_len) / graph::as_double(setup.grid.context);
  return state +
         graph::as_double(model.layers) * rows * columns * element / graph::as_double(setup.grid.x * setup.grid.y);
}

double ClosedForms::highest_rate() const {
  double rate = machine_.flops(config_.dtype);
  for (const cost::GemmPoint& point : machine_.gemms) {
    if (point.dtype == config_.dtype) rate = std::max(rate, cost::rate_of(point));
  }
  return rate;
}

const cost::GroupSpan& ClosedForms::span(const graph::Grid& grid, graph::Axis axis) {
  std::int64_t stride = 1;
  for (const graph::Axis each : grid.order) {
    if (each == axis) break;
    stride *= grid.on(each);
  }
  const std::int64_t size = grid.on(axis);
  const auto [found, is_new] = spans_.try_emplace({stride, size});
  if (is_new) {
    const graph::Grid alike{.x = stride, .y = size, .data = ranks_ / (stride * size)};
    found->second = cost::group_span(machine_, alike, graph::Channel::y);
  }
  return found->second;
}

double ClosedForms::least_ns(const StepSetup& setup) {
  const ops::ModelConfig& model = config_.model;
  const graph::Grid& grid = setup.grid;
  const bool recompute = setup.recompute == train::Recompute::block;
  const double x = graph::as_double(grid.x), y = graph::as_double(grid.y), z = graph::as_double(grid.z),
               layers = graph::as_double(model.layers);
  // Under frozen weights the first layer needs no gradient of its input.
  const bool frozen = model.lora.used();
  const double differentiated = frozen ? layers - 1 : layers;
  const double tokens = graph::as_double(config_.global_batch * config_.seq_len);
  const double micro_batches = graph::as_double(config_.global_batch / (grid.batch_ranks() * setup.micro_batch));
  const double rows = tokens / graph::as_double(grid.batch_ranks() * grid.context);  // of all micro-batches
  const double element = element_bytes(config_.dtype), reduced = element_bytes(config_.reduce_dtype);

  double flops = (frozen ? 4 : 6) * tokens * graph::as_double(model.hidden * model.vocab);
  // Elements of a rank, summed over layers; experts of single ranks aren't gathered.
  double weights = 0, gathered = 0, over_x = 0, over_y = 0;
  for (const LayerProduct& product : products_) {
    const bool again = recompute && product.recomputed;
    const double times = 2 * layers + (again ? 4 : 2) * differentiated + (frozen ? 0 : 2 * layers);
    flops += times * tokens * product.in * product.out * product.taken;
    const double own = differentiated * product.in * product.out * product.matrices / (x * y);
    weights += own;
    if (grid.expert == 1 || product.matrices == 1) gathered += own;
    double outputs = (layers + (again ? differentiated : 0)) * rows * product.out;
    double inputs = differentiated * rows * product.in;
    if (setup.sequence_parallel) {
      outputs += differentiated * rows * product.out;
      inputs += (layers + (again || product.trained ? differentiated : 0)) * rows * product.in;
    }
    (product.transposed ? over_y : over_x) += outputs / (product.transposed ? x : y);
    (product.transposed ? over_x : over_y) += inputs / (product.transposed ? y : x);
  }
  const double compute = flops / graph::as_double(ranks_) / highest_rate();

  std::array<double, 2> links{};  // of a node, of the network
  double channel = 0;             // the busiest
  const auto send = [&](graph::Axis axis, bool all_reduce, double bytes) {
    const std::int64_t size = grid.on(axis);
    if (size == 1 || bytes <= 0) return 0.0;
    const cost::GroupSpan& group = span(grid, axis);
    const auto count = static_cast<std::int64_t>(all_reduce ? bytes : bytes / graph::as_double(size));
    const graph::Operation operation = all_reduce
                                           ? graph::Operation(graph::AllReduce{graph::Channel::world, size, count})
                                           : graph::Operation(graph::AllGather{graph::Channel::world, size, count});
    const cost::CollectiveTime time = cost::collective_time(machine_, group, operation, 1);
    links.at(group.within_node() ? 0 : 1) += time.on_link;
    channel = std::max(channel, time.on_link);
    return time.on_link;
  };
  send(graph::Axis::x, !setup.sequence_parallel, over_x * element);
  send(graph::Axis::y, !setup.sequence_parallel, over_y * element);
  const double gathers = setup.reshard_after_forward ? 2 * micro_batches : 1;
  send(graph::Axis::z, false, gathers * gathered * element);
  if (!frozen) send(graph::Axis::z, false, gathered * reduced);
  // With ZeRO-1 gradients are scattered over data and weights gathered: no less than one way of an all-reduce.
  if (frozen) {
    // Gradients of adapters alone, which are small.
  } else if (setup.zero1) {
    send(graph::Axis::data, false, weights / z * std::min(element, reduced));
  } else {
    send(graph::Axis::data, true, weights / z * reduced);
  }
  const double lost = 1 - 1 / common_slowdown(machine_);
  const double link = std::max(links[0], links[1]);
  const double streams = graph::as_double(config_.streams);
  return 1e9 * std::max({compute / streams, link, channel, streams > 1 ? 0 : compute + link * lost});
}

double share_of_stages(const train::RunConfig& config, const StepSetup& setup,
                       std::span<const policy::NamedPolicy> policies) {
  const std::int64_t pipe = setup.grid.pipe;
  const double stages = graph::as_double(pipe);
  const double micro_batches = graph::as_double(config.global_batch / (setup.grid.batch_ranks() * setup.micro_batch));
  double least = std::numeric_limits<double>::infinity();
  for (const policy::NamedPolicy& policy : policies) {
    const graph::PipelineChunks chunks = policy->chunks();
    if (chunks.stages(pipe) > config.model.layers) continue;
    const ops::PipelineLayout layout = ops::balanced_layout(config.model, config.seq_len, pipe, chunks);
    double idle = (stages - 1) / graph::as_double(chunks.chunks);
    if (one_by_one(*policy)) {
      idle = (stages - 1) * micro_batches;
    } else if (fills_idle_time(*policy)) {
      idle /= 3;
    }
    least = std::min(least, ops::imbalance(config.model, config.seq_len, layout) * (1 + idle / micro_batches));
  }
  return least / stages;
}

double axonn_seconds(const AxonnStep& step, const AxisBandwidth& bandwidth) {
  constexpr double kWeight = 2, kGradient = 4;  // bytes of an element
  const ops::ModelConfig& model = step.model;
  const graph::Grid& grid = step.grid;
  const double x = graph::as_double(grid.x), y = graph::as_double(grid.y), z = graph::as_double(grid.z),
               data = graph::as_double(grid.data);
  const double rows = graph::as_double(step.sequences * step.seq_len) / (data * z);
  const double again = step.recompute ? 2 : 1, micro_batches = graph::as_double(step.micro_batches);
  double over_z = 0, over_x = 0, over_y = 0, over_data = 0;
  for (const LayerProduct& product : layer_products(model)) {
    const double weights = product.in * product.out * product.matrices / (x * y);
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
