#include "ops/lower.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/ops/tiny_model.h"

namespace weft::ops {
namespace {

class LowerFamilies : public ::testing::TestWithParam<Family> {
 protected:
  bool gpt2() const { return GetParam() == Family::gpt2; }
  const ModelConfig model_ = testing::tiny_model(GetParam());
  StepConfig step_ = testing::tiny_step();
};

INSTANTIATE_TEST_SUITE_P(Both, LowerFamilies, testing::kFamilies, testing::kNameOfParam);

TEST_P(LowerFamilies, TasksOfAStep) {
  const auto graph = lower_train(model_, step_);
  const auto parameters = static_cast<std::int64_t>(model_parameters(model_).size());
  const std::int64_t linear = step_.micro_batches * (4 * model_.layers + 1), norms = 2 * model_.layers + 1;
  EXPECT_EQ(testing::count_of<graph::Gemm>(*graph), 3 * linear);  // forward, dX and dW
  EXPECT_EQ(testing::count_of<graph::BiasGradient>(*graph), gpt2() ? step_.micro_batches * 4 * model_.layers : 0);
  EXPECT_EQ(testing::count_of<graph::AttentionForward>(*graph), step_.micro_batches * model_.layers);
  EXPECT_EQ(testing::count_of<graph::AttentionBackward>(*graph), step_.micro_batches * model_.layers);
  EXPECT_EQ(testing::count_of<graph::Rope>(*graph), gpt2() ? 0 : 2 * step_.micro_batches * model_.layers);
  EXPECT_EQ(testing::count_of<graph::LayerNormBackward>(*graph), gpt2() ? step_.micro_batches * norms : 0);
  EXPECT_EQ(testing::count_of<graph::RmsNormBackward>(*graph), gpt2() ? 0 : step_.micro_batches * norms);
  EXPECT_EQ(testing::count_of<graph::GeluBackward>(*graph), gpt2() ? step_.micro_batches * model_.layers : 0);
  EXPECT_EQ(testing::count_of<graph::SwiGluBackward>(*graph), gpt2() ? 0 : step_.micro_batches * model_.layers);
  EXPECT_EQ(testing::count_of<graph::PositionBackward>(*graph), gpt2() ? step_.micro_batches : 0);
  EXPECT_EQ(testing::count_of<graph::CrossEntropy>(*graph), step_.micro_batches);
  EXPECT_EQ(testing::count_of<graph::SumSquares>(*graph), parameters);
  EXPECT_EQ(testing::count_of<graph::AdamW>(*graph), parameters);
  EXPECT_EQ(testing::count_of<graph::ClipFactor>(*graph), 1);
  EXPECT_EQ(testing::count_of<graph::Dropout>(*graph), 0);
  EXPECT_EQ(testing::count_of<graph::AllReduce>(*graph), 0);
  // The norms' adjoints add residual gradients: no sum costs a task of its own.
  EXPECT_EQ(testing::count_of<graph::Add>(*graph), step_.micro_batches * 2 * model_.layers);
}

TEST_P(LowerFamilies, LayersMicroBatchesAndPhasesFollowTheNames) {
  step_.recompute_blocks = true;
  step_.grid.data = 2;
  const auto graph = lower_train(model_, step_);
  for (const graph::Task& t : graph->tasks()) {
    const bool update = t.name.find("update.") != std::string::npos;
    EXPECT_EQ(t.phase == graph::Phase::update, update) << t.name;
    EXPECT_EQ(t.phase == graph::Phase::forward, t.name.find(".fwd.") != std::string::npos) << t.name;
    if (update) continue;
    EXPECT_TRUE(t.name.starts_with("mb" + std::to_string(t.micro_batch) + ".")) << t.name;
    const bool in_layer = t.name.find(".L" + std::to_string(t.layer) + ".") != std::string::npos;
    EXPECT_EQ(t.layer >= 0, in_layer) << t.name;
  }
}

TEST_P(LowerFamilies, GradientsBeginWithTheFirstMicroBatchAndGrowInTheOthers) {
  const auto graph = lower_train(model_, step_);
  for (const graph::Task& t : graph->tasks()) {
    if (t.phase != graph::Phase::backward) continue;
    for (const graph::Access& access : t.accesses) {
      if (graph->tensor(access.view.tensor).role != graph::Role::gradient) continue;
      // The tied embedding's gradient begins with the head's contribution.
      const bool begins = t.micro_batch == 0 && !(gpt2() && t.name == "mb0.embed.bwd.embedding_dw");
      EXPECT_EQ(access.mode, begins ? graph::AccessMode::write : graph::AccessMode::read_write) << t.name;
    }
  }
  EXPECT_FALSE(testing::operation<graph::Gemm>(*graph, "mb0.L0.mlp.up.bwd.gemm_dw").accumulate);
  EXPECT_TRUE(testing::operation<graph::Gemm>(*graph, "mb1.L0.mlp.up.bwd.gemm_dw").accumulate);
  EXPECT_EQ(testing::operation<graph::EmbeddingBackward>(*graph, "mb0.embed.bwd.embedding_dw").accumulate, gpt2());
  EXPECT_TRUE(testing::operation<graph::EmbeddingBackward>(*graph, "mb1.embed.bwd.embedding_dw").accumulate);
}

TEST_P(LowerFamilies, EveryMicroBatchReadsItsOwnTokens) {
  const auto graph = lower_train(model_, step_);
  for (std::int64_t mb = 0; mb < step_.micro_batches; ++mb) {
    const std::string prefix = "mb" + std::to_string(mb);
    EXPECT_EQ(testing::task(*graph, prefix + ".embed.fwd.embedding").accesses[0].view.offset, mb * 8);
    EXPECT_EQ(testing::task(*graph, prefix + ".loss.fwd.cross_entropy").accesses[1].view.offset, mb * 8);
  }
  EXPECT_FALSE(testing::operation<graph::LossSum>(*graph, "mb0.loss.fwd.loss_sum").accumulate);
  EXPECT_TRUE(testing::operation<graph::LossSum>(*graph, "mb1.loss.fwd.loss_sum").accumulate);
}

// Activations and parameters take the run's dtype; sums stay fp32, and master weights appear.
TEST_P(LowerFamilies, Bf16KeepsSumsInFp32) {
  step_.dtype = DType::bf16;
  const auto graph = lower_train(model_, step_);
  for (const graph::Tensor& tensor : graph->tensors()) {
    switch (tensor.role) {
      case graph::Role::parameter:
        EXPECT_EQ(tensor.dtype, DType::bf16) << tensor.name;
        EXPECT_TRUE(graph->find_tensor(tensor.name + ".master").valid()) << tensor.name;
        break;
      case graph::Role::gradient:
      case graph::Role::optimizer_state:
        EXPECT_EQ(tensor.dtype, DType::f32) << tensor.name;
        break;
      case graph::Role::activation: {
        const std::string what = tensor.name.substr(tensor.name.rfind('.') + 1);
        const bool statistic = what == "lse" || what == "mean" || what == "rstd" || what == "losses";
        EXPECT_EQ(tensor.dtype, statistic ? DType::f32 : DType::bf16) << tensor.name;
        break;
      }
      default:
        break;
    }
  }
  EXPECT_TRUE(testing::operation<graph::AdamW>(*graph, "wte.weight.update.adamw").has_master);
  EXPECT_FALSE(testing::operation<graph::AdamW>(*lower_train(model_, testing::tiny_step()), "wte.weight.update.adamw")
                   .has_master);
}

TEST_P(LowerFamilies, EvaluationIsAForwardPassWithoutDropoutOrState) {
  step_.dropout = 0.5F;
  step_.recompute_blocks = true;
  const auto graph = lower_eval(model_, step_);
  EXPECT_EQ(testing::count_of<graph::Gemm>(*graph), 4 * model_.layers + 1);
  EXPECT_EQ(testing::count_of<graph::Dropout>(*graph), 0);
  EXPECT_EQ(testing::count_of<graph::CrossEntropy>(*graph), 1);
  EXPECT_FALSE(testing::operation<graph::CrossEntropy>(*graph, "eval.loss.fwd.cross_entropy").gradient);
  for (const graph::Task& t : graph->tasks()) {
    EXPECT_EQ(t.phase, graph::Phase::forward) << t.name;
    for (const graph::Access& access : t.accesses) {
      const graph::Tensor& tensor = graph->tensor(access.view.tensor);
      if (access.mode != graph::AccessMode::read && graph::is_state(tensor.role)) {
        EXPECT_EQ(tensor.name, names::kEvalSums) << t.name;
      }
    }
  }
  EXPECT_FALSE(graph->find_tensor("wte.weight.m").valid());
  EXPECT_EQ(testing::count_of<graph::AllReduce>(*graph), 0);
  step_.grid.data = 4;
  const auto on_four = lower_eval(model_, step_);
  ASSERT_EQ(testing::count_of<graph::AllReduce>(*on_four), 1);
  EXPECT_EQ(testing::operation<graph::AllReduce>(*on_four, "eval.loss.fwd.all_reduce").count,
            3);  // loss, targets, votes
}

TEST_P(LowerFamilies, PrefillFillsTheCachesAndLooksAtOneRow) {
  const auto graph = lower_prefill(model_, DType::f32, 8);
  EXPECT_EQ(testing::count_of<graph::CacheStore>(*graph), 2 * model_.layers);
  EXPECT_EQ(testing::count_of<graph::AttentionForward>(*graph), model_.layers);
  EXPECT_EQ(testing::count_of<graph::SelectRow>(*graph), 1);
  // Keys are rotated before they are stored.
  if (!gpt2()) {
    EXPECT_LT(graph->find_task("prefill.L0.attn.fwd.rope"), graph->find_task("prefill.L0.attn.fwd.cache_k"));
    EXPECT_FALSE(testing::operation<graph::Rope>(*graph, "prefill.L0.attn.fwd.rope").has_offset);
  }
  const graph::Gemm& head = testing::operation<graph::Gemm>(*graph, "prefill.head.fwd.gemm");
  EXPECT_EQ(head.m, 1);
  EXPECT_EQ(head.n, model_.vocab);
  EXPECT_EQ(testing::tensor_of(*graph, "prefill.head.fwd.gemm", 1), gpt2() ? "wte.weight" : "head.weight");
  EXPECT_EQ(graph->tensor(graph->find_tensor("L1.k_cache")).shape,
            (std::vector<std::int64_t>{model_.context, model_.kv_heads * model_.head_dim()}));
  // With one token there is no row to select.
  EXPECT_EQ(testing::count_of<graph::SelectRow>(*lower_prefill(model_, DType::f32, 1)), 0);
}

TEST_P(LowerFamilies, DecodeIsOneTokenAtItsPosition) {
  const auto graph = lower_decode(model_, DType::f32);
  EXPECT_EQ(testing::count_of<graph::AttentionDecode>(*graph), model_.layers);
  EXPECT_EQ(testing::count_of<graph::AttentionForward>(*graph), 0);
  EXPECT_EQ(testing::operation<graph::EmbeddingForward>(*graph, "decode.embed.fwd.embedding").has_offset, gpt2());
  if (!gpt2()) {
    EXPECT_TRUE(testing::operation<graph::Rope>(*graph, "decode.L0.attn.fwd.rope").has_offset);
  }
  for (const graph::Task& t : graph->tasks()) {
    if (const auto* gemm = std::get_if<graph::Gemm>(&t.operation)) {
      EXPECT_EQ(gemm->m, 1) << t.name;
    }
  }
}

}  // namespace
}  // namespace weft::ops
