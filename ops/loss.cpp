#include "ops/loss.h"

#include "ops/collectives.h"
#include "ops/lower.h"

namespace weft {

void cross_entropy(Lowering& low, Value logits, View targets, View sums, bool first, bool gradient) {
  const std::int64_t vocab = low.model().vocab, rows = logits.rows;
  const Grid& grid = low.grid();
  const TensorId losses = low.scratch("losses", DType::f32, {rows}, Role::activation);
  const Access changed = gradient ? low.read_write(logits.tensor) : low.read(logits.tensor);
  const auto scale = access_if(
      gradient, [&] { return read(low.elements(low.named(names::kScalars, DType::f32, {4}, Role::scalar), 3, 1)); });
  if (grid.y == 1) {
    low.emit("cross_entropy", CrossEntropy{rows, vocab, logits.cols, gradient},
             {{"logits", changed}, {"targets", read(targets)}, {"losses", low.write(losses)}, {"grad_scale", scale}});
  } else {
    const TensorId own = low.scratch("statistics", DType::f32, {rows, 3}, Role::activation);
    low.emit("statistics", VocabStatistics{rows, logits.cols, vocab},
             {{"logits", low.read(logits.tensor)},
              {"targets", read(targets)},
              {"coordinate", coordinate(low, Axis::y)},
              {"statistics", low.write(own)}});
    const TensorId all = all_gather(low, "all_gather_statistics", own, Channel::y);
    low.emit("cross_entropy", VocabCrossEntropy{rows, logits.cols, vocab, grid.y, gradient},
             {{"logits", changed},
              {"targets", read(targets)},
              {"coordinate", coordinate(low, Axis::y)},
              {"statistics", low.read(all)},
              {"losses", low.write(losses)},
              {"grad_scale", scale}});
  }
  // The ranks of x and y have the same rows: one of them counts.
  const bool owned = grid.x * grid.y > 1;
  low.emit("loss_sum", LossSum{rows, !first, owned},
           {{"losses", low.read(losses)},
            {"targets", read(targets)},
            {"sums", first ? write(sums) : read_write(sums)},
            {"replica", access_if(owned, [&] { return coordinate(low, CoordinateIndex::xy); })}});
  low.record({}, [=](Lowering& l) { l.set_gradient(logits, logits.tensor); });
}

}  // namespace weft
