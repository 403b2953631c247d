#include "ops/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <unordered_set>
#include <utility>

namespace weft {

Lowering::Lowering(const ModelConfig& model, DType dtype, const Grid& grid, bool reshard)
    : model_(model),
      dtype_(dtype),
      grid_(grid),
      reshard_(reshard),
      specs_(model_parameters(model)),
      shards_(shard_parameters(model, specs_, grid, {})),
      frames_(1) {
  for (const ParameterShard& shard : shards_) {
    auto parameter = std::make_unique<Parameter>();
    parameter->spec = shard.spec;
    parameter->shard = &shard;
    std::vector<std::int64_t> shape = {shard.end - shard.begin};
    if (shard.spec->matrix && shard.end - shard.begin == shard.elements()) shape = {shard.rows, shard.cols};
    parameter->tensor = named(shard.spec->name, dtype, shape, Role::parameter);
    parameters_.push_back(std::move(parameter));
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

std::string Lowering::label(std::string_view what) const {
  std::string_view phase = "fwd";
  if (phase_ == Phase::backward) phase = recomputing_ ? "recompute" : "bwd";
  if (phase_ == Phase::update) phase = "update";
  return fmt::format("{}{}.{}", frames_.back().prefix, phase, what);
}

TensorId Lowering::add_tensor(Tensor tensor) {
  const TensorId id(tensors_.size());
  if (!tensor_by_name_.emplace(tensor.name, id).second) {
    throw std::logic_error(fmt::format("tensor '{}' is declared twice", tensor.name));
  }
  tensors_.push_back(std::move(tensor));
  return id;
}

TensorId Lowering::activation(std::string_view name, std::int64_t rows, std::int64_t cols) {
  return scratch(name, dtype_, {rows, cols}, Role::activation);
}

TensorId Lowering::scratch(std::string_view name, DType dtype, std::vector<std::int64_t> shape, Role role) {
  return add_tensor({label(name), dtype, std::move(shape), role});
}

TensorId Lowering::named(std::string_view name, DType dtype, std::vector<std::int64_t> shape, Role role) {
  if (const auto found = tensor_by_name_.find(std::string(name)); found != tensor_by_name_.end()) return found->second;
  return add_tensor({std::string(name), dtype, std::move(shape), role});
}

View Lowering::view(TensorId id) const {
  const Tensor& t = tensor(id);
  const std::int64_t cols = t.shape.back();
  return {id, 0, cols == 0 ? 0 : t.elements() / cols, cols, cols};
}

View Lowering::columns(TensorId id, std::int64_t begin, std::int64_t cols) const {
  View window = view(id);
  window.offset = begin;
  window.cols = cols;
  return window;
}

View Lowering::elements(TensorId id, std::int64_t begin, std::int64_t count) const {
  return {id, begin, 1, count, count};
}

void Lowering::emit_task(std::string_view what, const Operation& operation, std::vector<Access> accesses) {
  const Frame& frame = frames_.back();
  tasks_.push_back({label(what), operation, std::move(accesses), frame.layer, frame.micro_batch, phase_});
}

void Lowering::record(const std::vector<Parameter*>& parameters, Adjoint adjoint) {
  if (!recording_) return;
  for (Parameter* parameter : parameters) ++parameter->pending;
  tape_.push_back({frames_.back(), parameters, std::move(adjoint)});
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
  set_phase(Phase::backward);
  while (!tape_.empty()) {
    TapeEntry entry = std::move(tape_.back());
    tape_.pop_back();
    frames_.push_back(entry.frame);
    entry.adjoint(*this);
    for (Parameter* parameter : entry.parameters) {
      --parameter->pending;
      if (parameter->pending == 0 && gradient_complete_ && entry.frame.micro_batch == last_micro_batch_) {
        gradient_complete_(*this, *parameter);
      }
    }
    frames_.pop_back();
  }
}

TensorId Lowering::gradient(const Value& value) const {
  const auto found = gradients_.find(value.tensor);
  if (found == gradients_.end()) {
    throw std::logic_error(fmt::format("'{}' has no gradient", tensor(value.tensor).name));
  }
  return found->second;
}

std::optional<TensorId> Lowering::partial_gradient(const Value& value) const {
  const auto found = gradients_.find(value.tensor);
  if (found == gradients_.end()) return std::nullopt;
  return found->second;
}

void Lowering::set_gradient(const Value& value, TensorId gradient) {
  gradients_[value.tensor] = gradient;
}

void Lowering::add_gradient(const Value& value, TensorId contribution) {
  const auto previous = partial_gradient(value);
  if (!previous) {
    set_gradient(value, contribution);
    return;
  }
  const TensorId sum = activation(fmt::format("d{}_sum", contribution.index()), value.rows, value.cols);
  emit(fmt::format("add{}", contribution.index()), Add{value.rows * value.cols},
       {{"a", read(*previous)}, {"b", read(contribution)}, {"out", write(sum)}});
  set_gradient(value, sum);
}

Parameter& Lowering::parameter(std::string_view name) {
  for (auto& parameter : parameters_) {
    if (parameter->spec->name == name) return *parameter;
  }
  throw std::logic_error(fmt::format("no parameter '{}'", name));
}

TensorId Lowering::weight(Parameter& parameter) {
  const ParameterShard& shard = *parameter.shard;
  if (shard.end - shard.begin == shard.elements()) return parameter.tensor;
  const std::string use =
      reshard_ ? fmt::format(".mb{}.{}", frames_.back().micro_batch, phase_ == Phase::forward ? "fwd" : "bwd") : "";
  if (parameter.gathered.valid() && parameter.gathered_for == use) return parameter.gathered;
  const std::string& name = parameter.spec->name;
  parameter.gathered = add_tensor({name + ".gathered" + use, dtype_, {shard.rows, shard.cols}, Role::gathered});
  parameter.gathered_for = use;
  // Within a layer the scope already says which matrix.
  const std::string what = name.starts_with('L') ? "all_gather_w" : "all_gather_" + name.substr(0, name.find('.'));
  emit(what, AllGather{Channel::z_gather, grid_.z, shard.end - shard.begin},
       {{"in", weft::read(elements(parameter.tensor, 0, shard.end - shard.begin))},
        {"out", weft::write(elements(parameter.gathered, 0, shard.elements()))}});
  return parameter.gathered;
}

Lowering::GradientSlot Lowering::gradient_slot(Parameter& parameter) {
  const bool accumulate = parameter.gradient.valid();
  if (!accumulate) {
    const ParameterShard& shard = *parameter.shard;
    std::vector<std::int64_t> shape = {shard.cols};
    if (shard.spec->matrix) shape.insert(shape.begin(), shard.rows);
    parameter.gradient = add_tensor({shard.spec->name + ".grad", DType::f32, std::move(shape), Role::gradient});
  }
  return {parameter.gradient, accumulate};
}

void Lowering::on_gradient_complete(std::function<void(Lowering&, Parameter&)> callback,
                                    std::int64_t last_micro_batch) {
  gradient_complete_ = std::move(callback);
  last_micro_batch_ = last_micro_batch;
}

std::shared_ptr<const Graph> Lowering::finish() && {
  // Backwards: a task stays if it writes state, or writes what a task that stays reads. So do collectives: every rank's
  // graph is the same, so all members of a group drop the same ones.
  std::unordered_set<TensorId> needed;
  std::vector<bool> stays(tasks_.size(), false);
  for (std::size_t i = tasks_.size(); i-- > 0;) {
    const Task& task = tasks_[i];
    stays[i] = std::any_of(task.accesses.begin(), task.accesses.end(), [&](const Access& access) {
      return access.mode != AccessMode::read &&
             (is_state(tensor(access.view.tensor).role) || needed.contains(access.view.tensor));
    });
    if (!stays[i]) continue;
    for (const Access& access : task.accesses) {
      if (access.mode != AccessMode::write) needed.insert(access.view.tensor);
    }
  }

  GraphBuilder builder;
  std::unordered_map<TensorId, TensorId> renumbered;
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    if (!stays[i]) continue;
    for (Access& access : tasks_[i].accesses) {
      const auto [entry, fresh] = renumbered.try_emplace(access.view.tensor);
      if (fresh) entry->second = builder.add_tensor(std::move(tensors_[access.view.tensor.index()]));
      access.view.tensor = entry->second;
    }
    builder.add_task(std::move(tasks_[i]));
  }
  return std::make_shared<const Graph>(std::move(builder).build());
}

}  // namespace weft
