// Lowers a model to the graphs of one rank: a training step, an evaluation step, prefill and decode.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "graph/graph.h"
#include "graph/grid.h"
#include "ops/model_config.h"
#include "ops/pipeline_layout.h"

namespace weft::ops {

/// Names of the state tensors that the training loop writes before a step and reads after it. The first three metrics
/// are summed over ranks. A rank that wants to stop (a signal, a time limit) writes 1 to its stop vote, and all ranks
/// read the same sum after the step. The sums of an evaluation work the same way.
namespace names {
// i64 [10], or [11] with norms of Q and K, or [14] with Grid::expert, written once: the rank's x, y, z and data, then
// the replica indices (see CoordinateIndex). Exists only if x·y·z > 1 or ZeRO-1 is on.
inline constexpr const char* kCoordinates = "coordinates";
inline constexpr const char* kScalars = "scalars";  // f32 [4]: lr, 1/(1−β1^t), 1/(1−β2^t), grad_scale
inline constexpr const char* kRandom = "random";    // i64 [3]: seed, step, row_base
// i64 [1], written once: the position of the rank's first row in its sequences. Exists only with context and learnt
// positions.
inline constexpr const char* kFirstPosition = "first_position";
inline constexpr const char* kTokens = "tokens";    // i32 [micro-batches, B·T/context]
inline constexpr const char* kTargets = "targets";  // i32, same shape; negative: ignored
inline constexpr const char* kDocumentStarts =
    "document_starts";                              // i32 [micro-batches, B·T], with StepConfig::document_mask
inline constexpr const char* kMetrics = "metrics";  // f32 [5]: loss sum, tokens, stop votes, gradient norm, clip factor
inline constexpr const char* kEvalTokens = "eval_tokens";                   // i32 [B·T/context]
inline constexpr const char* kEvalTargets = "eval_targets";                 // i32, same shape
inline constexpr const char* kEvalDocumentStarts = "eval_document_starts";  // i32 [B·T], as in training
inline constexpr const char* kEvalSums = "eval_sums";                       // f32 [3]: loss sum, tokens, stop votes
inline constexpr const char* kPrefillTokens = "prefill_tokens";             // i32 [T]
inline constexpr const char* kDecodeToken = "decode_token";                 // i32 [1]
inline constexpr const char* kPosition = "position";  // i64 [1]: of a prefill's last token, or of the decoded token
inline constexpr const char* kLogits = "logits";  // f32 [vocab, padded to a multiple of y]: of the token at "position"
// Of each layer with experts in training (see of_router()), for each micro-batch of this rank's tokens; all ranks of x
// and y have the same: see graph::CountChoices.
inline constexpr std::string_view kCounts = "counts";  // i32 [micro-batches, experts]
inline constexpr std::string_view kMargin = "margin";  // f32 [micro-batches, 1]
inline constexpr std::string_view kFlips = "flips";    // i32 [micro-batches, 1]
// i32 [micro-batches, tokens·choices]: each token's experts, ascending; unless StepConfig::routing is free.
inline constexpr std::string_view kChosen = "chosen";
/// "L3.mlp.router.counts"
std::string of_router(std::int64_t layer, std::string_view name);
}  // namespace names

/// When the gradients of parameters that are cut over z are reduce-scattered over z. Parameters that aren't cut, and
/// the sum over data, don't depend on it: they are summed once a step.
///
/// `step`: micro-batches are added first, in the rank's whole block, whose fp32 gradient stays for the step.
/// `micro_batch`: ranks are added first, and micro-batches in the rank's shard. The whole block's gradient lives in one
/// micro-batch, and each sends it. Floats are added in another order, so results differ in rounding.
enum class GradientReduction : std::uint8_t { step, micro_batch };

/// Where the choice of experts comes from in a training step, and where it goes: made by the logits; made by them and
/// kept in the state "chosen"; or read from there.
enum class Routing : std::uint8_t { free, recorded, replayed };

struct StepConfig {
  std::int64_t micro_batch = 1;    // sequences that each of Grid::batch_ranks() runs at a time
  std::int64_t seq_len = 1;        // tokens in a sequence
  std::int64_t micro_batches = 1;  // in a step
  graph::Grid grid;
  PipelineLayout pipeline;  // of grid.pipe ranks
  DType dtype = DType::f32;
  DType reduce_dtype = DType::f32;  // of gradients in collectives
  bool recompute_blocks = false;
  bool reshard_after_forward = false;  // weights gathered over z are gathered again for the backward pass
  bool zero1 = false;                  // optimizer state is sharded over data too
  GradientReduction gradient_reduction = GradientReduction::step;
  /// The residual stream, norms and dropout of a micro-batch are cut by rows over y, and the MLP's activation over x,
  /// so that each axis divides all that the backward pass keeps (Korthikanti et al., arXiv 2205.05198). Sums of a
  /// product's results are reduce-scattered in place of all-reduced, and the next product's input is all-gathered. y
  /// and x divide the rows of a micro-batch. Only the training step does so.
  bool sequence_parallel = false;
  /// The rows of a micro-batch's logits, in so many parts that the head and the loss, and their gradients, are computed
  /// for one after the other, so that a part's logits live at a time. Divides the rows. The head's gradient adds parts,
  /// so results differ in rounding.
  std::int64_t loss_parts = 1;
  float dropout = 0.0F;
  bool document_mask = false;  // tokens attend within their document
  Routing routing = Routing::free;
  float beta1 = 0.9F, beta2 = 0.95F, eps = 1e-8F, weight_decay = 0.1F, clip = 1.0F;

  /// Whether gradients are summed over z before they are summed over micro-batches: asked for, and there are several of
  /// both. Otherwise either choice gives the same graph.
  bool scatters_each_micro_batch() const {
    return gradient_reduction == GradientReduction::micro_batch && grid.z > 1 && micro_batches > 1;
  }
};

/// Indices of "coordinates". The first four are the rank's coordinates. Each of the others is 0 on exactly one of the
/// ranks that differ only in the axes of its name. The last three are of experts: which of them the rank has
/// (graph::expert_rank()), and which of the ranks of z, or of z and data, that have the same ones it is.
enum class CoordinateIndex : std::uint8_t {
  x,
  y,
  z,
  data,
  xy,
  y_data,
  yz_data,
  xz_data,
  yz,
  xz,
  rank,
  expert,
  copy,
  copy_data
};
/// The values of "coordinates" for a rank, of which a program has the first ones. A program has that state if x·y·z > 1
/// or with ZeRO-1.
std::array<std::int64_t, 14> coordinate_values(const graph::Grid& grid, const graph::Coordinates& at);

/// The third number of "random" on a rank: the row of the step's batch with which its residual stream begins.
std::int64_t first_row(const StepConfig& step, const graph::Coordinates& at);

/// The number of "first_position" on a rank.
std::int64_t first_position(const StepConfig& step, const graph::Coordinates& at);

/// Forward, backward and update of one step. The ranks of one pipeline coordinate have the same graph and differ only
/// in their state; `pipe` is that coordinate. State:
/// parameters (dtype), each the rank's block, or with z > 1 the kept range of it (see ops/sharding.h); "<name>.m" and
/// "<name>.v" for the elements that the rank updates; "<name>.master" (fp32) for the same elements if parameters are
/// bf16 or ZeRO-1 shards them.
std::shared_ptr<const graph::Graph> lower_train(const ModelConfig& model, const StepConfig& step,
                                                std::int64_t pipe = 0);

/// Writes to "eval_sums" the sum of losses, the count of targets and the stop votes of one micro-batch, summed over all
/// ranks.
std::shared_ptr<const graph::Graph> lower_eval(const ModelConfig& model, const StepConfig& step, std::int64_t pipe = 0);

/// One sequence of seq_len tokens: fills the caches and computes "logits" of the token at "position". On a grid, every
/// rank runs the same sequence and gets all logits.
std::shared_ptr<const graph::Graph> lower_prefill(const ModelConfig& model, DType dtype, std::int64_t seq_len,
                                                  const graph::Grid& grid = {}, const PipelinePart& part = {});

/// One new token at "position", after the cached tokens, and its logits.
std::shared_ptr<const graph::Graph> lower_decode(const ModelConfig& model, DType dtype, const graph::Grid& grid = {},
                                                 const PipelinePart& part = {});

}  // namespace weft::ops
