#include "ops/optimizer.h"

#include <gtest/gtest.h>

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

INSTANTIATE_TEST_SUITE_P(Both, OptimizerGraph, ::testing::Values(Family::gpt2, Family::llama),
                         [](const auto& info) { return std::string(to_string(info.param)); });

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

TEST_P(OptimizerGraph, TheFirstReductionIsNotLeftToTheEnd) {
  step_.grid.data = 2;
  const auto graph = lower_train(model_, step_);
  EXPECT_LT(graph->find_task("mb1.L1.mlp.down.weight.bwd.all_reduce"), graph->find_task("mb1.L1.mlp.up.bwd.gemm_dx"));
  EXPECT_LT(graph->find_task("mb1.L1.norm1.weight.bwd.all_reduce"), graph->find_task("mb1.L0.mlp.down.bwd.gemm_dx"));
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
