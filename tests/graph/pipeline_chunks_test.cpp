#include <gtest/gtest.h>

#include <vector>

#include "graph/grid.h"

namespace weft::graph {
namespace {

std::vector<std::int64_t> stages_on(const PipelineChunks& chunks, std::int64_t rank, std::int64_t ranks) {
  std::vector<std::int64_t> stages;
  for (std::int64_t chunk = 0; chunk < chunks.chunks; ++chunk) stages.push_back(chunks.stage_on(rank, chunk, ranks));
  return stages;
}

TEST(PipelineChunks, ChunksLieInLoopsOrInAV) {
  const PipelineChunks one, loop{2, ChunkPlacement::loop}, v{2, ChunkPlacement::v};
  EXPECT_EQ(stages_on(one, 2, 3), (std::vector<std::int64_t>{2}));
  EXPECT_EQ(stages_on(loop, 0, 3), (std::vector<std::int64_t>{0, 3}));
  EXPECT_EQ(stages_on(loop, 2, 3), (std::vector<std::int64_t>{2, 5}));
  EXPECT_EQ(stages_on(v, 0, 3), (std::vector<std::int64_t>{0, 5}));
  EXPECT_EQ(stages_on(v, 2, 3), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(v.stages(3), 6);
  EXPECT_EQ(to_string(ChunkPlacement::v), "v");
}

TEST(PipelineChunks, EachStageIsOnOneRank) {
  for (const ChunkPlacement placement : {ChunkPlacement::loop, ChunkPlacement::v}) {
    for (std::int64_t count = 1; count <= 4; ++count) {
      const PipelineChunks chunks{count, placement};
      for (std::int64_t stage = 0; stage < chunks.stages(5); ++stage) {
        const std::int64_t chunk = PipelineChunks::chunk_of_stage(stage, 5);
        EXPECT_EQ(chunks.stage_on(chunks.rank_of_stage(stage, 5), chunk, 5), stage);
      }
    }
  }
}

}  // namespace
}  // namespace weft::graph
