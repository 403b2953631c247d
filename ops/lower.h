// From a model's sizes to the graphs of one rank: a training step, an evaluation step, prefill and decode.
#pragma once

#include <cstdint>
#include <memory>

#include "base/dtype.h"
#include "graph/graph.h"
#include "ops/models/model_config.h"

namespace weft {

/// Names of the state tensors that the training loop writes before a step and reads after it. Of the metrics, the first
/// three are summed over ranks: a rank that wants to stop (a signal, a time limit) writes 1 to its vote, and all ranks
/// read the same sum behind the step.
namespace names {
inline constexpr const char* kScalars = "scalars";  // f32 [4]: lr, 1/(1−β1^t), 1/(1−β2^t), grad_scale
inline constexpr const char* kRandom = "random";    // i64 [3]: seed, step, row_base
inline constexpr const char* kTokens = "tokens";    // i32 [micro-batches, B·T]
inline constexpr const char* kTargets = "targets";  // i32, same shape; negative: ignored
inline constexpr const char* kMetrics = "metrics";  // f32 [5]: loss sum, tokens, stop votes, gradient norm, clip factor
inline constexpr const char* kEvalTokens = "eval_tokens";        // i32 [B·T]
inline constexpr const char* kEvalTargets = "eval_targets";      // i32 [B·T]
inline constexpr const char* kEvalSums = "eval_sums";            // f32 [2]: loss sum, tokens
inline constexpr const char* kPrefillTokens = "prefill_tokens";  // i32 [T]
inline constexpr const char* kDecodeToken = "decode_token";      // i32 [1]
inline constexpr const char* kPosition = "position";  // i64 [1]: of the last token of a prefill, of the decoded one
inline constexpr const char* kLogits = "logits";      // f32 [vocab]: of the token at "position"
}  // namespace names

struct StepConfig {
  std::int64_t micro_batch = 1, seq_len = 1, micro_batches = 1;  // sequences, tokens, count a step
  std::int64_t data_ranks = 1;
  DType dtype = DType::f32;
  bool recompute_blocks = false;
  float dropout = 0.0F;
  float beta1 = 0.9F, beta2 = 0.95F, eps = 1e-8F, weight_decay = 0.1F, clip = 1.0F;
};

/// Forward, backward and update of one step. State: parameters (dtype), with "<name>.m", "<name>.v" and in bf16
/// "<name>.master" (fp32).
std::shared_ptr<const Graph> lower_train(const ModelConfig& model, const StepConfig& step);

/// Sum of losses and count of targets of one micro-batch over all ranks, into "eval_sums".
std::shared_ptr<const Graph> lower_eval(const ModelConfig& model, const StepConfig& step);

/// One sequence of seq_len tokens: fills the caches, and "logits" of the token at "position".
std::shared_ptr<const Graph> lower_prefill(const ModelConfig& model, DType dtype, std::int64_t seq_len);

/// One token at "position" behind the cached ones; its logits.
std::shared_ptr<const Graph> lower_decode(const ModelConfig& model, DType dtype);

}  // namespace weft
