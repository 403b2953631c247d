// From a model's sizes to the graphs of one rank: a training step, an evaluation step, prefill and decode.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/dtype.h"
#include "graph/graph.h"
#include "graph/grid.h"
#include "ops/models/model_config.h"

namespace weft::ops {

/// Names of the state tensors that the training loop writes before a step and reads after it. Of the metrics, the first
/// three are summed over ranks: a rank that wants to stop (a signal, a time limit) writes 1 to its vote, and all ranks
/// read the same sum behind the step. So it is with the sums of an evaluation.
namespace names {
// i64 [10], written once: the rank's x, y, z and data; then numbers that are 0 on one of the ranks that hold equal
// values (see CoordinateIndex). Only where x·y·z > 1 or ZeRO-1 is on.
inline constexpr const char* kCoordinates = "coordinates";
inline constexpr const char* kScalars = "scalars";  // f32 [4]: lr, 1/(1−β1^t), 1/(1−β2^t), grad_scale
inline constexpr const char* kRandom = "random";    // i64 [3]: seed, step, row_base
inline constexpr const char* kTokens = "tokens";    // i32 [micro-batches, B·T]
inline constexpr const char* kTargets = "targets";  // i32, same shape; negative: ignored
inline constexpr const char* kMetrics = "metrics";  // f32 [5]: loss sum, tokens, stop votes, gradient norm, clip factor
inline constexpr const char* kEvalTokens = "eval_tokens";        // i32 [B·T]
inline constexpr const char* kEvalTargets = "eval_targets";      // i32 [B·T]
inline constexpr const char* kEvalSums = "eval_sums";            // f32 [3]: loss sum, tokens, stop votes
inline constexpr const char* kPrefillTokens = "prefill_tokens";  // i32 [T]
inline constexpr const char* kDecodeToken = "decode_token";      // i32 [1]
inline constexpr const char* kPosition = "position";  // i64 [1]: of the last token of a prefill, of the decoded one
inline constexpr const char* kLogits = "logits";  // f32 [vocab, padded to a multiple of y]: of the token at "position"
}  // namespace names

struct StepConfig {
  std::int64_t micro_batch = 1, seq_len = 1, micro_batches = 1;  // sequences, tokens, count a step
  graph::Grid grid;                                              // micro_batch is what each of z·data ranks runs
  DType dtype = DType::f32;
  DType reduce_dtype = DType::f32;  // of gradients on the wire
  bool recompute_blocks = false;
  bool reshard_after_forward = false;  // weights gathered over z are gathered again for the backward pass
  bool zero1 = false;                  // optimizer state is cut over data too
  float dropout = 0.0F;
  float beta1 = 0.9F, beta2 = 0.95F, eps = 1e-8F, weight_decay = 0.1F, clip = 1.0F;
};

/// Where "coordinates" says what. The first four are the rank's; the others are 0 on exactly one of the ranks that
/// differ in the axes that they name.
enum class CoordinateIndex : std::uint8_t { x, y, z, data, xy, y_data, yz_data, xz_data, yz, xz };
/// What a rank writes into "coordinates", where a program has that state: if x·y·z > 1 or with ZeRO-1.
std::array<std::int64_t, 10> coordinate_values(const graph::Grid& grid, const graph::Coordinates& at);

/// Forward, backward and update of one step of any rank: ranks differ in their state alone. State: parameters (dtype),
/// each the rank's block, or over z the kept range of it (see ops/sharding.h); "<name>.m" and "<name>.v" of the
/// elements that the rank updates, and "<name>.master" (fp32) of those where parameters are bf16 or ZeRO-1 cuts them.
std::shared_ptr<const graph::Graph> lower_train(const ModelConfig& model, const StepConfig& step);

/// Sum of losses and count of targets of one micro-batch over all ranks, into "eval_sums", and of the votes that are
/// there.
std::shared_ptr<const graph::Graph> lower_eval(const ModelConfig& model, const StepConfig& step);

/// One sequence of seq_len tokens: fills the caches, and "logits" of the token at "position". On a grid every rank runs
/// the same sequence and gets all logits.
std::shared_ptr<const graph::Graph> lower_prefill(const ModelConfig& model, DType dtype, std::int64_t seq_len,
                                                  const graph::Grid& grid = {});

/// One token at "position" behind the cached ones; its logits.
std::shared_ptr<const graph::Graph> lower_decode(const ModelConfig& model, DType dtype, const graph::Grid& grid = {});

}  // namespace weft::ops
