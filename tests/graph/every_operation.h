// Every operation, once plain and once with all optional arguments, and tasks made only from their schemas.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace weft::testing {

/// Additions come last, so that the operations before them keep their dtypes, and with them their golden texts.
inline std::vector<graph::Operation> operations_of_gpt2_and_llama() {
  return {graph::Gemm{2, 3, 5},
          graph::Gemm{2, 3, 5, true, true, true, true, true},
          graph::Gemm{.m = 2, .n = 3, .k = 5, .trans_b = true, .has_bias = true, .epilogue = Epilogue::gelu},
          graph::Gemm{.m = 2, .n = 3, .k = 5, .packed_b = true, .epilogue = Epilogue::gelu_gradient},
          graph::PackWeight{3, 5},
          graph::PackWeight{3, 5, true},
          graph::BiasGradient{2, 3},
          graph::BiasGradient{2, 3, true},
          graph::AddBias{2, 3},
          graph::LayerNormForward{2, 3, 1e-5F},
          graph::LayerNormBackward{2, 3},
          graph::LayerNormBackward{2, 3, true, true},
          graph::RmsNormForward{2, 3, 1e-6F},
          graph::RmsNormBackward{2, 3},
          graph::RmsNormBackward{2, 3, true, true},
          graph::NormStatistics{2, 3, false},
          graph::NormStatistics{2, 3, true},
          graph::NormForwardOfParts{2, 3, 4, 1e-5F, false},
          graph::NormForwardOfParts{2, 3, 4, 1e-5F, true},
          graph::NormBackwardSums{2, 3, false},
          graph::NormBackwardSums{2, 3, true},
          graph::NormBackwardOfParts{2, 3, 4, false},
          graph::NormBackwardOfParts{2, 3, 4, true, true, true},
          graph::TakeColumns{2, 3, 4, 2},
          graph::PutColumns{{2, 3, 4, 2}},
          graph::EmbeddingForward{6, 4, 11, 3},
          graph::EmbeddingForward{6, 4, 11, 3, true, true, true},
          graph::EmbeddingBackward{6, 4, 11},
          graph::EmbeddingBackward{6, 4, 11, true, true},
          graph::PositionBackward{6, 4, 3, 8},
          graph::PositionBackward{6, 4, 3, 8, true},
          graph::Rope{6, 2, 4, 3},
          graph::Rope{6, 2, 4, 3, 5e5F, 8.0F, 1.0F, 4.0F, 8192.0F, true, true},
          graph::AttentionForward{2, 3, 4, 2, 8},
          graph::AttentionBackward{2, 3, 4, 2, 8},
          graph::CacheStore{2, 3, 4, 8},
          graph::AttentionDecode{2, 4, 2, 8, 16},
          graph::GeluForward{7},
          graph::GeluBackward{7},
          graph::SwiGluForward{2, 3},
          graph::SwiGluBackward{2, 3},
          graph::Add{7},
          graph::Cast{7},
          graph::Dropout{2, 3, 0, 0.1F, 0},
          graph::Dropout{2, 3, 4, 0.25F, 9, true, 2},
          graph::CrossEntropy{2, 11, 12, false},
          graph::CrossEntropy{2, 11, 12},
          graph::VocabStatistics{2, 6, 11},
          graph::VocabCrossEntropy{2, 6, 11, 2, false},
          graph::VocabCrossEntropy{2, 6, 11, 2},
          graph::LossSum{2},
          graph::LossSum{2, true, true},
          graph::SumSquares{7},
          graph::SumSquares{7, true},
          graph::ClipFactor{4, 1.0F},
          graph::AdamW{7, 0.9F, 0.95F, 1e-8F, 0.1F},
          graph::AdamW{7, 0.9F, 0.95F, 1e-8F, 0.1F, true},
          graph::SelectRow{2, 3},
          graph::AllReduce{graph::Channel::data, 4, 10},
          graph::ReduceScatter{graph::Channel::z_scatter, 4, 10},
          graph::AllGather{graph::Channel::z_gather, 4, 10},
          graph::Broadcast{graph::Channel::world, 4, 10, 3},
          graph::Send{graph::Channel::send_next, 5, 10},
          graph::Receive{graph::Channel::receive_previous, 5, 10},
          graph::HeadNormForward{2, 3, 4, 1e-6F},
          graph::HeadNormBackward{2, 3, 4},
          graph::HeadNormBackward{2, 3, 4, true},
          graph::Rope{6, 2, 4, 3, 5e5F, 8.0F, 1.0F, 4.0F, 8192.0F, true, true, graph::RopeKind::yarn, 1.25F, true},
          graph::AttentionForward{2, 3, 4, 2, 8, 2},
          graph::AttentionBackward{2, 3, 4, 2, 8, 2},
          graph::AttentionDecode{2, 4, 2, 8, 16, 6},
          graph::AttentionForward{2, 3, 4, 2, 8, 0, true},
          graph::AttentionBackward{2, 3, 4, 2, 8, 2, true}};
}

/// Of adapters, and of other families.
inline std::vector<graph::Operation> further_operations() {
  return {graph::Scale{7, 0.5F},
          graph::Zero{7},
          graph::GeGluForward{2, 3},
          graph::GeGluBackward{2, 3},
          graph::AddConstant{7, 1.0F},
          graph::PutColumns{{2, 3, 4, 2}, true},
          graph::AttentionForward{2, 3, 4, 2, 8, 0, false, 0.5F},
          graph::AttentionBackward{2, 3, 4, 2, 8, 2, false, 0.5F},
          graph::AttentionDecode{2, 4, 2, 8, 16, 0, 0.5F},
          graph::Route{{5, 4, 2}},
          graph::Route{{5, 4, 2, true}},
          graph::RouteBackward{{5, 4, 2}},
          graph::RouteBackward{{5, 4, 2, true}},
          graph::SortByExpert{{5, 4, 2}},
          graph::GatherRows{{5, 2, 3}},
          graph::CombineRows{{5, 2, 3}},
          graph::CombineRows{{5, 2, 3}, true},
          graph::CombineRowsBackward{{5, 2, 3}},
          graph::GroupedGemm{10, 3, 6, 4},
          graph::GroupedGemm{10, 3, 6, 4, true},
          graph::GroupedGemmGradient{10, 3, 6, 4},
          graph::GroupedGemmGradient{10, 3, 6, 4, true},
          graph::AllToAll{graph::Channel::context, 4, 10},
          graph::AllToAll{graph::Channel::context, 4, 10, 3, true},
          graph::Dropout{2, 3, 4, 0.25F, 9, false, 1, 2, 8},
          graph::PositionBackward{6, 4, 3, 8, false, true},
          graph::OffsetsOfRank{2, 3},
          graph::GroupedGemm{20, 3, 6, 2, true, 10},
          graph::GroupedGemmGradient{20, 3, 6, 2, false, 10},
          graph::SwiGluForward{{{4, 3}, 2, 2}},
          graph::SwiGluBackward{{{4, 3}, 2, 2}},
          graph::ExchangeRows{graph::Channel::expert, 2, 3, 10, 20, 4},
          graph::ExchangeRows{graph::Channel::expert, 2, 3, 10, 20, 4, true},
          graph::Route{{5, 4, 2}, true},
          graph::CountChoices{{5, 4, 2}},
          graph::AdamW{7, 0.9F, 0.95F, 1e-8F, 0.1F, true, true},
          graph::Gemm{.m = 2, .n = 3, .k = 5, .trans_b = true, .has_bias = true, .epilogue = Epilogue::add},
          graph::Gemm{.m = 2, .n = 3, .k = 5, .trans_a = true, .epilogue = Epilogue::bias_gradient},
          graph::Gemm{2, 3, 5, true, false, true, false, false, Epilogue::bias_gradient}};
}

inline std::vector<graph::Operation> every_operation() {
  std::vector<graph::Operation> all = operations_of_gpt2_and_llama();
  for (graph::Operation& operation : further_operations()) all.push_back(std::move(operation));
  return all;
}

/// An operation, and its own state tensor for each argument that is present.
struct TaskOfSchema {
  std::string name;
  graph::Operation operation;
  std::vector<graph::ArgumentSchema> rows;
  std::vector<graph::Tensor> tensors;
  std::vector<graph::AccessMode> modes;

  void add_to(graph::GraphBuilder& builder) const {
    graph::Task task{name, operation, {}};
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      task.accesses.push_back({graph::whole(builder, builder.add_tensor(tensors[i])), modes[i]});
    }
    builder.add_task(std::move(task));
  }
};

/// `dtype` is the dtype of arguments that may have several.
inline TaskOfSchema task_of_schema(std::string name, const graph::Operation& operation, DType dtype) {
  TaskOfSchema made{std::move(name), operation, {}, {}, {}};
  graph::with_arguments(operation, [&](std::span<const graph::ArgumentSchema> schema) {
    for (const graph::ArgumentSchema& row : schema) {
      if (!row.present) continue;
      const graph::ArgumentShape& shape = row.shape;
      std::vector<std::int64_t> extents = {shape.rows, shape.cols};
      if (shape.form == graph::ArgumentShape::Form::any_rows) extents[0] = 3;
      if (shape.form == graph::ArgumentShape::Form::any_size) extents[1] = 5;
      const bool fixed = row.elements.rule == graph::ArgumentElements::Rule::one_dtype;
      made.rows.push_back(row);
      made.tensors.push_back({made.name + "." + std::to_string(made.tensors.size()), fixed ? row.elements.dtype : dtype,
                              std::move(extents), graph::Role::parameter});
      made.modes.push_back(row.mode);
    }
  });
  return made;
}

}  // namespace weft::testing
