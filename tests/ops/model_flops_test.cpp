// The operations that a model's formula counts are those of its graph's products and attention.
#include "ops/model_flops.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/ops/tiny_model.h"

namespace weft::ops {
namespace {

using testing::ModelKind;

/// Of the tasks of a step's products and attention, by token. Recomputation doesn't count: neither repeated blocks nor
/// the scores that the backward pass of attention computes again, one of its five products.
double flops_of_graph(const ModelConfig& model, const StepConfig& step) {
  const auto graph = lower_train(model, step);
  double flops = 0;
  for (const graph::Task& task : graph->tasks()) {
    if (task.name.find(".recompute.") != std::string::npos) continue;
    const double all = graph::work_of(task.operation, 4).flops;
    if (const auto* gemm = std::get_if<graph::Gemm>(&task.operation)) {
      EXPECT_EQ(gemm->epilogue, Epilogue::none);
    }
    if (graph::kind_class(task.operation) == graph::KindClass::gemm) flops += all;
    if (std::holds_alternative<graph::AttentionForward>(task.operation)) flops += all;
    if (std::holds_alternative<graph::AttentionBackward>(task.operation)) flops += all * 4 / 5;
  }
  return flops / static_cast<double>(step.micro_batch * step.micro_batches * step.seq_len);
}

void expect_as_in_graph(const ModelConfig& model, const std::string& what) {
  StepConfig step = testing::tiny_step();
  for (const std::int64_t seq_len : {8, 3}) {
    for (const bool recompute : {false, true}) {
      step.seq_len = seq_len;
      step.recompute_blocks = recompute;
      const double counted = train_flops_per_token(model, seq_len);
      EXPECT_NEAR(counted, flops_of_graph(model, step), 1e-9 * counted) << what << " of " << seq_len;
    }
  }
}

TEST(ModelFlops, AreThoseOfTheGraphsProductsAndAttention) {
  for (const ModelKind kind : testing::kEveryKind) {
    ModelConfig model = testing::tiny_model(kind);
    for (const bool tied : {false, true}) {
      model.tied = tied;
      expect_as_in_graph(model, testing::to_string(kind));
    }
  }
}

TEST(ModelFlops, OfAdaptersEndBeforeTheFirst) {
  for (const ModelKind kind : {ModelKind::gpt2, ModelKind::qwen2, ModelKind::gemma, ModelKind::mixtral}) {
    ModelConfig model = testing::tiny_model(kind);
    for (const LoraModules on : {kLoraAll, kLoraQkv, kLoraOut, kLoraMlp, only(LoraModule::down)}) {
      if (model.experts > 0 && (on & kLoraMlp).any()) continue;
      model.lora = {.rank = 2, .on = on};
      expect_as_in_graph(model, std::string(testing::to_string(kind)) + " " + to_string(on));
    }
  }
}

TEST(ModelFlops, OfGpt2CountNeitherPositionsNorNormsNorBiases) {
  const ModelConfig model = model_by_name("gpt2-124m");
  // 12 layers of 12·768², the head, which is the token embedding, and 512.5 keys a query on average.
  const double products = 6.0 * (12.0 * 12 * 768 * 768 + 50257.0 * 768);
  EXPECT_DOUBLE_EQ(train_flops_per_token(model, 1024), products + 12.0 * 12 * 768 * 512.5);
}

TEST(ModelFlops, OfAnInputTableAreNone) {
  ModelConfig model = model_by_name("llama-8b");
  const double untied = train_flops_per_token(model, 2048);
  model.tied = true;
  EXPECT_DOUBLE_EQ(train_flops_per_token(model, 2048), untied);
}

}  // namespace
}  // namespace weft::ops
