#include "ops/expert_exchange.h"

#include <algorithm>
#include <string>

#include "ops/collectives.h"

namespace weft::ops {
namespace {

graph::TensorId exchange(Lowering& low, std::string_view what, const HeldRows& held, graph::TensorId in, bool inverse) {
  if (!held.exchanged()) return in;
  const std::int64_t ranks = low.grid().expert, cols = low.tensor(in).shape.back();
  const graph::TensorId out = low.activation(std::string(what) + ".out", inverse ? held.given : held.rows, cols);
  low.emit(
      what,
      graph::ExchangeRows{graph::Channel::expert, ranks, cols, held.given, held.rows, ranks * held.experts, inverse},
      {{"in", low.read(in)}, {"table", low.read(held.table)}, {"out", low.write(out)}});
  return out;
}

}  // namespace

HeldRows held_rows(Lowering& low, graph::TensorId offsets, std::int64_t tokens, std::int64_t choices) {
  const std::int64_t ranks = low.grid().expert, given = tokens * choices;
  HeldRows held{given, given, 0, low.model().experts, offsets, {}};
  if (ranks == 1) return held;
  held.experts /= ranks;
  held.rows = ranks * tokens * std::min(choices, held.experts);
  held.expected = given;
  held.table = all_gather(low, "all_gather_offsets", offsets, graph::Channel::expert);
  held.offsets = low.scratch("held_offsets", DType::i32, {held.experts + 1}, graph::Role::activation);
  low.emit("hold", graph::OffsetsOfRank{ranks, held.experts},
           {{"table", low.read(held.table)},
            {"coordinate", coordinate(low, CoordinateIndex::expert)},
            {"offsets", low.write(held.offsets)}});
  return held;
}

graph::TensorId give_rows(Lowering& low, std::string_view what, const HeldRows& held, graph::TensorId own) {
  return exchange(low, what, held, own, false);
}

graph::TensorId return_rows(Lowering& low, std::string_view what, const HeldRows& held, graph::TensorId of_experts) {
  return exchange(low, what, held, of_experts, true);
}

}  // namespace weft::ops
