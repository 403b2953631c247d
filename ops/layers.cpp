#include "ops/layers.h"

#include <fmt/format.h>

#include "ops/collectives.h"
#include "ops/lower.h"

namespace weft::ops {

Value embedding(Lowering& low, graph::View tokens, std::int64_t rows, const Positions& positions) {
  const ModelConfig& model = low.model();
  const bool learned = model.parts().learned_positions;
  const bool sharded = low.grid().y > 1;
  Parameter& wte = low.parameter("wte.weight");
  Parameter* wpe = learned ? &low.parameter("wpe.weight") : nullptr;
  const std::int64_t cols = wte.shard->cols, vocab = wte.shard->rows;
  const bool has_offset = positions.first != nullptr && learned;
  const std::int64_t seq_len = positions.seq_len;

  const graph::TensorId all = low.activation("out", rows, cols);
  const auto position = [first = positions.first](Lowering& l) {
    return l.read(l.named(first, DType::i64, {1}, graph::Role::scalar));
  };
  low.emit("embedding", graph::EmbeddingForward{rows, cols, vocab, seq_len, learned, has_offset, sharded},
           {{"tokens", graph::read(tokens)},
            {"wte", low.read(low.weight(wte))},
            {"wpe", graph::access_if(learned, [&] { return low.read(low.weight(*wpe)); })},
            {"out", low.write(all)},
            {"position", graph::access_if(has_offset, [&] { return position(low); })},
            {"coordinate", graph::access_if(sharded, [&] { return coordinate(low, graph::Axis::y); })}});
  // One rank of y has the row of a token; the others add zero.
  Value out{all, low.residual_rows(rows), cols};
  if (low.sequence_parallel()) {
    out.tensor =
        reduce_scatter(low, "reduce_scatter", all, {out.rows, cols}, graph::Role::activation, graph::Channel::y);
  } else {
    all_reduce(low, "all_reduce", all, rows * cols, graph::Channel::y);
  }

  low.record({&wte, wpe}, [=, &wte, &model](Lowering& l) {
    const graph::TensorId own = l.gradient(out);
    const graph::TensorId dout = l.sequence_parallel() ? all_gather(l, "all_gather_dy", own, graph::Channel::y) : own;
    const auto dwte = l.gradient_slot(wte);
    l.emit("embedding_dw", graph::EmbeddingBackward{rows, cols, vocab, dwte.accumulate, sharded},
           {{"tokens", graph::read(tokens)},
            {"dout", l.read(dout)},
            {"dwte", l.result(dwte)},
            {"coordinate", graph::access_if(sharded, [&] { return coordinate(l, graph::Axis::y); })}});
    if (learned) {
      const auto dwpe = l.gradient_slot(*wpe);
      l.emit("position_dw", graph::PositionBackward{rows, cols, seq_len, model.context, dwpe.accumulate, has_offset},
             {{"dout", l.read(dout)}, {"dwpe", l.result(dwpe)}, {"position", graph::access_if(has_offset, [&] {
                                                                   return position(l);
                                                                 })}});
    }
  });
  return out;
}

namespace {

template <bool kCentered>
Value norm_of_whole_rows(Lowering& low, Value x, Parameter& weight, Parameter* bias) {
  const graph::TensorId factor = used_weight(low, weight, "norm");
  const Value y{low.activation("out", x.rows, x.cols), x.rows, x.cols};
  const auto per_row = [&](std::string_view name) {
    return low.scratch(name, DType::f32, {x.rows}, graph::Role::activation);
  };
  const graph::TensorId mean = kCentered ? per_row("mean") : graph::TensorId(), rstd = per_row("rstd");
  low.emit("norm", graph::NormForward<kCentered>{x.rows, x.cols, low.model().norm_eps},
           {{"x", low.read(x.tensor)},
            {"weight", low.read(factor)},
            {"bias", graph::access_if(kCentered, [&] { return low.read(bias->tensor); })},
            {"y", low.write(y.tensor)},
            {"mean", graph::access_if(kCentered, [&] { return low.write(mean); })},
            {"rstd", low.write(rstd)}});
  low.record({&weight, bias}, [=, &weight](Lowering& l) {
    const graph::TensorId dx = l.activation("dx", x.rows, x.cols);
    const auto residual = l.partial_gradient(x);
    const auto dw = l.gradient_slot(weight);
    l.emit("norm_dx", graph::NormBackward<kCentered>{x.rows, x.cols, residual.has_value(), dw.accumulate},
           {{"x", l.read(x.tensor)},
            {"weight", l.read(factor)},
            {"mean", graph::access_if(kCentered, [&] { return l.read(mean); })},
            {"rstd", l.read(rstd)},
            {"dy", l.read(l.gradient(y))},
            {"dx", l.write(dx)},
            {"dweight", l.result(dw)},
            {"dbias", graph::access_if(kCentered, [&] { return l.result(l.gradient_slot(*bias)); })},
            {"dresidual", graph::access_if(residual.has_value(), [&] { return l.read(*residual); })}});
    l.set_gradient(x, dx);
  });
  return y;
}

// Norm of rows whose columns are sharded over x: the ranks exchange each row's statistics, forward and backward.
Value norm_of_parts(Lowering& low, Value x, Parameter& weight, Parameter* bias) {
  const graph::TensorId factor = used_weight(low, weight, "norm");
  const bool centered = bias != nullptr;
  const std::int64_t parts = low.grid().x, width = centered ? 2 : 1;
  const auto per_row = [&](Lowering& l, std::string_view name) {
    return l.scratch(name, DType::f32, {x.rows}, graph::Role::activation);
  };
  const graph::TensorId own = low.scratch("statistics", DType::f32, {x.rows, width}, graph::Role::activation);
  low.emit("norm_statistics", graph::NormStatistics{x.rows, x.cols, centered},
           {{"x", low.read(x.tensor)}, {"statistics", low.write(own)}});
  const graph::TensorId all = all_gather(low, "all_gather_statistics", own, graph::Channel::x);

  const Value y{low.activation("out", x.rows, x.cols), x.rows, x.cols};
  const graph::TensorId mean = centered ? per_row(low, "mean") : graph::TensorId();
  const graph::TensorId rstd = per_row(low, "rstd");
  low.emit("norm", graph::NormForwardOfParts{x.rows, x.cols, parts, low.model().norm_eps, centered},
           {{"x", low.read(x.tensor)},
            {"weight", low.read(factor)},
            {"bias", graph::access_if(centered, [&] { return low.read(bias->tensor); })},
            {"statistics", low.read(all)},
            {"y", low.write(y.tensor)},
            {"mean", graph::access_if(centered, [&] { return low.write(mean); })},
            {"rstd", low.write(rstd)}});

  low.record({&weight, bias}, [=, &weight](Lowering& l) {
    const graph::TensorId dy = l.gradient(y);
    const graph::TensorId sums = l.scratch("sums", DType::f32, {x.rows, width}, graph::Role::activation);
    const auto saved_mean = graph::access_if(centered, [&] { return l.read(mean); });
    l.emit("norm_sums", graph::NormBackwardSums{x.rows, x.cols, centered},
           {{"x", l.read(x.tensor)},
            {"weight", l.read(factor)},
            {"mean", saved_mean},
            {"rstd", l.read(rstd)},
            {"dy", l.read(dy)},
            {"sums", l.write(sums)}});
    all_reduce(l, "all_reduce_sums", sums, x.rows * width, graph::Channel::x);

    const graph::TensorId dx = l.activation("dx", x.rows, x.cols);
    const auto residual = l.partial_gradient(x);
    const auto dw = l.gradient_slot(weight);
    l.emit("norm_dx", graph::NormBackwardOfParts{x.rows, x.cols, parts, centered, residual.has_value(), dw.accumulate},
           {{"x", l.read(x.tensor)},
            {"weight", l.read(factor)},
            {"mean", saved_mean},
            {"rstd", l.read(rstd)},
            {"dy", l.read(dy)},
            {"sums", l.read(sums)},
            {"dx", l.write(dx)},
            {"dweight", l.result(dw)},
            {"dbias", graph::access_if(centered, [&] { return l.result(l.gradient_slot(*bias)); })},
            {"dresidual", graph::access_if(residual.has_value(), [&] { return l.read(*residual); })}});
    l.set_gradient(x, dx);
  });
  return y;
}

}  // namespace

graph::TensorId used_weight(Lowering& low, const Parameter& weight, std::string_view norm_name) {
  if (low.model().parts().norm != NormForm::rms_of_one_plus) return weight.tensor;
  const std::int64_t cols = weight.shard->cols;
  const graph::TensorId sum = low.activation(fmt::format("{}.one_plus", norm_name), 1, cols);
  low.emit(fmt::format("{}_one_plus", norm_name), graph::AddConstant{cols, 1.0F},
           {{"x", low.read(weight.tensor)}, {"out", low.write(sum)}});
  return sum;
}

Value norm(Lowering& low, Value x, const std::string& name) {
  Parameter& weight = low.parameter(name + ".weight");
  Parameter* bias = low.model().parts().centered() ? &low.parameter(name + ".bias") : nullptr;
  if (low.sequence_parallel() && low.grid().y > 1) {
    weight.of_own_rows = true;
    if (bias != nullptr) bias->of_own_rows = true;
  }
  if (low.grid().x > 1) return norm_of_parts(low, x, weight, bias);
  return bias == nullptr ? norm_of_whole_rows<false>(low, x, weight, bias)
                         : norm_of_whole_rows<true>(low, x, weight, bias);
}

namespace {

graph::TensorId random_state(Lowering& low) {
  return low.named(names::kRandom, DType::i64, {3}, graph::Role::scalar);
}

// y = x with elements dropped (+ residual). Values beside the residual stream are sharded over x, and so is the mask's
// coordinate.
void emit_dropout(Lowering& low, std::string_view what, const Value& x, graph::TensorId y, const DropoutSite& where,
                  std::optional<graph::TensorId> residual) {
  const std::int64_t parts = low.grid().x;
  graph::Dropout op{x.rows, x.cols, where.row_offset, where.p, where.site, residual.has_value(), parts};
  if (low.grid().context > 1) {
    op.seq = where.seq_len / low.grid().context;
    op.stride = where.seq_len;
  }
  low.emit(what, op,
           {{"x", low.read(x.tensor)},
            {"random", low.read(random_state(low))},
            {"y", low.write(y)},
            {"residual", graph::access_if(op.residual, [&] { return low.read(*residual); })},
            {"coordinate", graph::access_if(parts > 1, [&] { return coordinate(low, graph::Axis::x); })}});
}

// dy with the same elements dropped as in the forward pass.
graph::TensorId dropped_gradient(Lowering& low, graph::TensorId dy, std::int64_t rows, std::int64_t cols,
                                 const DropoutSite& where) {
  const graph::TensorId dx = low.activation("dropout_dx", rows, cols);
  emit_dropout(low, "dropout_dx", {dy, rows, cols}, dx, where, std::nullopt);
  return dx;
}

}  // namespace

namespace {

Value gelu(Lowering& low, Value x) {
  const std::int64_t n = x.rows * x.cols;
  const Value y{low.activation("out", x.rows, x.cols), x.rows, x.cols};
  low.emit("gelu", graph::GeluForward{n}, {{"x", low.read(x.tensor)}, {"y", low.write(y.tensor)}});
  low.record({}, [=](Lowering& l) {
    const graph::TensorId dx = l.activation("dx", x.rows, x.cols);
    l.emit("gelu_dx", graph::GeluBackward{n},
           {{"x", l.read(x.tensor)}, {"dy", l.read(l.gradient(y))}, {"dx", l.write(dx)}});
    l.add_gradient(x, dx);
  });
  return y;
}

template <bool kGelu>
Value gated(Lowering& low, Value x, const RowGroups& of) {
  const std::int64_t cols = x.cols / 2;
  const std::string name(graph::GatedForward<kGelu>::kind);
  const Value y{low.activation("out", x.rows, cols), x.rows, cols};
  const auto offsets = [of](Lowering& l) {
    return graph::access_if(of.groups > 0, [&] { return l.read(of.offsets); });
  };
  low.emit(name, graph::GatedForward<kGelu>{{{x.rows, cols}, of.groups, of.expected}},
           {{"x", low.read(x.tensor)}, {"offsets", offsets(low)}, {"y", low.write(y.tensor)}});
  low.record({}, [=](Lowering& l) {
    const graph::TensorId dx = l.activation("dx", x.rows, x.cols);
    l.emit(name + "_dx", graph::GatedBackward<kGelu>{{{x.rows, cols}, of.groups, of.expected}},
           {{"x", l.read(x.tensor)}, {"offsets", offsets(l)}, {"dy", l.read(l.gradient(y))}, {"dx", l.write(dx)}});
    l.add_gradient(x, dx);
  });
  return y;
}

}  // namespace

Value activation(Lowering& low, Value x, const RowGroups& of) {
  switch (low.model().parts().activation) {
    case Activation::gelu:
      return gelu(low, x);
    case Activation::swiglu:
      return gated<false>(low, x, of);
    case Activation::geglu:
      break;
  }
  return gated<true>(low, x, of);
}

Value scaled(Lowering& low, Value x, float factor) {
  if (factor == 1.0F) return x;
  const auto multiply = [=](Lowering& l, std::string_view what, graph::TensorId from) {
    const graph::TensorId to = l.activation(what, x.rows, x.cols);
    l.emit(what, graph::Scale{x.rows * x.cols, factor}, {{"x", l.read(from)}, {"out", l.write(to)}});
    return to;
  };
  const Value y{multiply(low, "scale", x.tensor), x.rows, x.cols};
  low.record({}, [=](Lowering& l) { l.add_gradient(x, multiply(l, "scale_dx", l.gradient(y))); });
  return y;
}

Value dropout(Lowering& low, Value x, const DropoutSite& where) {
  if (where.p == 0.0F) return x;
  const Value y{low.activation("dropout", x.rows, x.cols), x.rows, x.cols};
  emit_dropout(low, "dropout", x, y.tensor, where, std::nullopt);
  low.record({}, [=](Lowering& l) { l.add_gradient(x, dropped_gradient(l, l.gradient(y), x.rows, x.cols, where)); });
  return y;
}

Value add_residual(Lowering& low, Value residual, Value branch, const DropoutSite& where) {
  const Value y{low.activation("residual", residual.rows, residual.cols), residual.rows, residual.cols};
  if (where.p == 0.0F) {
    low.emit("add", graph::Add{y.rows * y.cols},
             {{"a", low.read(residual.tensor)}, {"b", low.read(branch.tensor)}, {"out", low.write(y.tensor)}});
  } else {
    emit_dropout(low, "dropout_add", branch, y.tensor, where, residual.tensor);
  }
  low.record({}, [=](Lowering& l) {
    const graph::TensorId dy = l.gradient(y);
    l.add_gradient(residual, dy);
    l.add_gradient(branch, where.p == 0.0F ? dy : dropped_gradient(l, dy, y.rows, y.cols, where));
  });
  return y;
}

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
