// The tasks after the backward pass: reduction of gradients over z and data, global-norm clipping, AdamW.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "ops/lower.h"
#include "ops/lowering.h"

namespace weft::ops {

/// A parameter with its gradient summed over all ranks: the flat fp32 elements that the rank updates.
struct ReducedGradient {
  Parameter* parameter = nullptr;
  graph::TensorId tensor;
  bool zero1 = false;  // sharded over data
};

/// Sums gradients over z and data while the backward pass goes on. Each is summed once complete in the last
/// micro-batch: matrices are reduce-scattered over z and vectors all-reduced; both are then reduced over data.
///
/// If the step scatters each micro-batch, matrices are reduce-scattered over z in all of them, from buffers that layers
/// share. The tasks after a scatter (the sum with earlier micro-batches, the reduction over data) follow only after the
/// next layer's scatter: right after their own they would block an in-order stream.
class GradientReducer {
 public:
  /// Both must outlive the reducer, and the reducer the tape.
  GradientReducer(Lowering& low, const StepConfig& step);
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// Emits the tasks that still wait for a next scatter. To be called after the backward pass of each micro-batch.
  void end_of_micro_batch(std::int64_t micro_batch);
  /// After the last micro-batch: all parameters, in order of completion.
  const std::vector<ReducedGradient>& reduced() const { return reduced_; }

 private:
  struct PutOff {
    const Parameter* parameter;
    Lowering::Frame scope;
    std::function<void()> emit;
  };

  void choose_buffers(std::int64_t micro_batch);
  void complete(Parameter& parameter, std::int64_t micro_batch);
  void scatter(Parameter& parameter, std::int64_t micro_batch);
  /// A gradient that is summed over its stage's ranks; a tied head's and embedding's are added up here.
  void add(ReducedGradient gradient);
  void emit_put_off(const std::function<bool(const PutOff&)>& chosen);

  Lowering& low_;
  const StepConfig& step_;
  std::vector<ReducedGradient> reduced_;
  std::vector<PutOff> put_off_;             // in order of completion
  std::optional<PutOff> tied_;              // the sum over the first and the last stage, after all else
  std::optional<ReducedGradient> of_head_;  // until the embedding's is complete
};

/// Emits the partial norm of each gradient in order of completion, the clip factor, then an AdamW task for each
/// parameter in forward order: the weights that the next step needs first are updated first. With ZeRO-1 an all-gather
/// over data follows. The partial norms come after the whole backward pass in program order, because each waits for its
/// gradient's reduction; a policy may run them as gradients arrive. Without clipping, an update waits for its own
/// gradient alone, and the norm of all is the last task.
void clip_and_update(Lowering& low, const StepConfig& step, const std::vector<ReducedGradient>& reduced,
                     graph::TensorId metrics);

}  // namespace weft::ops
