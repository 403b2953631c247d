#include "ops/optimizer.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/ops/tiny_model.h"

namespace weft {
namespace {

class OptimizerGraph : public ::testing::TestWithParam<Family> {
 protected:
  const ModelConfig model_ = tiny_model(GetParam());
  StepConfig step_ = tiny_step();
};

INSTANTIATE_TEST_SUITE_P(Both, OptimizerGraph, ::testing::Values(Family::gpt2, Family::llama),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST_P(OptimizerGraph, EveryGradientAndTheLossAreReducedOnce) {
  step_.grid.data = 2;
  const auto graph = lower_train(model_, step_);
  std::set<std::string> reduced;
  for (const Task& t : graph->tasks()) {
    if (!is_collective(t.operation)) continue;
    const auto& operation = std::get<AllReduce>(t.operation);
    const Tensor& tensor = graph->tensor(t.accesses[0].view.tensor);
    EXPECT_TRUE(reduced.insert(tensor.name).second) << tensor.name;
    EXPECT_EQ(operation.channel, Channel::data);
    EXPECT_EQ(operation.ranks, 2);
    EXPECT_EQ(t.micro_batch, step_.micro_batches - 1) << t.name;
    if (tensor.name != names::kMetrics) {
      EXPECT_EQ(operation.count, tensor.elements()) << t.name;
    }
  }
  EXPECT_EQ(reduced.size(), model_parameters(model_).size() + 1);
  // Loss sum, tokens and votes; not the norm and the factor that this rank computes itself.
  EXPECT_EQ(operation<AllReduce>(*graph, "mb1.loss.fwd.all_reduce").count, 3);
}

// Behind the adjoint that adds the last contribution come the reductions of its parameters, and nothing between.
TEST_P(OptimizerGraph, AGradientIsReducedRightBehindTheAdjointThatCompletesIt) {
  step_.grid.data = 2;
  for (const bool recompute : {false, true}) {
    step_.recompute_blocks = recompute;
    const auto graph = lower_train(model_, step_);
    for (std::size_t i = 0; i < graph->tasks().size(); ++i) {
      const Task& t = graph->task(TaskId(i));
      if (!is_collective(t.operation) || t.phase != Phase::backward) continue;
      const TensorId gradient = t.accesses[0].view.tensor;
      std::size_t last_writer = 0, behind = i;
      for (std::size_t j = 0; j < graph->tasks().size(); ++j) {
        if (j == i) continue;
        for (const Access& access : graph->task(TaskId(j)).accesses) {
          if (access.view.tensor == gradient && access.mode != AccessMode::read) last_writer = j;
        }
      }
      EXPECT_LT(last_writer, i) << t.name;
      const Task& writer = graph->task(TaskId(last_writer));
      const std::string scope = writer.name.substr(0, writer.name.find("bwd."));
      while (behind-- > last_writer) {
        EXPECT_TRUE(graph->task(TaskId(behind)).name.starts_with(scope))
            << graph->task(TaskId(behind)).name << " stands between " << writer.name << " and " << t.name;
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
  EXPECT_EQ(tasks_with(*graph, "update.adamw"), updates);
  const std::vector<std::string> norms = tasks_with(*graph, "update.norm");
  EXPECT_EQ(norms.front(), GetParam() == Family::gpt2 ? "norm.weight.update.norm" : "head.weight.update.norm");
  EXPECT_EQ(norms.back(), GetParam() == Family::gpt2 ? "wpe.weight.update.norm" : "wte.weight.update.norm");
  const TaskId clip = graph->find_task("update.clip");
  EXPECT_LT(graph->find_task(norms.back()), clip);
  EXPECT_LT(clip, graph->find_task(updates.front()));
  EXPECT_EQ(operation<ClipFactor>(*graph, "update.clip").count, static_cast<std::int64_t>(norms.size()));
}

TEST_P(OptimizerGraph, PartialNormsHaveASlotEach) {
  const auto graph = lower_train(model_, step_);
  std::set<std::int64_t> slots;
  for (const std::string& name : tasks_with(*graph, "update.norm")) {
    EXPECT_TRUE(slots.insert(task(*graph, name).accesses[1].view.offset).second) << name;
  }
}

TEST_P(OptimizerGraph, OnlyMatricesDecay) {
  step_.weight_decay = 0.25F;
  const auto graph = lower_train(model_, step_);
  for (const ParameterSpec& spec : model_parameters(model_)) {
    EXPECT_EQ(operation<AdamW>(*graph, spec.name + ".update.adamw").weight_decay, spec.matrix ? 0.25F : 0.0F)
        << spec.name;
  }
}

}  // namespace
}  // namespace weft
