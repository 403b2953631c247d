#include "ops/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/ops/tiny_model.h"

namespace weft::ops {
namespace {

class OptimizerGraph : public ::testing::TestWithParam<Family> {
 protected:
  const ModelConfig model_ = testing::tiny_model(GetParam());
  StepConfig step_ = testing::tiny_step();
};

INSTANTIATE_TEST_SUITE_P(Both, OptimizerGraph, testing::kFamilies, testing::kNameOfParam);

TEST_P(OptimizerGraph, EveryGradientAndTheLossAreReducedOnce) {
  step_.grid.data = 2;
  const auto graph = lower_train(model_, step_);
  std::set<std::string> reduced;
  for (const graph::Task& t : graph->tasks()) {
    if (!graph::is_collective(t.operation)) continue;
    const auto& operation = std::get<graph::AllReduce>(t.operation);
    const graph::Tensor& tensor = graph->tensor(t.accesses[0].view.tensor);
    EXPECT_TRUE(reduced.insert(tensor.name).second) << tensor.name;
    EXPECT_EQ(operation.channel, graph::Channel::data);
    EXPECT_EQ(operation.ranks, 2);
    EXPECT_EQ(t.micro_batch, step_.micro_batches - 1) << t.name;
    if (tensor.name != names::kMetrics) {
      EXPECT_EQ(operation.count, tensor.elements()) << t.name;
    }
  }
  EXPECT_EQ(reduced.size(), model_parameters(model_).size() + 1);
  // Loss sum, tokens and votes; the rank itself computes the norm and the factor.
  EXPECT_EQ(testing::operation<graph::AllReduce>(*graph, "mb1.loss.fwd.all_reduce").count, 3);
}

// The reductions of a parameter come directly after the adjoint that adds its last contribution, with no task between.
TEST_P(OptimizerGraph, AGradientIsReducedRightBehindTheAdjointThatCompletesIt) {
  step_.grid.data = 2;
  for (const bool recompute : {false, true}) {
    step_.recompute_blocks = recompute;
    const auto graph = lower_train(model_, step_);
    for (std::size_t i = 0; i < graph->tasks().size(); ++i) {
      const graph::Task& t = graph->task(graph::TaskId(i));
      if (!graph::is_collective(t.operation) || t.phase != graph::Phase::backward) continue;
      const graph::TensorId gradient = t.accesses[0].view.tensor;
      std::size_t last_writer = 0, behind = i;
      for (std::size_t j = 0; j < graph->tasks().size(); ++j) {
        if (j == i) continue;
        for (const graph::Access& access : graph->task(graph::TaskId(j)).accesses) {
          if (access.view.tensor == gradient && access.mode != graph::AccessMode::read) last_writer = j;
        }
      }
      EXPECT_LT(last_writer, i) << t.name;
      const graph::Task& writer = graph->task(graph::TaskId(last_writer));
      const std::string scope = writer.name.substr(0, writer.name.find("bwd."));
      while (behind-- > last_writer) {
        EXPECT_TRUE(graph->task(graph::TaskId(behind)).name.starts_with(scope))
            << graph->task(graph::TaskId(behind)).name << " comes between " << writer.name << " and " << t.name;
      }
    }
  }
}

TEST_P(OptimizerGraph, EachMicroBatchIsScatteredAndItsShardAdded) {
  step_.grid.z = step_.grid.data = 2;
  step_.micro_batches = 3;
  step_.gradient_reduction = GradientReduction::micro_batch;
  const auto graph = lower_train(model_, step_);
  EXPECT_EQ(
      testing::tasks_with(*graph, "L1.mlp.up.weight."),
      (std::vector<std::string>{"mb0.L1.mlp.up.weight.bwd.reduce_scatter", "mb1.L1.mlp.up.weight.bwd.reduce_scatter",
                                "mb1.L1.mlp.up.weight.bwd.accumulate", "mb2.L1.mlp.up.weight.bwd.reduce_scatter",
                                "mb2.L1.mlp.up.weight.bwd.accumulate", "mb2.L1.mlp.up.weight.bwd.all_reduce",
                                "L1.mlp.up.weight.update.norm", "L1.mlp.up.weight.update.adamw"}));
  EXPECT_EQ(testing::tensor_of(*graph, "mb0.L1.mlp.up.weight.bwd.reduce_scatter", 1), "L1.mlp.up.weight.grad.shard");
  for (const char* micro_batch : {"mb1", "mb2"}) {
    const std::string scope = std::string(micro_batch) + ".L1.mlp.up.weight.bwd.";
    const std::string part = std::string("mlp.up.weight.part.") + micro_batch;
    EXPECT_EQ(testing::tensor_of(*graph, scope + "reduce_scatter", 1), part);
    EXPECT_EQ(testing::tensor_of(*graph, scope + "accumulate", 0), "L1.mlp.up.weight.grad.shard");
    EXPECT_EQ(testing::tensor_of(*graph, scope + "accumulate", 1), part);
    EXPECT_EQ(testing::tensor_of(*graph, scope + "accumulate", 2), "L1.mlp.up.weight.grad.shard");
  }
  EXPECT_EQ(testing::tensor_of(*graph, "L1.mlp.up.weight.update.adamw", 1), "L1.mlp.up.weight.grad.shard");
  EXPECT_FALSE(testing::operation<graph::Gemm>(*graph, "mb2.L1.mlp.up.bwd.gemm_dw").accumulate);
  // Vectors aren't cut over z.
  EXPECT_EQ(testing::tasks_with(*graph, "L1.norm1.weight.bwd."),
            (std::vector<std::string>{"mb2.L1.norm1.weight.bwd.all_reduce_z", "mb2.L1.norm1.weight.bwd.all_reduce"}));
}

// In a micro-batch the gradients of equal matrices have one buffer.
TEST_P(OptimizerGraph, LayersTakeTurnsInABuffer) {
  ModelConfig model = model_;
  model.layers = 5;
  step_.grid.z = 2;
  step_.gradient_reduction = GradientReduction::micro_batch;
  const auto graph = lower_train(model, step_);
  for (int layer = 0; layer < 5; ++layer) {
    const std::string own = "L" + std::to_string(layer) + ".mlp.up.weight";
    EXPECT_FALSE(graph->find_tensor(own + ".grad").valid());
    EXPECT_TRUE(graph->find_tensor("L" + std::to_string(layer) + ".norm1.weight.grad").valid());
    for (const std::string micro_batch : {"mb0", "mb1"}) {
      std::string scatter = micro_batch;
      scatter.append(".").append(own).append(".bwd.reduce_scatter");
      EXPECT_EQ(testing::tensor_of(*graph, scatter, 0), "mlp.up.weight.grad." + micro_batch);
    }
  }
  // A gradient waits for the scatter of the one before it in its buffer.
  const graph::TaskId writer = graph->find_task("mb0.L2.mlp.up.bwd.gemm_dw");
  EXPECT_TRUE(std::ranges::any_of(graph->in_edges(writer), [&](const graph::Edge& edge) {
    return edge.from == graph->find_task("mb0.L3.mlp.up.weight.bwd.reduce_scatter");
  }));
  // A shard is added when the layer below has computed, so that program order hides the scatter.
  const graph::TaskId added = graph->find_task("mb1.L3.mlp.up.weight.bwd.accumulate");
  EXPECT_LT(graph->find_task("mb1.L2.mlp.up.bwd.gemm_dw"), added);
  EXPECT_LT(added, graph->find_task("mb1.L2.mlp.up.weight.bwd.reduce_scatter"));
  EXPECT_EQ(graph->task(added).layer, 3);
  if (GetParam() == Family::llama) {  // its head has a matrix of its own
    const graph::TaskId head = graph->find_task("mb1.head.head.weight.bwd.accumulate");
    EXPECT_LT(graph->find_task("mb1.L4.attn.qkv.weight.bwd.reduce_scatter"), head);
    EXPECT_LT(head, graph->find_task("mb1.L3.mlp.down.weight.bwd.reduce_scatter"));
  }
}

// The tied embedding has a contribution of the head and one of the embedding in each micro-batch.
TEST_P(OptimizerGraph, AParameterWithTwoUsesIsScatteredOnceAMicroBatch) {
  step_.grid.z = 2;
  step_.gradient_reduction = GradientReduction::micro_batch;
  const auto graph = lower_train(model_, step_);
  EXPECT_EQ(testing::tasks_with(*graph, "wte.weight.bwd.reduce_scatter").size(), 2U);
  EXPECT_LT(graph->find_task("mb0.embed.bwd.embedding_dw"),
            graph->find_task("mb0.embed.wte.weight.bwd.reduce_scatter"));
  EXPECT_EQ(testing::operation<graph::EmbeddingBackward>(*graph, "mb1.embed.bwd.embedding_dw").accumulate,
            GetParam() == Family::gpt2);
}

TEST_P(OptimizerGraph, ShardsAreAddedInFp32WhateverTravels) {
  step_.grid.z = step_.grid.data = 2;
  step_.gradient_reduction = GradientReduction::micro_batch;
  step_.reduce_dtype = DType::bf16;
  const auto graph = lower_train(model_, step_);
  EXPECT_EQ(testing::tasks_with(*graph, "mb1.L1.mlp.up.weight."),
            (std::vector<std::string>{"mb1.L1.mlp.up.weight.bwd.cast", "mb1.L1.mlp.up.weight.bwd.reduce_scatter",
                                      "mb1.L1.mlp.up.weight.bwd.cast_back", "mb1.L1.mlp.up.weight.bwd.accumulate",
                                      "mb1.L1.mlp.up.weight.bwd.cast_data", "mb1.L1.mlp.up.weight.bwd.all_reduce",
                                      "mb1.L1.mlp.up.weight.bwd.cast_back_data"}));
  for (const graph::Access& access : testing::task(*graph, "mb1.L1.mlp.up.weight.bwd.accumulate").accesses) {
    EXPECT_EQ(graph->tensor(access.view.tensor).dtype, DType::f32);
  }
}

TEST_P(OptimizerGraph, WithOneMicroBatchOrWithoutZThereIsNothingToScatterApart) {
  const auto both_agree = [&](std::int64_t z, std::int64_t micro_batches) {
    step_.grid.z = z, step_.grid.data = 2, step_.micro_batches = micro_batches;
    step_.gradient_reduction = GradientReduction::step;
    const std::uint64_t once = lower_train(model_, step_)->fingerprint();
    step_.gradient_reduction = GradientReduction::micro_batch;
    EXPECT_EQ(step_.scatters_each_micro_batch(), z > 1 && micro_batches > 1);
    return lower_train(model_, step_)->fingerprint() == once;
  };
  EXPECT_TRUE(both_agree(1, 2));
  EXPECT_TRUE(both_agree(2, 1));
  EXPECT_FALSE(both_agree(2, 2));
}

TEST_P(OptimizerGraph, NormsComeInOrderOfCompletionUpdatesInForwardOrder) {
  const auto graph = lower_train(model_, step_);
  std::vector<std::string> updates;
  for (const ParameterSpec& spec : model_parameters(model_)) updates.push_back(spec.name + ".update.adamw");
  EXPECT_EQ(testing::tasks_with(*graph, "update.adamw"), updates);
  const std::vector<std::string> norms = testing::tasks_with(*graph, "update.norm");
  EXPECT_EQ(norms.front(), GetParam() == Family::gpt2 ? "norm.weight.update.norm" : "head.weight.update.norm");
  EXPECT_EQ(norms.back(), GetParam() == Family::gpt2 ? "wpe.weight.update.norm" : "wte.weight.update.norm");
  const graph::TaskId clip = graph->find_task("update.clip");
  EXPECT_LT(graph->find_task(norms.back()), clip);
  EXPECT_LT(clip, graph->find_task(updates.front()));
  EXPECT_EQ(testing::operation<graph::ClipFactor>(*graph, "update.clip").count,
            static_cast<std::int64_t>(norms.size()));
}

// The norm is told, and no update waits for it, so that a stream which waits for the norm's sum over ranks has updated.
TEST_P(OptimizerGraph, WithoutClippingUpdatesWaitForTheirOwnGradientsAlone) {
  step_.grid.x = 2;
  step_.clip = 0;
  const auto graph = lower_train(model_, step_);
  const graph::TaskId clip = graph->find_task("update.clip");
  EXPECT_EQ(clip.index() + 1, graph->tasks().size());
  for (const std::string& name : testing::tasks_with(*graph, "update.adamw")) {
    EXPECT_TRUE(testing::operation<graph::AdamW>(*graph, name).unclipped);
    for (const graph::Edge& edge : graph->in_edges(graph->find_task(name))) {
      const graph::Operation& before = graph->task(edge.from).operation;
      EXPECT_FALSE(std::holds_alternative<graph::ClipFactor>(before) ||
                   std::holds_alternative<graph::SumSquares>(before))
          << name << " waits for " << graph->task(edge.from).name;
    }
  }
  EXPECT_TRUE(std::ranges::any_of(graph->in_edges(clip), [&](const graph::Edge& edge) {
    return edge.from == graph->find_task("update.all_reduce_norms");
  }));
}

TEST_P(OptimizerGraph, PartialNormsHaveASlotEach) {
  const auto graph = lower_train(model_, step_);
  std::set<std::int64_t> slots;
  for (const std::string& name : testing::tasks_with(*graph, "update.norm")) {
    EXPECT_TRUE(slots.insert(testing::task(*graph, name).accesses[1].view.offset).second) << name;
  }
}

TEST_P(OptimizerGraph, OnlyMatricesDecay) {
  step_.weight_decay = 0.25F;
  const auto graph = lower_train(model_, step_);
  for (const ParameterSpec& spec : model_parameters(model_)) {
    EXPECT_EQ(testing::operation<graph::AdamW>(*graph, spec.name + ".update.adamw").weight_decay,
              spec.matrix ? 0.25F : 0.0F)
        << spec.name;
  }
}

}  // namespace
}  // namespace weft::ops
