// The linear layer y = x·Wᵀ + b on a grid, and its adjoint.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/lowering.h"

namespace weft::ops {

/// How the ranks of an axis share a matrix of activations: every rank has all of it, or each has a part, of its columns
/// or of its rows.
enum class Cut : std::uint8_t { none, columns, rows };

/// Consecutive output features of a layer. Not cut: every rank of the group gets the whole sum. Cut: each rank gets its
/// own part of the sum, [rows, features/ranks] or [rows/ranks, features].
struct LinearOutput {
  std::int64_t features = 0;  // in the rank's block of W
  Cut cut = Cut::none;
  std::int64_t parts = 1;  // of the result's columns, one below the other: [parts·rows, cols/parts]
};

/// x [rows, in/A], weight [out/B, in/A], bias [out/B] or null → one value for each output: O = Σ over A of x·Wᵀ, + b. A
/// is the axis that shards the input: in a normal layer A is x and B is y; a transposed layer (see Sharding) swaps
/// them.
///
///   forward   all-gather W over z → gemm → all-reduce O over A (cut: reduce-scatter)
///   backward  gemm_dx → all-reduce dx over B;  gemm_dw, bias_grad: summed over z and data once complete
///
/// `input`: how the ranks of B share x. Cut by columns, each has [rows, in/(A·B)], cut by rows [rows/B, in/A]: x is
/// all-gathered over B, and its gradient is reduce-scattered. With sequence parallelism the rank keeps its own part of
/// x alone, and gathers again for the weight's gradient, unless x is computed again right before. In program order the
/// input's gradient comes before the weight's, because the rest of the backward pass waits for it. The algorithm is
/// Agarwal et al.'s 3D multiplication as AxoNN uses it (arXiv 2502.08145).
///
/// `input_parts`: x has its columns in parts, one below the other, as an output with parts has.
std::vector<Value> linear(Lowering& low, Value x, Parameter& weight, Parameter* bias,
                          const std::vector<LinearOutput>& outputs, Cut input = Cut::none,
                          std::int64_t input_parts = 1);

/// linear() with one summed output.
Value linear(Lowering& low, Value x, Parameter& weight, Parameter* bias);

}  // namespace weft::ops
