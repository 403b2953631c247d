#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/ops/tiny_model.h"

namespace weft::ops {
namespace {

class TransformerGraph : public ::testing::TestWithParam<Family> {
 protected:
  ModelConfig model_ = testing::tiny_model(GetParam());
  StepConfig step_ = testing::tiny_step();
};

INSTANTIATE_TEST_SUITE_P(Both, TransformerGraph, testing::kFamilies, testing::kNameOfParam);

TEST_P(TransformerGraph, TheHeadIsTheEmbeddingWhenTied) {
  for (const bool tied : {false, true}) {
    model_.tied = tied;
    const auto graph = lower_train(model_, step_);
    EXPECT_EQ(testing::tensor_of(*graph, "mb0.head.fwd.gemm", 1), tied ? "wte.weight" : "head.weight");
    EXPECT_EQ(graph->find_tensor("head.weight").valid(), !tied);
    EXPECT_EQ(testing::tensor_of(*graph, "mb0.head.bwd.gemm_dw", 2), tied ? "wte.weight.grad" : "head.weight.grad");
  }
}

// Recomputation emits a block again, except the tasks that only its output needs: the last residual sum and the product
// before it.
TEST_P(TransformerGraph, RecomputeRepeatsABlockWithoutItsDeadTail) {
  const auto plain = lower_train(model_, step_);
  EXPECT_TRUE(testing::tasks_with(*plain, "recompute").empty());
  step_.recompute_blocks = true;
  const auto graph = lower_train(model_, step_);
  for (const char* block : {"mb0.L0.", "mb0.L1.", "mb1.L0.", "mb1.L1."}) {
    std::vector<std::string> expected;
    for (const graph::Task& t : graph->tasks()) {
      if (t.phase != graph::Phase::forward || !t.name.starts_with(block)) continue;
      if (t.name.ends_with("mlp.down.fwd.gemm") || t.name.ends_with("mlp.fwd.add")) continue;
      std::string again = t.name;
      expected.push_back(again.replace(again.find(".fwd."), 5, ".recompute."));
    }
    std::vector<std::string> found;
    for (const std::string& name : testing::tasks_with(*graph, "recompute")) {
      if (name.starts_with(block)) found.push_back(name);
    }
    EXPECT_EQ(found, expected);
    // Right before the block's backward pass, and after the backward pass of the following block.
    EXPECT_LT(graph->find_task(found.back()), graph->find_task(std::string(block) + "mlp.down.bwd.gemm_dx"));
  }
  EXPECT_LT(graph->find_task("mb0.L1.norm1.bwd.norm_dx"), graph->find_task("mb0.L0.norm1.recompute.norm"));
  // Outside blocks no task is repeated, and nothing else differs.
  EXPECT_EQ(graph->tasks().size(), plain->tasks().size() + testing::tasks_with(*graph, "recompute").size());
}

// With recomputation, a block's activations needn't outlive its forward pass: the adjoints read the recomputed tensors.
TEST_P(TransformerGraph, WithRecomputeTheBackwardPassReadsNoActivationOfABlocksForwardPass) {
  step_.recompute_blocks = true;
  step_.dropout = 0.1F;
  const auto graph = lower_train(model_, step_);
  std::set<graph::TensorId> of_forward;
  for (const graph::Task& t : graph->tasks()) {
    if (t.phase == graph::Phase::forward && t.layer >= 0) {
      for (const graph::Access& access : t.accesses) {
        if (access.mode != graph::AccessMode::read) of_forward.insert(access.view.tensor);
      }
      continue;
    }
    if (t.phase != graph::Phase::backward) continue;
    for (const graph::Access& access : t.accesses) {
      const graph::Tensor& tensor = graph->tensor(access.view.tensor);
      // A block's own output is the next block's input, which is kept.
      const bool boundary = tensor.name.ends_with("mlp.fwd.residual");
      EXPECT_TRUE(boundary || !of_forward.contains(access.view.tensor)) << t.name << " reads " << tensor.name;
    }
  }
}

TEST_P(TransformerGraph, DropoutHasASiteEachAndTheMaskOfItsForwardPassInTheAdjoint) {
  step_.dropout = 0.25F;
  step_.recompute_blocks = true;
  const auto graph = lower_train(model_, step_);
  const auto site = [&](const std::string& name) { return testing::operation<graph::Dropout>(*graph, name).site; };
  const std::vector<std::pair<std::string, std::string>> places = {{"embed.drop.", "dropout"},
                                                                   {"L0.attn.", "dropout_add"},
                                                                   {"L0.mlp.", "dropout_add"},
                                                                   {"L1.attn.", "dropout_add"},
                                                                   {"L1.mlp.", "dropout_add"}};
  for (std::int64_t mb = 0; mb < step_.micro_batches; ++mb) {
    const std::string prefix = "mb" + std::to_string(mb) + ".";
    std::set<std::uint32_t> sites;
    for (const auto& [scope, what] : places) {
      const graph::Dropout& forward = testing::operation<graph::Dropout>(*graph, prefix + scope + "fwd." + what);
      const graph::Dropout& backward = testing::operation<graph::Dropout>(*graph, prefix + scope + "bwd.dropout_dx");
      EXPECT_TRUE(sites.insert(forward.site).second) << scope;
      EXPECT_EQ(backward.site, forward.site) << scope;
      EXPECT_EQ(forward.row_offset, mb * 8) << scope;
      EXPECT_EQ(backward.row_offset, mb * 8) << scope;
      EXPECT_EQ(forward.p, 0.25F);
      EXPECT_EQ(backward.p, 0.25F);
      EXPECT_EQ(forward.residual, what == "dropout_add");
      EXPECT_FALSE(backward.residual);
    }
    EXPECT_EQ(site(prefix + "L1.attn.recompute.dropout_add"), site(prefix + "L1.attn.fwd.dropout_add"));
  }
}

TEST_P(TransformerGraph, TheInputsGradientComesBeforeTheWeights) {
  const auto graph = lower_train(model_, step_);
  for (const std::string& name : testing::tasks_with(*graph, "bwd.gemm_dw")) {
    std::string input = name;
    input.replace(input.rfind("gemm_dw"), 7, "gemm_dx");
    EXPECT_EQ(graph->find_task(input).index() + 1, graph->find_task(name).index()) << name;
  }
}

}  // namespace
}  // namespace weft::ops
