// How the stages of a pipeline lie on its ranks.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft::graph {

/// `loop`: stage s is on rank s mod P. `v`, with two chunks: the first P stages rise over the ranks, the others fall
/// back, so that the first and the last stage are on rank 0.
enum class ChunkPlacement : std::uint8_t { loop, v };

constexpr std::string_view to_string(ChunkPlacement placement) {
  return placement == ChunkPlacement::loop ? "loop" : "v";
}

/// A rank of P holds `chunks` stages, so a pipeline has P·chunks. "Rank" is the coordinate on the axis pipe.
///
///   P = 2, two chunks   loop: rank 0 has stages 0 and 2, rank 1 has 1 and 3
///                       v:    rank 0 has stages 0 and 3, rank 1 has 1 and 2
struct PipelineChunks {
  std::int64_t chunks = 1;
  ChunkPlacement placement = ChunkPlacement::loop;

  constexpr std::int64_t stages(std::int64_t ranks) const { return ranks * chunks; }
  constexpr std::int64_t rank_of(std::int64_t stage, std::int64_t ranks) const {
    const bool falls = placement == ChunkPlacement::v && stage >= ranks;
    return falls ? 2 * ranks - 1 - stage : stage % ranks;
  }
  /// The stage of a rank's chunk; chunks of a rank are counted in the order of the forward pass.
  constexpr std::int64_t stage_on(std::int64_t rank, std::int64_t chunk, std::int64_t ranks) const {
    const bool falls = placement == ChunkPlacement::v && chunk == 1;
    return falls ? 2 * ranks - 1 - rank : chunk * ranks + rank;
  }
  friend bool operator==(const PipelineChunks&, const PipelineChunks&) = default;
};

}  // namespace weft::graph
