#include "ops/loss.h"

#include "ops/lower.h"

namespace weft {

void cross_entropy(Lowering& low, Value logits, View targets, View sums, bool first, bool gradient) {
  const std::int64_t vocab = low.model().vocab;
  const TensorId losses = low.scratch("losses", DType::f32, {logits.rows}, Role::activation);
  std::vector<Access> accesses = {gradient ? low.read_write(logits.tensor) : low.read(logits.tensor), read(targets),
                                  low.write(losses)};
  if (gradient) {
    const TensorId scalars = low.named(names::kScalars, DType::f32, {4}, Role::scalar);
    accesses.push_back(read(low.elements(scalars, 3, 1)));
  }
  low.emit("cross_entropy", CrossEntropy{logits.rows, vocab, logits.cols, gradient}, std::move(accesses));
  low.emit("loss_sum", LossSum{logits.rows, !first},
           {low.read(losses), read(targets), first ? write(sums) : read_write(sums)});
  low.record({}, [=](Lowering& l) { l.set_gradient(logits, logits.tensor); });
}

}  // namespace weft
