// Every operation, plainly and with all that is optional, and a graph of them made from their schemas.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace weft::testing {

inline std::vector<Operation> every_operation() {
  return {Gemm{2, 3, 5},
          Gemm{2, 3, 5, true, true, true, true, true},
          Gemm{.m = 2, .n = 3, .k = 5, .trans_b = true, .has_bias = true, .epilogue = Epilogue::gelu},
          Gemm{.m = 2, .n = 3, .k = 5, .packed_b = true, .epilogue = Epilogue::gelu_gradient},
          PackWeight{3, 5},
          PackWeight{3, 5, true},
          BiasGradient{2, 3},
          BiasGradient{2, 3, true},
          AddBias{2, 3},
          LayerNormForward{2, 3, 1e-5F},
          LayerNormBackward{2, 3},
          LayerNormBackward{2, 3, true, true},
          RmsNormForward{2, 3, 1e-6F},
          RmsNormBackward{2, 3},
          RmsNormBackward{2, 3, true, true},
          NormStatistics{2, 3, false},
          NormStatistics{2, 3, true},
          NormForwardOfParts{2, 3, 4, 1e-5F, false},
          NormForwardOfParts{2, 3, 4, 1e-5F, true},
          NormBackwardSums{2, 3, false},
          NormBackwardSums{2, 3, true},
          NormBackwardOfParts{2, 3, 4, false},
          NormBackwardOfParts{2, 3, 4, true, true, true},
          TakeColumns{2, 3, 4, 2},
          PutColumns{2, 3, 4, 2},
          EmbeddingForward{6, 4, 11, 3},
          EmbeddingForward{6, 4, 11, 3, true, true, true},
          EmbeddingBackward{6, 4, 11},
          EmbeddingBackward{6, 4, 11, true, true},
          PositionBackward{6, 4, 3, 8},
          PositionBackward{6, 4, 3, 8, true},
          Rope{6, 2, 4, 3},
          Rope{6, 2, 4, 3, 5e5F, 8.0F, 1.0F, 4.0F, 8192.0F, true, true},
          AttentionForward{2, 3, 4, 2, 8},
          AttentionBackward{2, 3, 4, 2, 8},
          CacheStore{2, 3, 4, 8},
          AttentionDecode{2, 4, 2, 8, 16},
          GeluForward{7},
          GeluBackward{7},
          SwiGluForward{2, 3},
          SwiGluBackward{2, 3},
          Add{7},
          Cast{7},
          Dropout{2, 3, 0, 0.1F, 0},
          Dropout{2, 3, 4, 0.25F, 9, true, 2},
          CrossEntropy{2, 11, 12, false},
          CrossEntropy{2, 11, 12},
          VocabStatistics{2, 6, 11},
          VocabCrossEntropy{2, 6, 11, 2, false},
          VocabCrossEntropy{2, 6, 11, 2},
          LossSum{2},
          LossSum{2, true, true},
          SumSquares{7},
          SumSquares{7, true},
          ClipFactor{4, 1.0F},
          AdamW{7, 0.9F, 0.95F, 1e-8F, 0.1F},
          AdamW{7, 0.9F, 0.95F, 1e-8F, 0.1F, true},
          SelectRow{2, 3},
          AllReduce{Channel::data, 4, 10},
          ReduceScatter{Channel::z_scatter, 4, 10},
          AllGather{Channel::z_gather, 4, 10},
          Broadcast{Channel::world, 4, 10, 3}};
}

}  // namespace weft::testing
