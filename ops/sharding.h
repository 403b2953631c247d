// How a grid cuts the parameters of a model: which elements of which tensor a rank holds, updates and stores.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/grid.h"
#include "ops/models/model_config.h"

namespace weft::ops {

/// Which axes cut a parameter. `x` cuts the columns of a normal layer's matrix and `y` its rows; a transposed layer
/// (attention's output, MLP-down) swaps the two, so that no activation is re-sharded between them.
enum class Sharding : std::uint8_t {
  normal,      // [out/Y, in/X], the block's elements over z: QKV, MLP-up, embedding and head (rows: tokens)
  transposed,  // [out/X, in/Y], the block's elements over z: attention's output, MLP-down
  columns,     // [rows, cols/X], the block's elements over z: learned positions
  over_x,      // a vector beside the residual stream: norms, biases of transposed layers
  over_y,      // a vector beside a normal layer's output: its bias
};

Sharding sharding_of(const ParameterSpec& spec);
constexpr bool is_matrix(Sharding sharding) {
  return sharding == Sharding::normal || sharding == Sharding::transposed || sharding == Sharding::columns;
}

/// `count` elements that lie side by side in a rank's block and in the whole parameter (rows × cols, row-major).
struct ElementRun {
  std::int64_t local = 0;    // of the first, from the begin of the block
  std::int64_t global = -1;  // of the first; -1: padding, which is zero and is never stored
  std::int64_t count = 0;
};

/// What one rank holds of one parameter. Its block is `rows` × `cols` elements; of these, counted row-major, it keeps
/// [begin, end) as state, and updates [update_begin, update_end).
///
///   L0.attn.qkv.weight [96, 32] on x=2, z=2: the block is [96, 16], of which z = 1 keeps [768, 1536)
struct ParameterShard {
  const ParameterSpec* spec = nullptr;
  Sharding sharding = Sharding::normal;
  std::int64_t rows = 1, cols = 0;  // of the block; a vector's is [1, cols]
  std::int64_t begin = 0, end = 0;
  std::int64_t update_begin = 0, update_end = 0;
  /// 0 on the one of the ranks that keep equal elements that counts them and stores them; of the elements it updates
  /// the same, `update_replica`.
  std::int64_t replica = 0, update_replica = 0;
  std::vector<ElementRun> runs;  // of the whole block, in its order

  std::int64_t elements() const { return rows * cols; }
  /// Those of [from, to) of the block; `local` counts from `from`.
  std::vector<ElementRun> runs_within(std::int64_t from, std::int64_t to) const;
};

/// Rows of a rank's block of the token embedding and of the head: the vocabulary padded so that y and z divide it.
std::int64_t local_vocab(const ModelConfig& model, const graph::Grid& grid);

/// Attention heads of a rank. Queries are cut over y and x; keys and values too where there are enough of them, else
/// each head of the y block serves `ranks_per_kv_head` neighbours in x.
struct LocalHeads {
  std::int64_t heads = 0, kv_heads = 0;      // that a rank attends with
  std::int64_t y_heads = 0, y_kv_heads = 0;  // of the y block: what QKV makes, before x shares it out
  bool kv_shared = false;                    // fewer KV heads in the y block than x
  std::int64_t ranks_per_kv_head = 1;
};
LocalHeads local_heads(const ModelConfig& model, const graph::Grid& grid);

/// Elements of the block that the optimizer of one data rank updates, when ZeRO-1 shards it: the kept range cut over
/// data where the size divides, else all of it.
bool zero1_cuts(const ParameterShard& shard, const graph::Grid& grid);

/// In the order of model_parameters(). `specs` must outlive the result.
std::vector<ParameterShard> shard_parameters(const ModelConfig& model, const std::vector<ParameterSpec>& specs,
                                             const graph::Grid& grid, const graph::Coordinates& at, bool zero1 = false);

/// Every grid of so many ranks that fits the model, by x, y and z.
std::vector<graph::Grid> fitting_grids(const ModelConfig& model, std::int64_t ranks);

/// Throws UserError when the grid doesn't fit the model, naming the dimension and the nearest sizes of the axis that
/// do.
void validate_grid(const ModelConfig& model, const graph::Grid& grid);

}  // namespace weft::ops
