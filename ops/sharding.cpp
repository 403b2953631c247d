#include "ops/sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace weft::ops {
namespace {

struct RowRange {
  std::int64_t begin, end;
};

// The part of [0, total) that belongs to a coordinate; all parts are equal.
RowRange part(std::int64_t total, std::int64_t parts, std::int64_t coordinate) {
  const std::int64_t size = total / parts;
  return {coordinate * size, (coordinate + 1) * size};
}

// Rows of the packed QKV matrix [Q | K | V] in a y block, in the block's order. For each x rank that attends with its
// own heads: its Q, K and V, for one of its ranks of context after the other. If ranks of x share key and value heads:
// all Q, all K, all V.
std::vector<RowRange> qkv_rows(const ModelConfig& model, const graph::Grid& grid, std::int64_t y) {
  const LocalHeads local = local_heads(model, grid);
  const std::int64_t size = model.head_dim(), q_rows = model.heads * size, kv_rows = model.kv_heads * size;
  const std::int64_t groups = local.kv_shared ? 1 : grid.x * grid.context;
  std::vector<RowRange> rows;
  for (std::int64_t group = 0; group < groups; ++group) {
    const std::int64_t heads = local.y_heads / groups, kv_heads = local.y_kv_heads / groups;
    const std::int64_t q = (y * local.y_heads + group * heads) * size;
    const std::int64_t kv = (y * local.y_kv_heads + group * kv_heads) * size;
    rows.push_back({q, q + heads * size});
    rows.push_back({q_rows + kv, q_rows + kv + kv_heads * size});
    rows.push_back({q_rows + kv_rows + kv, q_rows + kv_rows + kv + kv_heads * size});
  }
  return rows;
}

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return name.ends_with(end); });
}

constexpr std::string_view kExpertsUp = "mlp.experts.up.weight", kExpertsDown = "mlp.experts.down.weight";

// Of `count` blocks of rows, one below the other, a part of each: of those that a rank's experts have.
std::vector<RowRange> rows_of_experts(std::int64_t count, std::int64_t rows, RowRange of_each, const graph::Grid& grid,
                                      const graph::Coordinates& at) {
  const RowRange own = part(count, grid.expert, graph::expert_rank(grid, at));
  std::vector<RowRange> ranges;
  for (std::int64_t block = own.begin; block < own.end; ++block) {
    ranges.push_back({block * rows + of_each.begin, block * rows + of_each.end});
  }
  return ranges;
}

// The rows of an expert's gate and up in a y block, expert by expert.
std::vector<RowRange> rows_of_experts_up(const ModelConfig& model, const graph::Grid& grid,
                                         const graph::Coordinates& at) {
  const std::int64_t cols = model.expert_cols();
  return rows_of_experts(2 * model.experts, cols, part(cols, grid.y, at.y), grid, at);
}

// The rows of each expert's matrix down in an x block.
std::vector<RowRange> rows_of_experts_down(const ModelConfig& model, const graph::Grid& grid,
                                           const graph::Coordinates& at) {
  return rows_of_experts(model.experts, model.hidden, part(model.hidden, grid.x, at.x), grid, at);
}

// Whether a matrix belongs to a transposed layer.
bool is_transposed(std::string_view name) {
  return name.find("attn.out.") != std::string_view::npos || name.find("mlp.down.") != std::string_view::npos ||
         name.ends_with(kExpertsDown);
}

// Of these rows of a matrix those that its adapter's B has, as B counts them. A range lies in one stored tensor, or in
// all of the matrix that one stores.
std::vector<RowRange> rows_of_b(const ParameterSpec& b, const std::vector<RowRange>& ranges) {
  std::vector<RowRange> rows;
  for (const RowRange& range : ranges) {
    for (std::size_t i = 0; i < b.stored.size(); ++i) {
      const std::int64_t from = b.adapter->rows[i], shift = b.stored[i].row_begin - from;
      if (range.begin < from || range.begin >= from + b.stored[i].rows) continue;
      rows.push_back({range.begin + shift, range.end + shift});
    }
  }
  return rows;
}

// Output rows in a y block of a normal layer.
std::vector<RowRange> normal_rows(const ModelConfig& model, const ParameterSpec& spec, const graph::Grid& grid,
                                  const graph::Coordinates& at) {
  const std::string_view name = spec.name;
  const std::int64_t y = at.y;
  if (name.find("attn.qkv") != std::string_view::npos) return qkv_rows(model, grid, y);
  if (name.find("mlp.up") != std::string_view::npos) {
    std::vector<RowRange> rows = {part(model.ffn, grid.y, y)};
    if (model.parts().gated()) rows.push_back({model.ffn + rows[0].begin, model.ffn + rows[0].end});
    return rows;
  }
  if (name.ends_with(kExpertsUp)) return rows_of_experts_up(model, grid, at);
  const std::int64_t vocab = local_vocab(model, grid);
  return {{y * vocab, (y + 1) * vocab}};
}

// Runs of a block that consists of these rows and of columns [col_begin, col_begin + cols) of a parameter total_rows ×
// total_cols.
std::vector<ElementRun> runs_of(const std::vector<RowRange>& rows, std::int64_t total_rows, std::int64_t total_cols,
                                std::int64_t col_begin, std::int64_t cols) {
  std::vector<ElementRun> runs;
  std::int64_t local = 0;
  const auto add = [&](std::int64_t global, std::int64_t count) {
    if (count == 0) return;
    const bool joins =
        !runs.empty() && (global < 0 ? runs.back().global < 0
                                     : runs.back().global >= 0 && runs.back().global + runs.back().count == global);
    if (joins) {
      runs.back().count += count;
    } else {
      runs.push_back({local, global, count});
    }
    local += count;
  };
  for (const RowRange& range : rows) {
    for (std::int64_t row = range.begin; row < range.end; ++row) {
      add(row < total_rows ? row * total_cols + col_begin : -1, cols);
    }
  }
  return runs;
}

std::int64_t rows_in(const std::vector<RowRange>& ranges) {
  return std::accumulate(ranges.begin(), ranges.end(), std::int64_t{0},
                         [](std::int64_t sum, const RowRange& range) { return sum + range.end - range.begin; });
}

// The axis and the dimension because of which a grid doesn't fit a model.
struct Misfit {
  graph::Axis axis;
  std::string dimension;  // "model.hidden = 384"
};

/// Why `context` doesn't fit the grid and the model: found, and expected.
std::optional<std::pair<std::string, std::string>> context_misfit(const ModelConfig& model, const graph::Grid& grid) {
  if (grid.context == 1) return std::nullopt;
  const std::int64_t ranks = grid.x * grid.y * grid.context;
  if (grid.z % grid.context != 0) {
    return std::pair(fmt::format("context = {} does not divide z = {}", grid.context, grid.z),
                     std::string("ranks of z, of which `context` neighbours share their sequences"));
  }
  if (model.kv_heads % ranks != 0) {
    return std::pair(fmt::format("model.kv-heads = {} does not divide by x · y · context = {}", model.kv_heads, ranks),
                     std::string("as many key and value heads for each rank"));
  }
  if (model.query_key_norm() == QueryKeyNorm::columns) {
    return std::pair(
        fmt::format("context = {} with norms of queries and keys over the columns of all heads", grid.context),
        std::string("a model that has no such norms, or norms of single heads"));
  }
  return std::nullopt;
}

/// Why `expert` doesn't fit the grid and the model: found, and expected.
std::optional<std::pair<std::string, std::string>> expert_misfit(const ModelConfig& model, const graph::Grid& grid) {
  if (grid.expert == 1) return std::nullopt;
  if (model.experts == 0) {
    return std::pair(fmt::format("expert = {} with model {}, which has no experts", grid.expert, model.name),
                     std::string("a model with experts, as mixtral and qwen3_moe have them"));
  }
  if (grid.z % grid.expert != 0) {
    return std::pair(fmt::format("expert = {} does not divide z = {}", grid.expert, grid.z),
                     std::string("ranks of z, of which `expert` neighbours share out the experts"));
  }
  if (model.experts % grid.expert != 0) {
    return std::pair(fmt::format("model.experts = {} does not divide by expert = {}", model.experts, grid.expert),
                     std::string("as many experts for each of the ranks"));
  }
  return std::nullopt;
}

/// The same of both folds of z.
std::optional<std::pair<std::string, std::string>> fold_misfit(const ModelConfig& model, const graph::Grid& grid) {
  const auto misfit = context_misfit(model, grid);
  return misfit ? misfit : expert_misfit(model, grid);
}

std::optional<Misfit> misfit_of(const ModelConfig& model, const graph::Grid& grid) {
  const auto sized = [](const char* key, std::int64_t value) { return fmt::format("model.{} = {}", key, value); };
  if (model.hidden % grid.x != 0) return Misfit{graph::Axis::x, sized("hidden", model.hidden)};
  if (model.heads % grid.y != 0) return Misfit{graph::Axis::y, sized("heads", model.heads)};
  if (model.kv_heads % grid.y != 0) return Misfit{graph::Axis::y, sized("kv-heads", model.kv_heads)};
  const bool dense = model.experts == 0 || !model.dense_layers.below(model.layers).empty();
  if (dense && model.ffn % grid.y != 0) return Misfit{graph::Axis::y, sized("ffn", model.ffn)};
  if (model.experts > 0 && model.expert_cols() % grid.y != 0) {
    return Misfit{graph::Axis::y, sized(model.expert_ffn > 0 ? "expert-ffn" : "ffn", model.expert_cols())};
  }
  const std::int64_t heads = model.heads / grid.y, kv_heads = model.kv_heads / grid.y;
  if (heads % grid.x != 0) {
    return Misfit{graph::Axis::x,
                  fmt::format("model.heads = {}, {} of them on each of y = {}", model.heads, heads, grid.y)};
  }
  if (kv_heads % grid.x != 0 && grid.x % kv_heads != 0) {
    return Misfit{graph::Axis::x,
                  fmt::format("model.kv-heads = {}, {} of them on each of y = {}", model.kv_heads, kv_heads, grid.y)};
  }
  if (grid.z == 1) return std::nullopt;
  for (const ParameterSpec& spec : model_parameters(model)) {
    if (!is_cut_over_z(sharding_of(spec, grid))) continue;
    const std::vector<ParameterSpec> one = {spec};
    const std::int64_t elements = shard_parameters(model, one, grid, {}, false, ShardRuns::left_out).front().elements();
    if (elements % grid.z != 0)
      return Misfit{graph::Axis::z, fmt::format("{}, {} elements a block", spec.name, elements)};
  }
  return std::nullopt;
}

// The grid of `ranks` ranks that fits the model and whose axes are nearest. Grids that have the folds of z come first,
// and then grids that divide `batch` sequences. There always is a grid that fits: pure data parallelism does.
graph::Grid nearest_grid(const ModelConfig& model, const graph::Grid& wanted, std::int64_t ranks, std::int64_t batch) {
  const std::int64_t pipe = ranks % wanted.pipe == 0 && wanted.pipe <= model.layers ? wanted.pipe : 1;
  std::vector<graph::Grid> grids = fitting_grids(model, ranks / pipe);
  for (graph::Grid& grid : grids) {
    grid.pipe = pipe;
    grid.context = wanted.context;
    while (grid.context > 1 && context_misfit(model, grid)) --grid.context;
    grid.expert = wanted.expert;
    while (grid.expert > 1 && expert_misfit(model, grid)) --grid.expert;
  }
  const auto rank_of_choice = [&](const graph::Grid& other) {
    double distance = 0;
    for (const graph::Axis axis : graph::kAxes) {
      distance += std::abs(std::log(static_cast<double>(other.on(axis)) / static_cast<double>(wanted.on(axis))));
    }
    return std::tuple(other.context != wanted.context, other.expert != wanted.expert, batch % other.batch_ranks() != 0,
                      distance);
  };
  return *std::ranges::min_element(grids, {}, rank_of_choice);
}

/// The rows and columns of a parameter that a rank has, and which copy of them it is.
struct Piece {
  std::int64_t total_rows, total_cols;  // a vector counts as a column of elements: [n, 1]
  std::vector<RowRange> rows;
  RowRange cols;
  std::int64_t replica = 0;
};

// The axes that cut a parameter's rows and columns, besides z.
struct Cuts {
  std::optional<graph::Axis> rows, cols;
};

Cuts cuts_of(Sharding sharding) {
  using graph::Axis;
  switch (sharding) {
    case Sharding::normal:
    case Sharding::experts_up:
      return {Axis::y, Axis::x};
    case Sharding::transposed:
    case Sharding::experts_down:
      return {Axis::x, Axis::y};
    case Sharding::columns:
    case Sharding::columns_over_x:
      return {{}, Axis::x};
    case Sharding::columns_over_y:
      return {{}, Axis::y};
    case Sharding::over_x:
    case Sharding::rows_over_x:
      return {Axis::x, {}};
    case Sharding::over_y:
    case Sharding::rows_over_y:
      return {Axis::y, {}};
    case Sharding::everywhere:
      break;
  }
  return {};
}

Piece piece_of(const ModelConfig& model, const ParameterSpec& spec, Sharding sharding, const graph::Grid& grid,
               const graph::Coordinates& at) {
  const std::int64_t total_rows = spec.matrix ? spec.rows : spec.cols, total_cols = spec.matrix ? spec.cols : 1;
  const Cuts cuts = cuts_of(sharding);
  Piece piece{total_rows, total_cols, {{0, total_rows}}, {0, total_cols}};
  if (cuts.rows == graph::Axis::x) piece.rows = {part(total_rows, grid.x, at.x)};
  if (spec.name.ends_with(kExpertsDown)) piece.rows = rows_of_experts_down(model, grid, at);
  if (cuts.rows == graph::Axis::y) piece.rows = normal_rows(model, spec, grid, at);
  if (cuts.rows == graph::Axis::y && spec.adapter) piece.rows = rows_of_b(spec, piece.rows);
  if (cuts.cols) piece.cols = part(total_cols, grid.on(*cuts.cols), at.on(*cuts.cols));
  std::int64_t copies = 1;
  for (const graph::Axis axis : graph::kAxes) {
    if (axis == cuts.rows || axis == cuts.cols || (axis == graph::Axis::z && is_cut_over_z(sharding))) continue;
    const std::int64_t others = axis == graph::Axis::z && is_of_own_experts(sharding) ? grid.expert : 1;
    piece.replica += at.on(axis) / others * copies;
    copies *= grid.on(axis) / others;
  }
  return piece;
}

}  // namespace

Sharding sharding_of(const ParameterSpec& spec, const graph::Grid& grid) {
  const std::string_view name = spec.name;
  if (name == "wpe.weight") return Sharding::columns;
  if (spec.adapter && spec.adapter->side == AdapterSide::a)
    return is_transposed(name) ? Sharding::columns_over_y : Sharding::columns_over_x;
  if (spec.adapter) return is_transposed(name) ? Sharding::rows_over_x : Sharding::rows_over_y;
  if (name.ends_with("mlp.router.weight")) return Sharding::columns_over_x;
  if (grid.expert > 1 && name.ends_with(kExpertsUp)) return Sharding::experts_up;
  if (grid.expert > 1 && name.ends_with(kExpertsDown)) return Sharding::experts_down;
  if (spec.matrix) return is_transposed(name) ? Sharding::transposed : Sharding::normal;
  if (ends_with_any(name, {"attn.q_norm.weight", "attn.k_norm.weight"})) return Sharding::everywhere;
  return ends_with_any(name, {"attn.qkv.bias", "mlp.up.bias"}) ? Sharding::over_y : Sharding::over_x;
}

std::vector<ElementRun> ParameterShard::runs_within(std::int64_t from, std::int64_t to) const {
  std::vector<ElementRun> within;
  for (const ElementRun& run : runs) {
    const std::int64_t first = std::max(run.local, from), last = std::min(run.local + run.count, to);
    if (first >= last) continue;
    within.push_back({first - from, run.global < 0 ? -1 : run.global + first - run.local, last - first});
  }
  return within;
}

std::vector<StoredRows> stored_rows(const ModelConfig& model, const ParameterSpec& spec, const graph::Grid& grid) {
  const std::vector<RowRange> ranges =
      is_transposed(spec.name) ? std::vector{part(spec.rows, grid.x, 0)} : normal_rows(model, spec, grid, {});
  std::vector<StoredRows> rows;
  std::int64_t begin = 0;
  for (const RowRange& range : ranges) {
    const auto holder = std::ranges::find_if(spec.stored, [&](const StoredTensor& stored) {
      return range.begin >= stored.row_begin && range.begin < stored.row_begin + stored.rows;
    });
    const auto stored = static_cast<std::size_t>(holder - spec.stored.begin());
    const std::int64_t count = range.end - range.begin;
    if (!rows.empty() && rows.back().stored == stored) {
      rows.back().count += count;
    } else {
      rows.push_back({begin, count, stored});
    }
    begin += count;
  }
  return rows;
}

std::int64_t local_vocab(const ModelConfig& model, const graph::Grid& grid) {
  const std::int64_t rows = (model.vocab + grid.y - 1) / grid.y;
  const std::int64_t unit = grid.z / std::gcd(grid.z, model.hidden / grid.x);
  return (rows + unit - 1) / unit * unit;
}

LocalHeads local_heads(const ModelConfig& model, const graph::Grid& grid) {
  LocalHeads local;
  local.y_heads = model.heads / grid.y;
  local.y_kv_heads = model.kv_heads / grid.y;
  local.heads = local.y_heads / (grid.x * grid.context);
  local.kv_shared = local.y_kv_heads < grid.x;
  local.kv_heads = local.kv_shared ? 1 : local.y_kv_heads / (grid.x * grid.context);
  local.ranks_per_kv_head = local.kv_shared ? grid.x / local.y_kv_heads : 1;
  return local;
}

bool zero1_cuts(const ParameterShard& shard, const graph::Grid& grid) {
  return grid.data > 1 && shard.sharding != Sharding::everywhere && (shard.end - shard.begin) % grid.data == 0;
}

std::vector<ParameterShard> shard_parameters(const ModelConfig& model, const std::vector<ParameterSpec>& specs,
                                             const graph::Grid& grid, const graph::Coordinates& at, bool zero1,
                                             ShardRuns runs) {
  std::vector<ParameterShard> shards;
  shards.reserve(specs.size());
  for (const ParameterSpec& spec : specs) {
    ParameterShard shard;
    shard.spec = &spec;
    shard.sharding = sharding_of(spec, grid);
    const Piece piece = piece_of(model, spec, shard.sharding, grid, at);
    shard.replica = piece.replica;
    const std::int64_t width = piece.cols.end - piece.cols.begin, height = rows_in(piece.rows);
    shard.rows = spec.matrix ? height : 1;
    shard.cols = spec.matrix ? width : height;
    if (runs == ShardRuns::listed)
      shard.runs = runs_of(piece.rows, piece.total_rows, piece.total_cols, piece.cols.begin, width);
    const RowRange kept =
        is_cut_over_z(shard.sharding) ? part(shard.elements(), grid.z, at.z) : RowRange{0, shard.elements()};
    shard.begin = shard.update_begin = kept.begin;
    shard.end = shard.update_end = kept.end;
    shard.update_replica = shard.replica;
    if (zero1 && zero1_cuts(shard, grid)) {
      const RowRange slice = part(kept.end - kept.begin, grid.data, at.data);
      shard.update_begin = kept.begin + slice.begin;
      shard.update_end = kept.begin + slice.end;
      graph::Coordinates first = at;
      first.data = 0;
      const std::vector<ParameterSpec> one = {spec};
      shard.update_replica = at.data == 0
                                 ? shard.replica
                                 : shard_parameters(model, one, grid, first, false, ShardRuns::left_out)[0].replica;
    }
    shards.push_back(std::move(shard));
  }
  return shards;
}

bool fits_model(const ModelConfig& model, const graph::Grid& grid) {
  return !fold_misfit(model, grid) && !misfit_of(model, grid);
}

std::string nearest_grid_flags(const ModelConfig& model, const graph::Grid& wanted, std::int64_t ranks,
                               std::int64_t batch) {
  const graph::Grid grid = nearest_grid(model, wanted, ranks, batch);
  std::string sizes;
  for (const graph::Axis axis :
       {graph::Axis::x, graph::Axis::y, graph::Axis::z, graph::Axis::data, graph::Axis::pipe}) {
    if (grid.on(axis) > 1)
      sizes += fmt::format("{}{}={}", sizes.empty() ? "" : ",", graph::to_string(axis), grid.on(axis));
  }
  if (grid.context > 1) sizes += fmt::format(",context={}", grid.context);
  if (grid.expert > 1) sizes += fmt::format(",expert={}", grid.expert);
  std::string flag = "--grid " + (sizes.empty() ? "data=1" : sizes);
  const std::int64_t unit = grid.batch_ranks();
  if (batch % unit == 0) return flag;
  return fmt::format("{} --global-batch {}", flag, (batch + unit - 1) / unit * unit);
}

void validate_grid(const ModelConfig& model, const graph::Grid& grid, std::int64_t batch, bool fixed_ranks) {
  if (const auto wrong = fold_misfit(model, grid)) {
    graph::Grid wanted = grid;
    const bool shares_experts = model.experts > 0 && model.experts % grid.expert == 0;
    const std::int64_t unit = std::lcm(grid.context, shares_experts ? grid.expert : 1);
    if (!fixed_ranks) wanted.z = (grid.z + unit - 1) / unit * unit;
    throw UserError(fmt::format("grid {}: {}", graph::to_string(grid), wrong->first), wrong->second,
                    fmt::format("choose {}", nearest_grid_flags(model, wanted, wanted.ranks(), batch)));
  }
  const auto misfit = misfit_of(model, grid);
  if (!misfit) return;
  const auto fits = [&](std::int64_t size) {
    graph::Grid other = grid;
    other.on(misfit->axis) = size;
    return !fixed_ranks && fits_model(model, other) && batch % other.batch_ranks() == 0;
  };
  const std::int64_t given = grid.on(misfit->axis);
  std::vector<std::string> nearest;
  for (std::int64_t below = given - 1; below >= 1 && nearest.empty(); --below) {
    if (fits(below)) nearest.push_back(fmt::format("{}={}", graph::to_string(misfit->axis), below));
  }
  for (std::int64_t above = given + 1; above <= 4 * given; ++above) {
    if (!fits(above)) continue;
    nearest.push_back(fmt::format("{}={}", graph::to_string(misfit->axis), above));
    break;
  }
  nearest.push_back(nearest_grid_flags(model, grid, grid.ranks(), batch));
  throw UserError(fmt::format("grid {}: {} does not divide by {} = {}", graph::to_string(grid), misfit->dimension,
                              graph::to_string(misfit->axis), given),
                  "sizes that the axes divide", fmt::format("choose {}", fmt::join(nearest, " or ")));
}

std::vector<graph::Grid> fitting_grids(const ModelConfig& model, std::int64_t ranks) {
  std::vector<graph::Grid> grids;
  for (std::int64_t x = 1; x <= ranks; ++x) {
    if (ranks % x != 0) continue;
    for (std::int64_t y = 1; y <= ranks / x; ++y) {
      if (ranks / x % y != 0) continue;
      for (std::int64_t z = 1; z <= ranks / x / y; ++z) {
        if (ranks / x / y % z != 0) continue;
        graph::Grid grid;
        grid.x = x, grid.y = y, grid.z = z, grid.data = ranks / x / y / z;
        if (!misfit_of(model, grid)) grids.push_back(grid);
      }
    }
  }
  return grids;
}

}  // namespace weft::ops
