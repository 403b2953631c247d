// Blocks of queries, tiles of keys, and the keys of a tile that a query sees.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {

inline constexpr std::int64_t kTile = 64;  // queries of a block, keys of a tile

/// Queries first … first + queries − 1 of one sequence.
struct Block {
  std::int64_t first, queries;
  bool bounded;  // by a window or by documents
  // The first key that each query sees, which doesn't decrease; the last one's after the last query. Only if bounded.
  std::array<std::int32_t, kTile> begins{};

  // `document_starts` of the sequence, or null.
  Block(const AttentionShape& shape, std::int64_t index, const std::int32_t* document_starts)
      : first(index * kTile),
        queries(std::min(kTile, shape.seq - first)),
        bounded(shape.window > 0 || document_starts != nullptr) {
    for (std::int64_t i = 0; bounded && i < kTile; ++i) {
      const std::int64_t query = first + std::min(i, queries - 1);
      std::int64_t begin = shape.window > 0 ? std::max<std::int64_t>(0, query - shape.window + 1) : 0;
      if (document_starts != nullptr) begin = std::max<std::int64_t>(begin, document_starts[query]);
      begins[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(begin);
    }
  }
  std::int64_t vectors() const { return ceil_div(queries, kLanes); }
  std::int64_t keys() const { return first + queries; }  // keys that its last query sees, if it isn't bounded
  // The first key of the first tile that its first query sees.
  std::int64_t first_tile() const { return bounded ? begins.front() / kTile * kTile : 0; }
};

/// Keys first … first + keys − 1, for a block of queries.
struct KeyTile {
  std::int64_t first, keys;
  const std::int32_t* begins;  // the block's
  bool diagonal;
  bool bounded;  // some query's keys begin after the first of the tile
  bool leads;    // the first tile of its block

  KeyTile(const Block& block, std::int64_t first_key)
      : first(first_key),
        keys(std::min(kTile, block.keys() - first)),
        begins(block.begins.data()),
        diagonal(first == block.first),
        bounded(block.bounded && block.begins.back() > first),
        leads(first == block.first_tile()) {}
  // Number of keys that no query of vector `v` is too early for.
  std::int64_t visible(std::int64_t v) const { return diagonal ? std::min(keys, (v + 1) * kLanes) : keys; }
  // Lanes of vector `v` whose query's keys begin after the tile's key `key`.
  Ints past(std::int64_t key, std::int64_t v) const {
    Ints of_queries;
    std::memcpy(&of_queries, begins + v * kLanes, sizeof of_queries);
    return of_queries > static_cast<std::int32_t>(first + key);
  }
};

/// Lanes of vector `v` whose query comes before the diagonal tile's key `key`.
inline Ints hidden_lanes(std::int64_t key, std::int64_t v) {
  return lane_numbers() < static_cast<std::int32_t>(key - v * kLanes);
}

/// The score of a key before the first that a query sees. It is finite, since a tile may have nothing else for a query;
/// the tiles that follow, whose keys the query sees, multiply such a tile's sums by exp(kPastKey − score) = 0.
inline constexpr float kPastKey = -1e30F;

}  // namespace weft::cpu
