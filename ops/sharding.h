// Sharding of a model's parameters on a grid: which elements of each parameter a rank holds, updates and stores.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/grid.h"
#include "ops/model_config.h"

namespace weft::ops {

/// The axes that shard a parameter. In a normal layer, x shards the columns of the matrix and y its rows. A transposed
/// layer (attention's output, MLP-down) swaps x and y, so that no activation between the layers is re-sharded.
enum class Sharding : std::uint8_t {
  normal,      // [out/Y, in/X], the block's elements over z: QKV, MLP-up, embedding and head (rows: tokens)
  transposed,  // [out/X, in/Y], the block's elements over z: attention's output, MLP-down
  columns,     // [rows, cols/X], the block's elements over z: learned positions
  over_x,      // a vector beside the residual stream: norms, biases of transposed layers
  over_y,      // a vector beside a normal layer's output: its bias
  everywhere,  // a vector that every rank holds whole and uses for its own heads: norms of Q and K
  // With Grid::expert, the rank's experts: each as normal and transposed ones, but whole over z.
  experts_up,
  experts_down,
  // Narrow matrices beside a layer W, cut as W is along the side that they share with it, and not at all along the
  // other side or over z: a message for so few elements costs more than their memory.
  columns_over_x,  // [rank, in/X]: an adapter's A of a normal layer; and a router, [experts, in/X]
  columns_over_y,  // [rank, in/Y]: A of a transposed layer
  rows_over_y,     // [out/Y, rank]: B of a normal layer
  rows_over_x,     // [out/X, rank]: B of a transposed layer
};

Sharding sharding_of(const ParameterSpec& spec, const graph::Grid& grid);
constexpr bool is_cut_over_z(Sharding sharding) {
  return sharding == Sharding::normal || sharding == Sharding::transposed || sharding == Sharding::columns;
}
constexpr bool is_of_own_experts(Sharding sharding) {
  return sharding == Sharding::experts_up || sharding == Sharding::experts_down;
}

/// `count` elements that are adjacent both in a rank's block and in the whole parameter (rows × cols, row-major).
struct ElementRun {
  std::int64_t local = 0;    // index of the first in the block
  std::int64_t global = -1;  // index of the first in the parameter; -1: padding, which is zero and never stored
  std::int64_t count = 0;
};

/// One rank's shard of one parameter. Its block has `rows` × `cols` elements. Counted row-major, the rank keeps [begin,
/// end) of them as state and updates [update_begin, update_end).
///
///   L0.attn.qkv.weight [96, 32] on x=2, z=2: the block is [96, 16], of which z = 1 keeps [768, 1536)
struct ParameterShard {
  const ParameterSpec* spec = nullptr;
  Sharding sharding = Sharding::normal;
  std::int64_t rows = 1, cols = 0;  // of the block; a vector has [1, cols]
  std::int64_t begin = 0, end = 0;
  std::int64_t update_begin = 0, update_end = 0;
  /// Of the ranks that keep equal elements, the one with replica 0 counts and stores them; `update_replica` is the same
  /// for updated elements.
  std::int64_t replica = 0, update_replica = 0;
  std::vector<ElementRun> runs;  // of the whole block, in its order; empty if they were left out

  std::int64_t elements() const { return rows * cols; }
  /// The runs of [from, to) of the block; `local` counts from `from`.
  std::vector<ElementRun> runs_within(std::int64_t from, std::int64_t to) const;
};

/// Consecutive rows of a rank's block that one of spec.stored holds.
struct StoredRows {
  std::int64_t begin = 0, count = 0;
  std::size_t stored = 0;
};

/// The rows of a rank's block of a matrix, by the tensors that store them. The sizes are the same on every rank.
///
///   L0.attn.qkv.weight of llama with 8 heads of 4 columns on x=2: 16 rows of q_proj, 16 of k_proj, 16 of v_proj, twice
std::vector<StoredRows> stored_rows(const ModelConfig& model, const ParameterSpec& spec, const graph::Grid& grid);

/// Rows of a rank's block of the token embedding and the head; the vocabulary is padded so that y and z divide it.
std::int64_t local_vocab(const ModelConfig& model, const graph::Grid& grid);

/// Attention heads of a rank, or with context the heads of one of its groups of ranks of context, with which one of
/// them attends. Queries are sharded over y and x. So are keys and values if there are enough heads; otherwise each
/// key/value head of the y block serves `ranks_per_kv_head` neighbours in x.
struct LocalHeads {
  std::int64_t heads = 0, kv_heads = 0;      // heads that a rank attends with
  std::int64_t y_heads = 0, y_kv_heads = 0;  // heads of the y block: computed by QKV, before x divides them
  bool kv_shared = false;                    // the y block has fewer KV heads than x has ranks
  std::int64_t ranks_per_kv_head = 1;
};
LocalHeads local_heads(const ModelConfig& model, const graph::Grid& grid);

/// Whether ZeRO-1 shards the kept range of the block over data: only if the size divides. Otherwise every data rank
/// updates all of it.
bool zero1_cuts(const ParameterShard& shard, const graph::Grid& grid);

/// Whether shards list their runs, of which a matrix may have one a row. Lowering needs their sizes alone.
enum class ShardRuns : std::uint8_t { listed, left_out };

/// The shards of all parameters, in the order of model_parameters(). `specs` must outlive the result.
std::vector<ParameterShard> shard_parameters(const ModelConfig& model, const std::vector<ParameterSpec>& specs,
                                             const graph::Grid& grid, const graph::Coordinates& at, bool zero1 = false,
                                             ShardRuns runs = ShardRuns::listed);

/// All grids of `ranks` ranks that fit the model, ordered by x, y and z.
std::vector<graph::Grid> fitting_grids(const ModelConfig& model, std::int64_t ranks);

/// Whether the axes divide the model's sizes.
bool fits_model(const ModelConfig& model, const graph::Grid& grid);

/// Flags for the grid of `ranks` ranks that fits the model and `batch` sequences, and is nearest to `wanted`:
/// "--grid x=2,data=2"; with another global batch where no grid divides `batch`.
std::string nearest_grid_flags(const ModelConfig& model, const graph::Grid& wanted, std::int64_t ranks,
                               std::int64_t batch);

/// Throws UserError if the grid doesn't fit the model. The message names the dimension and the nearest sizes of the
/// axis that fit and divide `batch` sequences (0: any), if the ranks aren't fixed, and the nearest grid of as many
/// ranks.
void validate_grid(const ModelConfig& model, const graph::Grid& grid, std::int64_t batch = 0, bool fixed_ranks = false);

}  // namespace weft::ops
