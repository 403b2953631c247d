// The placement of a pipeline's virtual stages on ranks. Each rank holds one or more chunks of layers; each chunk is a
// virtual stage (Task::stage).
#pragma once

#include <cstdint>
#include <string_view>

namespace weft::graph {

/// With 3 ranks and 2 chunks a rank, the virtual stages are
///   loop:  rank 0: 0 3   rank 1: 1 4   rank 2: 2 5
///   v:     rank 0: 0 5   rank 1: 1 4   rank 2: 2 3
enum class ChunkPlacement : std::uint8_t { loop, v };

constexpr std::string_view to_string(ChunkPlacement placement) {
  return placement == ChunkPlacement::loop ? "loop" : "v";
}

/// The chunks of a rank, and where they stand. With one chunk both placements are the same.
struct PipelineChunks {
  std::int64_t chunks = 1;  // of a rank
  ChunkPlacement placement = ChunkPlacement::loop;

  /// Number of virtual stages on `ranks` ranks of a pipeline.
  constexpr std::int64_t stages(std::int64_t ranks) const { return ranks * chunks; }

  /// The virtual stage of a rank's chunk.
  constexpr std::int64_t stage_on(std::int64_t rank, std::int64_t chunk, std::int64_t ranks) const {
    return chunk * ranks + (turns(chunk) ? ranks - 1 - rank : rank);
  }
  /// The rank that holds a virtual stage.
  constexpr std::int64_t rank_of_stage(std::int64_t stage, std::int64_t ranks) const {
    return turns(stage / ranks) ? ranks - 1 - stage % ranks : stage % ranks;
  }
  /// The chunk of its rank that a virtual stage is.
  static constexpr std::int64_t chunk_of_stage(std::int64_t stage, std::int64_t ranks) { return stage / ranks; }

  friend bool operator==(const PipelineChunks&, const PipelineChunks&) = default;

 private:
  constexpr bool turns(std::int64_t chunk) const { return placement == ChunkPlacement::v && chunk % 2 == 1; }
};

}  // namespace weft::graph
