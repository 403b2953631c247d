#include "graph/kind_class.h"

#include "base/overloaded.h"

namespace weft {

KindClass kind_class(const Operation& operation) {
  return std::visit(
      Overloaded{
          [](const Gemm&) { return KindClass::gemm; }, [](const AttentionForward&) { return KindClass::attention; },
          [](const AttentionBackward&) { return KindClass::attention; },
          [](const AttentionDecode&) { return KindClass::attention; },
          [](const PackWeight&) { return KindClass::copy; }, [](const CacheStore&) { return KindClass::copy; },
          [](const TakeColumns&) { return KindClass::copy; }, [](const PutColumns&) { return KindClass::copy; },
          [](const Cast&) { return KindClass::copy; }, [](const SelectRow&) { return KindClass::copy; },
          [](const SumSquares&) { return KindClass::optimizer; },
          [](const ClipFactor&) { return KindClass::optimizer; }, [](const AdamW&) { return KindClass::optimizer; },
          [](const AllReduce&) { return KindClass::all_reduce; },
          [](const ReduceScatter&) { return KindClass::reduce_scatter; },
          [](const AllGather&) { return KindClass::all_gather; }, [](const Broadcast&) { return KindClass::copy; },
          [](const auto&) { return KindClass::elementwise; }},
      operation);
}

}  // namespace weft
