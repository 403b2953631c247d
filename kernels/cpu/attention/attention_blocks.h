// Blocks of queries, tiles of keys, and the keys of a tile that a query sees.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {

inline constexpr std::int64_t kTile = 64;  // queries of a block, keys of a tile

/// Queries first … first + queries − 1 of one sequence.
struct Block {
  std::int64_t first, queries, window;

  Block(const AttentionShape& shape, std::int64_t index)
      : first(index * kTile), queries(std::min(kTile, shape.seq - first)), window(shape.window) {}
  std::int64_t vectors() const { return ceil_div(queries, kLanes); }
  std::int64_t keys() const { return first + queries; }  // keys that its last query sees, without a window
  // The first key of the first tile that its first query sees.
  std::int64_t first_tile() const {
    return window == 0 ? 0 : std::max<std::int64_t>(0, first - window + 1) / kTile * kTile;
  }
};

/// Keys first … first + keys − 1, for a block of queries.
struct KeyTile {
  std::int64_t first, keys, past_window;  // query + past_window is the first query whose window begins after `first`
  bool diagonal;
  bool bounded;  // some query's window begins after a key of the tile
  bool leads;    // the first tile of its block

  KeyTile(const Block& block, std::int64_t first_key)
      : first(first_key),
        keys(std::min(kTile, block.keys() - first)),
        past_window(first + block.window - block.first),
        diagonal(first == block.first),
        bounded(block.window > 0 && past_window < block.queries),
        leads(first == block.first_tile()) {}
  // Number of keys that no query of vector `v` is too early for.
  std::int64_t visible(std::int64_t v) const { return diagonal ? std::min(keys, (v + 1) * kLanes) : keys; }
  // Lanes of vector `v` whose query's window begins after `key`.
  Ints past(std::int64_t key, std::int64_t v) const {
    return lane_numbers() >= static_cast<std::int32_t>(std::clamp(key + past_window - v * kLanes, -kTile, kTile));
  }
};

/// Lanes of vector `v` whose query comes before the diagonal tile's key `key`.
inline Ints hidden_lanes(std::int64_t key, std::int64_t v) {
  return lane_numbers() < static_cast<std::int32_t>(key - v * kLanes);
}

/// The score of a key before a query's window. It is finite, since a tile may have nothing else for a query; the tiles
/// that follow, whose keys the query sees, multiply such a tile's sums by exp(kPastWindow − score) = 0.
inline constexpr float kPastWindow = -1e30F;

}  // namespace weft::cpu
