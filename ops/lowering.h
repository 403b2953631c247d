// Lowering turns a model into a graph. It has names and tensors, tasks in program order, parameters, and the tape of
// adjoints from which the backward pass is made.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/named_accesses.h"
#include "ops/model_config.h"
#include "ops/pipeline_layout.h"
#include "ops/sharding.h"

namespace weft::ops {

/// A matrix of activations [rows, cols] in the forward pass. Its gradient, once known, is a tensor of the same shape.
struct Value {
  graph::TensorId tensor;
  std::int64_t rows = 0, cols = 0;
};

struct Parameter;

/// The two matrices of an adapter.
struct AdapterMatrices {
  Parameter *a = nullptr, *b = nullptr;
};

/// A parameter of the model in this graph: the state tensor, the shard that the rank keeps, and, in training, the fp32
/// gradient of the rank's whole block.
struct Parameter {
  const ParameterSpec* spec = nullptr;
  const ParameterShard* shard = nullptr;  // with the same sizes on every rank
  graph::TensorId tensor;
  std::string gradient_name;  // of its tensor, which parameters may share in turn
  graph::TensorId gradient;   // valid after the first contribution, or the first after take_gradient()
  int pending = 0;            // adjoints on the tape that haven't yet added to the gradient
  graph::TensorId gathered;   // the whole block, gathered over z
  std::string gathered_for;
  std::vector<AdapterMatrices> adapters;  // of the matrix
  Parameter* embedding = nullptr;  // of a tied head with a gradient of its own: the token embedding, whose tensor it is
  bool of_own_rows = false;        // its gradient counts the rank's own rows, so it is summed over y too
};

/// Emits tasks under a hierarchical name and records their adjoints.
///
///   auto scope = low.enter("mlp");                    // names: mb0.L3.mlp.…
///   TensorId y = low.activation("gelu", rows, cols);
///   low.emit("gelu", GeluForward{n}, {{"x", low.read(x)}, {"y", low.write(y)}});  // task mb0.L3.mlp.fwd.gelu
///   low.record({}, [=](Lowering& low) { … low.gradient(y) … });  // later: task mb0.L3.mlp.bwd.gelu_dx
///
/// backward() runs the recorded adjoints in reverse. Inside checkpoint() nothing is recorded: the segment is emitted
/// again in the backward pass (task mb0.L3.mlp.recompute.gelu) and differentiated there.
class Lowering {
 public:
  using Adjoint = std::function<void(Lowering&)>;

  /// `reshard`: weights gathered over z in the forward pass are gathered again for the backward pass.
  /// `sequence_parallel`: see StepConfig.
  Lowering(const ModelConfig& model, DType dtype, const graph::Grid& grid = {}, bool reshard = false,
           PipelinePart part = {}, bool sequence_parallel = false);
  ~Lowering();

  const ModelConfig& model() const { return model_; }
  DType dtype() const { return dtype_; }
  const graph::Grid& grid() const { return grid_; }
  bool sequence_parallel() const { return sequence_parallel_; }
  /// Whether tasks are emitted again for the backward pass, which then follows at once.
  bool recomputing() const { return recomputing_; }
  /// Of `rows` rows of the residual stream, the number that a rank has.
  std::int64_t residual_rows(std::int64_t rows) const { return sequence_parallel_ ? rows / grid_.y : rows; }
  const PipelineLayout& layout() const { return part_.layout; }
  bool has_stage(std::int64_t stage) const { return part_.layout.rank_of(stage) == part_.pipe; }
  std::int64_t pipe() const { return part_.pipe; }
  bool has_last_stage() const { return part_.layout.last_rank() == part_.pipe; }

  // -- names ----------------------------------------------------------------------------------------------------------
  /// Destroying it leaves the scope.
  class Scope {
   public:
    explicit Scope(Lowering* lowering) : lowering_(lowering) {}
    Scope(Scope&& other) noexcept : lowering_(std::exchange(other.lowering_, nullptr)) {}
    ~Scope() {
      if (lowering_ != nullptr) lowering_->leave();
    }

   private:
    Lowering* lowering_;
  };
  [[nodiscard]] Scope enter(std::string_view name);
  [[nodiscard]] Scope enter_layer(std::int64_t layer);
  [[nodiscard]] Scope enter_micro_batch(std::int64_t micro_batch);
  /// Tasks within belong to a stage of the pipeline, if there are several. Their names don't tell.
  [[nodiscard]] Scope enter_stage(std::int64_t stage);
  /// A scope, to be entered again from another one.
  struct Frame {
    std::string prefix;
    std::int32_t layer = -1, micro_batch = -1, stage = -1;
  };
  const Frame& here() const { return frames_.back(); }
  [[nodiscard]] Scope enter_again(const Frame& frame);
  /// Tasks emitted from now on belong to `phase`.
  void set_phase(graph::Phase phase) { phase_ = phase; }

  // -- tensors --------------------------------------------------------------------------------------------------------
  /// A scratch tensor [rows, cols] of the activations' dtype, named after the scope.
  graph::TensorId activation(std::string_view name, std::int64_t rows, std::int64_t cols);
  graph::TensorId scratch(std::string_view name, DType dtype, std::vector<std::int64_t> shape, graph::Role role);
  /// A tensor with this full name, made at the first call: parameters, optimizer state, scalars, inputs, caches.
  graph::TensorId named(std::string_view name, DType dtype, std::vector<std::int64_t> shape, graph::Role role);
  const graph::Tensor& tensor(graph::TensorId id) const { return tensors_[id.index()]; }

  graph::View view(graph::TensorId id) const;
  graph::View columns(graph::TensorId id, std::int64_t begin, std::int64_t cols) const;
  graph::View elements(graph::TensorId id, std::int64_t begin, std::int64_t count) const;
  graph::Access read(graph::TensorId id) const { return {view(id), graph::AccessMode::read}; }
  graph::Access write(graph::TensorId id) const { return {view(id), graph::AccessMode::write}; }
  graph::Access read_write(graph::TensorId id) const { return {view(id), graph::AccessMode::read_write}; }
  /// The access of a task that writes the elements, or adds to them.
  static graph::Access result(const graph::View& view, bool adds) {
    return adds ? graph::read_write(view) : graph::write(view);
  }

  // -- tasks ----------------------------------------------------------------------------------------------------------
  /// Emits a task; the accesses are given by the names of the operation's schema, in any order, without absent
  /// arguments.
  template <class Op>
  void emit(std::string_view what, const Op& operation, std::initializer_list<graph::NamedAccess<Op>> accesses) {
    emit_task(what, operation, graph::accesses_of(operation, accesses));
  }
  /// Records the adjoint of the tasks just emitted; it adds to the gradients of `parameters`, but for null ones.
  void record(std::vector<Parameter*> parameters, Adjoint adjoint);
  /// Runs `segment` without recording; its backward pass begins by running it again.
  Value checkpoint(Value input, const std::function<Value(Lowering&, Value)>& segment);
  /// Runs the tape in reverse and clears it.
  void backward();
  /// Emits `part` and right after it its backward pass, whose last gradients the part's inputs keep.
  void differentiate_at_once(const std::function<void()>& part);

  // -- gradients ------------------------------------------------------------------------------------------------------
  /// The gradient of a value; it must have one.
  graph::TensorId gradient(const Value& value) const;
  /// The sum of contributions so far, if any, for adjoints that include it in their own sum.
  std::optional<graph::TensorId> partial_gradient(const Value& value) const;
  /// `gradient` replaces the value's gradient; it includes all contributions so far.
  void set_gradient(const Value& value, graph::TensorId gradient);
  /// Adds a contribution: the first is used as it is, each later one costs a task.
  void add_gradient(const Value& value, graph::TensorId contribution);

  // -- parameters -----------------------------------------------------------------------------------------------------
  /// Throws std::logic_error if these ranks don't hold it.
  Parameter& parameter(std::string_view name);
  /// The matrix that the head multiplies by. With several stages, a tied head's gradient is added up apart from the
  /// embedding's, whichever ranks hold the two, so that all schedules add in one order.
  Parameter& head_weight();
  /// The rank's block of a parameter: its own tensor, or the result of an all-gather over z.
  graph::TensorId weight(Parameter& parameter);
  std::vector<std::unique_ptr<Parameter>>& parameters() { return parameters_; }
  /// The parameters of the whole model, in all stages.
  const std::vector<ParameterSpec>& specs() const { return specs_; }
  /// The gradient tensor to add to, and whether it already holds a contribution. A frozen parameter's is scratch that
  /// nobody reads, so finish() drops tasks that write nothing else.
  struct GradientSlot {
    graph::TensorId tensor;
    bool accumulate;
  };
  GradientSlot gradient_slot(Parameter& parameter);
  graph::Access result(const GradientSlot& slot) const { return result(view(slot.tensor), slot.accumulate); }
  /// The gradient so far. The next contribution begins another, in a tensor of the parameter's gradient_name: the same
  /// again, or another by then.
  graph::TensorId take_gradient(Parameter& parameter);
  /// Sets a callback for complete gradients. It is called in each micro-batch after the last adjoint that adds to a
  /// parameter's gradient.
  using GradientComplete = std::function<void(Lowering&, Parameter&, std::int64_t micro_batch)>;
  void on_gradient_complete(GradientComplete callback) { gradient_complete_ = std::move(callback); }

  /// Drops tasks whose results no task reads (the end of a recomputed segment), and infers the edges.
  std::shared_ptr<const graph::Graph> finish() &&;

 private:
  struct TapeEntry {
    Frame frame;
    std::vector<Parameter*> parameters;
    Adjoint adjoint;
  };

  void leave() { frames_.pop_back(); }
  [[nodiscard]] Scope push(std::string_view name, std::int32_t layer, std::int32_t micro_batch);
  std::string label(std::string_view what) const;
  void emit_task(std::string_view what, const graph::Operation& operation, std::vector<graph::Access> accesses);
  graph::TensorId add_tensor(graph::Tensor tensor);

  const ModelConfig model_;
  const DType dtype_;
  const graph::Grid grid_;
  const bool reshard_, sequence_parallel_;
  const PipelinePart part_;
  std::vector<ParameterSpec> specs_;
  std::vector<ParameterShard> shards_;
  std::vector<graph::Tensor> tensors_;
  std::unordered_map<std::string, graph::TensorId> tensor_by_name_;
  std::vector<graph::Task> tasks_;
  std::vector<Frame> frames_;
  graph::Phase phase_ = graph::Phase::forward;
  bool recomputing_ = false;
  bool recording_ = true;
  std::vector<TapeEntry> tape_;
  std::unordered_map<graph::TensorId, graph::TensorId> gradients_;
  std::vector<std::unique_ptr<Parameter>> parameters_;
  std::unique_ptr<Parameter> tied_head_;  // with a gradient of its own
  GradientComplete gradient_complete_;
};

}  // namespace weft::ops
