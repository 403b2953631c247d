#include "ops/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <unordered_set>
#include <utility>

namespace weft::ops {

Lowering::Lowering(const ModelConfig& model, DType dtype, const graph::Grid& grid, bool reshard, PipelinePart part,
                   bool sequence_parallel)
    : model_(model),
      dtype_(dtype),
      grid_(grid),
      reshard_(reshard),
      sequence_parallel_(sequence_parallel),
      part_(std::move(part)),
      specs_(model_parameters(model)),
      shards_(shards_of_stage(model, part_.layout,
                              shard_parameters(model, specs_, grid, {}, false, ShardRuns::left_out), part_.pipe)),
      frames_(1) {
  for (const ParameterShard& shard : shards_) {
    auto parameter = std::make_unique<Parameter>();
    parameter->spec = shard.spec;
    parameter->shard = &shard;
    parameter->gradient_name = shard.spec->name + ".grad";
    std::vector<std::int64_t> shape = {shard.end - shard.begin};
    if (shard.spec->matrix && shard.end - shard.begin == shard.elements()) shape = {shard.rows, shard.cols};
    parameter->tensor = named(shard.spec->name, dtype, shape, graph::Role::parameter);
    parameters_.push_back(std::move(parameter));
  }
  for (const auto& adapter : parameters_) {
    if (!is_adapter(*adapter->spec)) continue;
    Parameter& weight = parameter(adapted_weight(*adapter->spec));
    const bool is_a = adapter->spec->adapter->side == AdapterSide::a;  // followed by its B
    if (is_a) weight.adapters.emplace_back();
    (is_a ? weight.adapters.back().a : weight.adapters.back().b) = adapter.get();
  }
  if (model.tied && part_.layout.stages() > 1 && has_stage(0) && has_last_stage()) {
    Parameter& embedding = parameter("wte.weight");
    tied_head_ = std::make_unique<Parameter>();
    tied_head_->spec = embedding.spec;
    tied_head_->shard = embedding.shard;
    tied_head_->tensor = embedding.tensor;
    tied_head_->gradient_name = embedding.gradient_name + ".head";
    tied_head_->embedding = &embedding;
  }
}

Lowering::~Lowering() = default;

Lowering::Scope Lowering::push(std::string_view name, std::int32_t layer, std::int32_t micro_batch) {
  Frame frame = frames_.back();
  frame.prefix.append(name).append(".");
  if (layer >= 0) frame.layer = layer;
  if (micro_batch >= 0) frame.micro_batch = micro_batch;
  frames_.push_back(std::move(frame));
  return Scope(this);
}

Lowering::Scope Lowering::enter(std::string_view name) {
  return push(name, -1, -1);
}

Lowering::Scope Lowering::enter_layer(std::int64_t layer) {
  return push(fmt::format("L{}", layer), static_cast<std::int32_t>(layer), -1);
}

Lowering::Scope Lowering::enter_micro_batch(std::int64_t micro_batch) {
  return push(fmt::format("mb{}", micro_batch), -1, static_cast<std::int32_t>(micro_batch));
}

Lowering::Scope Lowering::enter_stage(std::int64_t stage) {
  frames_.push_back(frames_.back());
  if (part_.layout.stages() > 1) frames_.back().stage = static_cast<std::int32_t>(stage);
  return Scope(this);
}

Lowering::Scope Lowering::enter_again(const Frame& frame) {
  frames_.push_back(frame);
  return Scope(this);
}

std::string Lowering::label(std::string_view what) const {
  std::string_view phase = "fwd";
  if (phase_ == graph::Phase::backward) phase = recomputing_ ? "recompute" : "bwd";
  if (phase_ == graph::Phase::update) phase = "update";
  return fmt::format("{}{}.{}", frames_.back().prefix, phase, what);
}

graph::TensorId Lowering::add_tensor(graph::Tensor tensor) {
  const graph::TensorId id(tensors_.size());
  if (!tensor_by_name_.emplace(tensor.name, id).second) {
    throw std::logic_error(fmt::format("tensor '{}' is declared twice", tensor.name));
  }
  tensors_.push_back(std::move(tensor));
  return id;
}

graph::TensorId Lowering::activation(std::string_view name, std::int64_t rows, std::int64_t cols) {
  return scratch(name, dtype_, {rows, cols}, graph::Role::activation);
}

graph::TensorId Lowering::scratch(std::string_view name, DType dtype, std::vector<std::int64_t> shape,
                                  graph::Role role) {
  return add_tensor({label(name), dtype, std::move(shape), role});
}

graph::TensorId Lowering::named(std::string_view name, DType dtype, std::vector<std::int64_t> shape, graph::Role role) {
  if (const auto found = tensor_by_name_.find(std::string(name)); found != tensor_by_name_.end()) return found->second;
  return add_tensor({std::string(name), dtype, std::move(shape), role});
}

graph::View Lowering::view(graph::TensorId id) const {
  const graph::Tensor& t = tensor(id);
  const std::int64_t cols = t.shape.back();
  return {id, 0, cols == 0 ? 0 : t.elements() / cols, cols, cols};
}

graph::View Lowering::columns(graph::TensorId id, std::int64_t begin, std::int64_t cols) const {
  graph::View window = view(id);
  window.offset = begin;
  window.cols = cols;
  return window;
}

graph::View Lowering::elements(graph::TensorId id, std::int64_t begin, std::int64_t count) const {
  return {id, begin, 1, count, count};
}

void Lowering::emit_task(std::string_view what, const graph::Operation& operation,
                         std::vector<graph::Access> accesses) {
  const Frame& frame = frames_.back();
  graph::Task task{label(what), operation, std::move(accesses), frame.layer, frame.micro_batch, phase_};
  task.stage = frame.stage;
  tasks_.push_back(std::move(task));
}

void Lowering::record(std::vector<Parameter*> parameters, Adjoint adjoint) {
  if (!recording_) return;
  std::erase(parameters, nullptr);
  for (Parameter* parameter : parameters) ++parameter->pending;
  tape_.push_back({frames_.back(), std::move(parameters), std::move(adjoint)});
}

Value Lowering::checkpoint(Value input, const std::function<Value(Lowering&, Value)>& segment) {
  if (!recording_) return segment(*this, input);
  recording_ = false;
  const Value output = segment(*this, input);
  recording_ = true;
  record({}, [input, output, segment](Lowering& low) {
    std::vector<TapeEntry> outer = std::exchange(low.tape_, {});
    low.recomputing_ = true;
    const Value again = segment(low, input);
    low.recomputing_ = false;
    low.set_gradient(again, low.gradient(output));
    low.backward();
    low.tape_ = std::move(outer);
  });
  return output;
}

void Lowering::backward() {
  set_phase(graph::Phase::backward);
  while (!tape_.empty()) {
    TapeEntry entry = std::move(tape_.back());
    tape_.pop_back();
    frames_.push_back(entry.frame);
    entry.adjoint(*this);
    for (Parameter* parameter : entry.parameters) {
      --parameter->pending;
      if (parameter->spec->frozen) continue;
      if (parameter->pending == 0 && gradient_complete_) gradient_complete_(*this, *parameter, entry.frame.micro_batch);
    }
    frames_.pop_back();
  }
}

void Lowering::differentiate_at_once(const std::function<void()>& part) {
  std::vector<TapeEntry> outer = std::exchange(tape_, {});
  const graph::Phase phase = std::exchange(phase_, graph::Phase::backward);
  part();
  backward();
  phase_ = phase;
  tape_ = std::move(outer);
}

graph::TensorId Lowering::gradient(const Value& value) const {
  const auto found = gradients_.find(value.tensor);
  if (found == gradients_.end()) {
    throw std::logic_error(fmt::format("'{}' has no gradient", tensor(value.tensor).name));
  }
  return found->second;
}

std::optional<graph::TensorId> Lowering::partial_gradient(const Value& value) const {
  const auto found = gradients_.find(value.tensor);
  if (found == gradients_.end()) return std::nullopt;
  return found->second;
}

void Lowering::set_gradient(const Value& value, graph::TensorId gradient) {
  gradients_[value.tensor] = gradient;
}

void Lowering::add_gradient(const Value& value, graph::TensorId contribution) {
  const auto previous = partial_gradient(value);
  if (!previous) {
    set_gradient(value, contribution);
    return;
  }
  const graph::TensorId sum = activation(fmt::format("d{}_sum", contribution.index()), value.rows, value.cols);
  emit(fmt::format("add{}", contribution.index()), graph::Add{value.rows * value.cols},
       {{"a", read(*previous)}, {"b", read(contribution)}, {"out", write(sum)}});
  set_gradient(value, sum);
}

Parameter& Lowering::parameter(std::string_view name) {
  for (auto& parameter : parameters_) {
    if (parameter->spec->name == name) return *parameter;
  }
  throw std::logic_error(fmt::format("no parameter '{}'", name));
}

Parameter& Lowering::head_weight() {
  return tied_head_ ? *tied_head_ : parameter(model_.tied ? "wte.weight" : "head.weight");
}

graph::TensorId Lowering::weight(Parameter& parameter) {
  if (parameter.embedding != nullptr) return weight(*parameter.embedding);
  const ParameterShard& shard = *parameter.shard;
  if (shard.end - shard.begin == shard.elements()) return parameter.tensor;
  const std::string use =
      reshard_ ? fmt::format(".mb{}.{}", frames_.back().micro_batch, phase_ == graph::Phase::forward ? "fwd" : "bwd")
               : "";
  if (parameter.gathered.valid() && parameter.gathered_for == use) return parameter.gathered;
  const std::string& name = parameter.spec->name;
  parameter.gathered = add_tensor({name + ".gathered" + use, dtype_, {shard.rows, shard.cols}, graph::Role::gathered});
  parameter.gathered_for = use;
  // Within a layer the scope already names the matrix.
  const std::string what = name.starts_with('L') ? "all_gather_w" : "all_gather_" + name.substr(0, name.find('.'));
  emit(what, graph::AllGather{graph::Channel::z_gather, grid_.z, shard.end - shard.begin},
       {{"in", weft::graph::read(elements(parameter.tensor, 0, shard.end - shard.begin))},
        {"out", weft::graph::write(elements(parameter.gathered, 0, shard.elements()))}});
  return parameter.gathered;
}

Lowering::GradientSlot Lowering::gradient_slot(Parameter& parameter) {
  const ParameterShard& shard = *parameter.shard;
  std::vector<std::int64_t> shape = {shard.cols};
  if (shard.spec->matrix) shape.insert(shape.begin(), shard.rows);
  if (shard.spec->frozen) {
    return {scratch(shard.spec->name + ".unused", DType::f32, std::move(shape), graph::Role::workspace), false};
  }
  const bool accumulate = parameter.gradient.valid();
  if (!accumulate) {
    parameter.gradient = named(parameter.gradient_name, DType::f32, std::move(shape), graph::Role::gradient);
  }
  return {parameter.gradient, accumulate};
}

graph::TensorId Lowering::take_gradient(Parameter& parameter) {
  return std::exchange(parameter.gradient, graph::TensorId());
}

std::shared_ptr<const graph::Graph> Lowering::finish() && {
  // In reverse order: a task stays if it writes state or writes a tensor that a kept task reads. This holds for
  // collectives too: every rank has the same graph, so all members of a group drop the same collectives. Messages all
  // stay, since the other end doesn't know who reads.
  std::unordered_set<graph::TensorId> needed;
  std::vector<bool> stays(tasks_.size(), false);
  for (std::size_t i = tasks_.size(); i-- > 0;) {
    const graph::Task& task = tasks_[i];
    stays[i] = std::any_of(task.accesses.begin(), task.accesses.end(), [&](const graph::Access& access) {
      return access.mode != graph::AccessMode::read &&
             (graph::is_state(tensor(access.view.tensor).role) || needed.contains(access.view.tensor));
    });
    const graph::Channel* const channel = graph::channel_of(task.operation);
    stays[i] = stays[i] || (channel != nullptr && graph::is_message(*channel));
    if (!stays[i]) continue;
    for (const graph::Access& access : task.accesses) {
      if (access.mode != graph::AccessMode::write) needed.insert(access.view.tensor);
    }
  }

  graph::GraphBuilder builder;
  std::unordered_map<graph::TensorId, graph::TensorId> renumbered;
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    if (!stays[i]) continue;
    for (graph::Access& access : tasks_[i].accesses) {
      const auto [entry, fresh] = renumbered.try_emplace(access.view.tensor);
      if (fresh) entry->second = builder.add_tensor(std::move(tensors_[access.view.tensor.index()]));
      access.view.tensor = entry->second;
    }
    builder.add_task(std::move(tasks_[i]));
  }
  return std::make_shared<const graph::Graph>(std::move(builder).build());
}

}  // namespace weft::ops
