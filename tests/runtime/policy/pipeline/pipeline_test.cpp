#include "runtime/policy/pipeline/pipeline.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/runtime/pipeline_toy.h"

namespace weft::policy {
namespace {

TEST(PipelineShape, IsThatOfTheClasses) {
  const graph::PipelineChunks v{2, graph::ChunkPlacement::v};
  const testing::PipelineToy toy({.stages = 3, .micro_batches = 5, .chunks = v});
  const PipelineShape shape = shape_of(toy.classes(), v, "mine");
  EXPECT_EQ(shape.ranks, 3);
  EXPECT_EQ(shape.stages(), 6);
  EXPECT_EQ(shape.micro_batches, 5);
  EXPECT_EQ(shape.stage_on(1, 1), 4);
  EXPECT_EQ(shape.rank_of(4), 1);
  EXPECT_TRUE(has_stages(toy.classes()));
  EXPECT_EQ(testing::message_of<UserError>([&] { shape_of(toy.classes(), {}, "mine"); }),
            "policy mine orders one chunk of layers a rank, and pipeline rank 0 of 3 holds the virtual stages 0, 5; "
            "expected the virtual stages 0\n  fix: lower the model with the chunks that this policy names, or choose "
            "another policy");
}

}  // namespace
}  // namespace weft::policy
