// The floating-point operations that a model needs for a token, whatever a run does beyond them. All reports of a run's
// share of its machine (MFU) count by this one function.
#pragma once

#include <cstdint>
#include <string_view>

#include "ops/model_config.h"

namespace weft::ops {

/// What train_flops_per_token() counts, for those who read a result.
inline constexpr std::string_view kCountedFlops =
    "matrix products and causal attention, forward and backward; not recomputation, embedding look-ups, positions, "
    "norms, biases or the optimizer";
/// The same as a sentence of a command's help.
inline constexpr std::string_view kMfuHelp =
    "MFU is the rate of the model's own arithmetic as a share of what the machine's products reach. It counts matrix "
    "products and causal attention, forward and backward, and nothing that is computed again.";

/// Multiplications and additions for one token in training, a mean over a sequence of `seq_len` of them:
///   a matrix [out, in] of a layer, or the head: 2·out·in each for the output, the gradient of the input and that of
///   the
///     matrix. A tied embedding counts as the head that it is, an input table not at all: its rows are looked up.
///   experts: their matrices count for the tokens that choose them, experts_per_token of all experts.
///   attention: 12·query_cols for each key that a query sees, its own position among them, and at most a window of
///   them.
///     The backward pass counts twice the forward pass; scores that a kernel computes again are recomputation.
/// With adapters, frozen matrices have no gradient of their own, and nothing before the first adapter has one.
/// Documents within a sequence count as if they saw each other: their lengths aren't known here.
double train_flops_per_token(const ModelConfig& model, std::int64_t seq_len);

}  // namespace weft::ops
