// Steps with adapters: the state that they have, the tasks that they lack, and what they send.
#include "ops/lora.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "ops/lower.h"
#include "tests/base/messages.h"
#include "tests/ops/tiny_model.h"

namespace weft::ops {
namespace {

using testing::contains;

std::int64_t bytes_of_role(const graph::Graph& graph, graph::Role role) {
  std::int64_t bytes = 0;
  for (const graph::Tensor& tensor : graph.tensors()) {
    if (tensor.role == role) bytes += tensor.elements() * static_cast<std::int64_t>(size_of(tensor.dtype));
  }
  return bytes;
}

std::map<graph::Channel, int> forward_collectives(const graph::Graph& graph) {
  std::map<graph::Channel, int> count;
  for (const graph::Task& task : graph.tasks()) {
    if (const graph::Channel* channel = graph::channel_of(task.operation);
        channel != nullptr && task.phase == graph::Phase::forward) {
      ++count[*channel];
    }
  }
  return count;
}

class LoraGraph : public ::testing::TestWithParam<Family> {
 protected:
  LoraGraph() { adapted_.lora.rank = 2; }

  ModelConfig model_ = testing::tiny_model(GetParam()), adapted_ = model_;
  StepConfig step_ = testing::tiny_step();
};

INSTANTIATE_TEST_SUITE_P(Families, LoraGraph, testing::kFamilies, testing::kNameOfParam);

TEST_P(LoraGraph, KeepsNothingOfFrozenWeightsButThem) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    step_.dtype = dtype;
    const auto graph = lower_train(adapted_, step_);
    const std::int64_t adapters = adapted_.adapter_parameters();
    const auto element = static_cast<std::int64_t>(size_of(dtype));
    EXPECT_EQ(bytes_of_role(*graph, graph::Role::parameter), element * (adapted_.parameters() + adapters));
    EXPECT_EQ(bytes_of_role(*graph, graph::Role::optimizer_state), (dtype == DType::bf16 ? 12 : 8) * adapters);
    EXPECT_EQ(bytes_of_role(*graph, graph::Role::gradient), 4 * adapters);
    for (const graph::Tensor& tensor : graph->tensors()) {
      if (tensor.role != graph::Role::optimizer_state) continue;
      EXPECT_TRUE(contains(tensor.name, ".lora_")) << tensor.name;
    }
  }
}

// No product for the gradient of a weight, and no step below the first adapter, which here is in the first MLP.
TEST_P(LoraGraph, ComputesNoGradientThatNobodyNeeds) {
  adapted_.lora.on = kLoraMlp;
  const auto graph = lower_train(adapted_, step_);
  int of_adapters = 0;
  for (const graph::Task& task : graph->tasks()) {
    if (task.phase != graph::Phase::backward) continue;
    EXPECT_FALSE(contains(task.name, "gemm_dw") || contains(task.name, "bias_grad") || contains(task.name, "embed"))
        << task.name;
    EXPECT_FALSE(contains(task.name, ".L0.attn.") || contains(task.name, ".L0.norm")) << task.name;
    of_adapters += contains(task.name, ".lora.bwd.gemm_da") ? 1 : 0;
  }
  EXPECT_EQ(of_adapters, 2 * adapted_.layers * step_.micro_batches);
}

TEST_P(LoraGraph, SendsOnlyGradientsOfAdaptersInAddition) {
  for (const graph::Grid& grid : {graph::Grid{2, 2, 1, 1}, graph::Grid{2, 1, 2, 1}, graph::Grid{1, 2, 1, 2}}) {
    step_.grid = grid;
    const auto graph = lower_train(adapted_, step_);
    EXPECT_EQ(forward_collectives(*graph), forward_collectives(*lower_train(model_, step_)));
    std::map<graph::Channel, std::int64_t> elements;
    for (const graph::Task& task : graph->tasks()) {
      if (!contains(task.name, ".lora_")) continue;
      if (const auto* sum = std::get_if<graph::AllReduce>(&task.operation)) elements[sum->channel] += sum->count;
    }
    // On every rank its part of A and B, over the axis that doesn't cut it, and over z and data.
    std::int64_t over_x = 0, over_y = 0;
    const auto specs = model_parameters(adapted_);
    for (const ParameterShard& shard : shard_parameters(adapted_, specs, grid, {}, false, ShardRuns::left_out)) {
      if (shard.sharding == Sharding::columns_over_x || shard.sharding == Sharding::rows_over_x)
        over_y += shard.elements();
      if (shard.sharding == Sharding::rows_over_y || shard.sharding == Sharding::columns_over_y)
        over_x += shard.elements();
    }
    EXPECT_EQ(elements[graph::Channel::x], grid.x > 1 ? over_x : 0);
    EXPECT_EQ(elements[graph::Channel::y], grid.y > 1 ? over_y : 0);
    EXPECT_EQ(elements[graph::Channel::z_scatter], grid.z > 1 ? over_x + over_y : 0);
    EXPECT_EQ(elements[graph::Channel::data], grid.data > 1 ? over_x + over_y : 0);
  }
}

TEST_P(LoraGraph, IsTheSameGraphWithoutAdapters) {
  const std::uint64_t before = lower_train(model_, step_)->fingerprint();
  model_.lora.alpha = 3;  // of no adapters
  EXPECT_EQ(lower_train(model_, step_)->fingerprint(), before);
  EXPECT_NE(lower_train(adapted_, step_)->fingerprint(), before);
}

TEST(StoredRowsOfBlocks, FollowTheOrderOfHeads) {
  ModelConfig model;
  model.family = Family::llama;
  model.hidden = 32;
  model.heads = model.kv_heads = 8;
  const auto rows_on = [&](const graph::Grid& grid, std::string_view name) {
    std::string text;
    for (const ParameterSpec& spec : model_parameters(model)) {
      if (spec.name != name) continue;
      for (const StoredRows& rows : stored_rows(model, spec, grid)) {
        text += std::to_string(rows.begin) + "+" + std::to_string(rows.count) + ":" + std::to_string(rows.stored) + " ";
      }
    }
    return text;
  };
  EXPECT_EQ(rows_on({}, "L0.attn.qkv.weight"), "0+32:0 32+32:1 64+32:2 ");
  EXPECT_EQ(rows_on({.x = 2, .y = 2}, "L0.attn.qkv.weight"), "0+8:0 8+8:1 16+8:2 24+8:0 32+8:1 40+8:2 ");
  model.kv_heads = 2;
  EXPECT_EQ(rows_on({.x = 4}, "L0.attn.qkv.weight"), "0+32:0 32+8:1 40+8:2 ");
  model.ffn = 12;
  EXPECT_EQ(rows_on({.y = 3}, "L0.mlp.up.weight"), "0+4:0 4+4:1 ");
  EXPECT_EQ(rows_on({.x = 2}, "L0.mlp.down.weight"), "0+16:0 ");
  model.family = Family::gpt2;
  model.kv_heads = 8;
  EXPECT_EQ(rows_on({.x = 2, .y = 2}, "L0.attn.qkv.weight"), "0+48:0 ");
}

}  // namespace
}  // namespace weft::ops
