#include "ops/loss.h"

#include "ops/collectives.h"
#include "ops/lower.h"

namespace weft::ops {

void cross_entropy(Lowering& low, Value logits, graph::View targets, graph::View sums, bool first, bool gradient) {
  const std::int64_t vocab = low.model().vocab, rows = logits.rows;
  const graph::Grid& grid = low.grid();
  const graph::TensorId losses = low.scratch("losses", DType::f32, {rows}, graph::Role::activation);
  const graph::Access changed = gradient ? low.read_write(logits.tensor) : low.read(logits.tensor);
  const auto scale = graph::access_if(gradient, [&] {
    return graph::read(low.elements(low.named(names::kScalars, DType::f32, {4}, graph::Role::scalar), 3, 1));
  });
  if (grid.y == 1) {
    low.emit(
        "cross_entropy", graph::CrossEntropy{rows, vocab, logits.cols, gradient},
        {{"logits", changed}, {"targets", graph::read(targets)}, {"losses", low.write(losses)}, {"grad_scale", scale}});
  } else {
    const graph::TensorId own = low.scratch("statistics", DType::f32, {rows, 3}, graph::Role::activation);
    low.emit("statistics", graph::VocabStatistics{rows, logits.cols, vocab},
             {{"logits", low.read(logits.tensor)},
              {"targets", graph::read(targets)},
              {"coordinate", coordinate(low, graph::Axis::y)},
              {"statistics", low.write(own)}});
    const graph::TensorId all = all_gather(low, "all_gather_statistics", own, graph::Channel::y);
    low.emit("cross_entropy", graph::VocabCrossEntropy{rows, logits.cols, vocab, grid.y, gradient},
             {{"logits", changed},
              {"targets", graph::read(targets)},
              {"coordinate", coordinate(low, graph::Axis::y)},
              {"statistics", low.read(all)},
              {"losses", low.write(losses)},
              {"grad_scale", scale}});
  }
  // The ranks of x and y have the same rows, so only one of them counts its rows.
  const bool owned = grid.x * grid.y > 1;
  low.emit("loss_sum", graph::LossSum{rows, !first, owned},
           {{"losses", low.read(losses)},
            {"targets", graph::read(targets)},
            {"sums", Lowering::result(sums, !first)},
            {"replica", graph::access_if(owned, [&] { return coordinate(low, CoordinateIndex::xy); })}});
  low.record({}, [=](Lowering& l) { l.set_gradient(logits, logits.tensor); });
}

}  // namespace weft::ops
