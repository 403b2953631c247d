#include "ops/pipeline_layout.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/error.h"
#include "tests/ops/tiny_model.h"

namespace weft::ops {
namespace {

ModelConfig model_of(std::int64_t layers, std::int64_t vocab, bool tied) {
  ModelConfig model = testing::tiny_model(tied ? Family::gpt2 : Family::llama);
  model.layers = layers;
  model.vocab = vocab;
  model.tied = tied;
  return model;
}

using Layers = std::vector<std::int64_t>;

TEST(PipelineLayout, LayersAreEvenAndTheRestIsInLateStagesBeforeTheHead) {
  EXPECT_EQ(balanced_layout(model_of(8, 11, false), 8, 4).layers, (Layers{2, 2, 2, 2}));
  EXPECT_EQ(balanced_layout(model_of(9, 11, false), 8, 4).layers, (Layers{2, 2, 3, 2}));
  EXPECT_EQ(balanced_layout(model_of(5, 11, false), 8, 1).layers, (Layers{5}));
}

TEST(PipelineLayout, ALargeHeadCountsAsLayers) {
  const Layers layers = balanced_layout(model_of(12, 20000, false), 8, 4).layers;
  EXPECT_EQ(layers.back(), 1);
  EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), std::int64_t{0}), 12);
}

TEST(PipelineLayout, StagesFollowEachOther) {
  const PipelineLayout layout{2, {.chunks = 2, .placement = graph::ChunkPlacement::v}, {2, 1, 1, 3}};
  EXPECT_EQ(layout.stages(), 4);
  EXPECT_EQ(layout.first_layer(2), 3);
  EXPECT_EQ(layout.end_layer(3), 7);
  EXPECT_EQ(layout.stage_of_layer(0), 0);
  EXPECT_EQ(layout.stage_of_layer(2), 1);
  EXPECT_EQ(layout.stage_of_layer(6), 3);
  EXPECT_EQ(layout.last_rank(), 0);
}

// Each parameter has one rank, but for a tied embedding, which the first and the last stage share.
TEST(PipelineLayout, EveryParameterIsHeldOnce) {
  for (const bool tied : {false, true}) {
    const ModelConfig model = model_of(6, 11, tied);
    for (const graph::PipelineChunks chunks :
         {graph::PipelineChunks{}, graph::PipelineChunks{2}, graph::PipelineChunks{2, graph::ChunkPlacement::v}}) {
      const PipelineLayout layout = balanced_layout(model, 8, 3, chunks);
      const std::vector<ParameterSpec> specs = model_parameters(model);
      for (const ParameterSpec& spec : specs) {
        int holders = 0, copies = 0;
        for (std::int64_t pipe = 0; pipe < 3; ++pipe) {
          holders += holds(model, layout, spec, pipe) ? 1 : 0;
          copies += is_copy(model, layout, spec, pipe) ? 1 : 0;
        }
        EXPECT_EQ(holders - copies, 1) << spec.name;
        EXPECT_EQ(copies, tied && spec.name == "wte.weight" && layout.last_rank() != 0 ? 1 : 0) << spec.name;
      }
    }
  }
}

TEST(PipelineLayout, MessagesTurnBackInAV) {
  const PipelineLayout v{3, {.chunks = 2, .placement = graph::ChunkPlacement::v}, {1, 1, 1, 1, 1, 1}};
  EXPECT_EQ(forward_channel(v, 2), graph::Channel::send_next);
  EXPECT_EQ(forward_channel(v, 4), graph::Channel::send_previous);
  EXPECT_EQ(backward_channel(v, 4), graph::Channel::send_next);
  const PipelineLayout loop{3, {.chunks = 2}, {1, 1, 1, 1, 1, 1}};
  EXPECT_EQ(forward_channel(loop, 3), graph::Channel::send_next);  // from the last rank to the first
}

TEST(PipelineLayout, DivisionsThatDontFitAreRefused) {
  const ModelConfig model = model_of(4, 11, false);
  EXPECT_THROW(validate_layout(model, balanced_layout(model, 8, 5)), UserError);
  EXPECT_THROW(validate_layout(model, {2, {}, {1, 2}}), UserError);
  EXPECT_THROW(validate_layout(model, {2, {}, {0, 4}}), UserError);
  EXPECT_THROW(validate_layout(model, {2, {}, {1, 1, 2}}), UserError);
  EXPECT_THROW(validate_layout(model, {2, {1, graph::ChunkPlacement::v}, {2, 2}}), UserError);
  EXPECT_NO_THROW(validate_layout(model, {2, {}, {1, 3}}));
}

}  // namespace
}  // namespace weft::ops
