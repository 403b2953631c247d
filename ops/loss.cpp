#include "ops/loss.h"

#include "ops/collectives.h"
#include "ops/lower.h"

namespace weft {

void cross_entropy(Lowering& low, Value logits, View targets, View sums, bool first, bool gradient) {
  const std::int64_t vocab = low.model().vocab, rows = logits.rows;
  const Grid& grid = low.grid();
  const TensorId losses = low.scratch("losses", DType::f32, {rows}, Role::activation);
  std::vector<Access> accesses = {gradient ? low.read_write(logits.tensor) : low.read(logits.tensor), read(targets)};
  const auto scale = [&] {
    return read(low.elements(low.named(names::kScalars, DType::f32, {4}, Role::scalar), 3, 1));
  };
  if (grid.y == 1) {
    accesses.push_back(low.write(losses));
    if (gradient) accesses.push_back(scale());
    low.emit("cross_entropy", CrossEntropy{rows, vocab, logits.cols, gradient}, std::move(accesses));
  } else {
    const TensorId own = low.scratch("statistics", DType::f32, {rows, 3}, Role::activation);
    low.emit("statistics", VocabStatistics{rows, logits.cols, vocab},
             {low.read(logits.tensor), read(targets), coordinate(low, Axis::y), low.write(own)});
    const TensorId all = all_gather(low, "all_gather_statistics", own, Channel::y);
    accesses.insert(accesses.end(), {coordinate(low, Axis::y), low.read(all), low.write(losses)});
    if (gradient) accesses.push_back(scale());
    low.emit("cross_entropy", VocabCrossEntropy{rows, logits.cols, vocab, grid.y, gradient}, std::move(accesses));
  }
  // The ranks of x and y have the same rows: one of them counts.
  const bool owned = grid.x * grid.y > 1;
  accesses = {low.read(losses), read(targets), first ? write(sums) : read_write(sums)};
  if (owned) accesses.push_back(coordinate(low, CoordinateIndex::xy));
  low.emit("loss_sum", LossSum{rows, !first, owned}, std::move(accesses));
  low.record({}, [=](Lowering& l) { l.set_gradient(logits, logits.tensor); });
}

}  // namespace weft
