#include "graph/colors.h"

#include "base/overloaded.h"

namespace weft {

KindClass kind_class(const Operation& operation) {
  return std::visit(Overloaded{[](const Gemm&) { return KindClass::gemm; },
                               [](const BiasGradient&) { return KindClass::elementwise; },
                               [](const LayerNormForward&) { return KindClass::elementwise; },
                               [](const LayerNormBackward&) { return KindClass::elementwise; },
                               [](const RmsNormForward&) { return KindClass::elementwise; },
                               [](const RmsNormBackward&) { return KindClass::elementwise; },
                               [](const EmbeddingForward&) { return KindClass::elementwise; },
                               [](const EmbeddingBackward&) { return KindClass::elementwise; },
                               [](const PositionBackward&) { return KindClass::elementwise; },
                               [](const Rope&) { return KindClass::elementwise; },
                               [](const AttentionForward&) { return KindClass::attention; },
                               [](const AttentionBackward&) { return KindClass::attention; },
                               [](const CacheStore&) { return KindClass::copy; },
                               [](const AttentionDecode&) { return KindClass::attention; },
                               [](const GeluForward&) { return KindClass::elementwise; },
                               [](const GeluBackward&) { return KindClass::elementwise; },
                               [](const SwiGluForward&) { return KindClass::elementwise; },
                               [](const SwiGluBackward&) { return KindClass::elementwise; },
                               [](const Add&) { return KindClass::elementwise; },
                               [](const Dropout&) { return KindClass::elementwise; },
                               [](const CrossEntropy&) { return KindClass::elementwise; },
                               [](const LossSum&) { return KindClass::elementwise; },
                               [](const SumSquares&) { return KindClass::optimizer; },
                               [](const ClipFactor&) { return KindClass::optimizer; },
                               [](const AdamW&) { return KindClass::optimizer; },
                               [](const SelectRow&) { return KindClass::copy; },
                               [](const AllReduce&) { return KindClass::all_reduce; },
                               [](const ReduceScatter&) { return KindClass::reduce_scatter; },
                               [](const AllGather&) { return KindClass::all_gather; },
                               [](const Broadcast&) { return KindClass::copy; }},
                    operation);
}

std::string_view stream_color(std::size_t index) {
  static constexpr std::array<std::string_view, 8> kColors = {"#222222", "#7B3294", "#B2182B", "#01665E",
                                                              "#8C510A", "#2166AC", "#C51B7D", "#4D9221"};
  return kColors[index % kColors.size()];
}

}  // namespace weft
