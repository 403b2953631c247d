// Mixture of experts in place of an MLP: a router chooses some experts for each token, and their results are added by
// the router's weights.
#pragma once

#include <cstdint>
#include <optional>

#include "ops/lower.h"
#include "ops/lowering.h"

namespace weft::ops {

/// Of a training step, whose state tells of each choice (names::of_router()).
struct StepRouting {
  Routing routing = Routing::free;
  std::int64_t micro_batches = 1;
};

/// x [rows, hidden/x], the input of the layer's branch → its output. Experts are cut as an MLP's matrices are: y cuts
/// an expert's columns, x its rows, z what a rank keeps. Every rank of y has all tokens and routes them alike; each has
/// its own columns' part of the gradients of the rows, of the weights, and so of the logits and the router's matrix.
/// These are linear in one another, so x's gradient alone is summed over y, once for experts and router together, and
/// the router's own once a step.
///
///   forward   router: gemm → all-reduce logits over x → route → sort
///             gather rows → up → all-reduce over x → activation → down → combine → all-reduce over y
///   backward  combine → all-reduce dweights over x → route; down_dx → all-reduce over x → activation → up_dx → combine
///             (+ logits' part) → all-reduce dx over y; the matrices' gradients
///
/// Tokens of each expert, and how near the choice was to another one, are counted once in a training step (`of_step`).
///
/// With sequence parallelism x is gathered over y, and the sums over y are reduce-scattered; the activation isn't cut
/// over x, since the rows of an expert are data.
Value experts(Lowering& low, Value x, std::int64_t layer, const std::optional<StepRouting>& of_step = {});

}  // namespace weft::ops
