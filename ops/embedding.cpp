#include "ops/embedding.h"

#include "ops/collectives.h"
#include "ops/lower.h"

namespace weft::ops {

Value embedding(Lowering& low, graph::View tokens, std::int64_t rows, std::int64_t seq_len, bool at_position) {
  const ModelConfig& model = low.model();
  const bool learned = model.family == Family::gpt2;
  const bool sharded = low.grid().y > 1;
  Parameter& wte = low.parameter("wte.weight");
  Parameter* wpe = learned ? &low.parameter("wpe.weight") : nullptr;
  const std::int64_t cols = wte.shard->cols, vocab = wte.shard->rows;
  const bool has_offset = at_position && learned;

  const Value out{low.activation("out", rows, cols), rows, cols};
  const auto position = [&] { return low.read(low.named(names::kPosition, DType::i64, {1}, graph::Role::scalar)); };
  low.emit("embedding", graph::EmbeddingForward{rows, cols, vocab, seq_len, learned, has_offset, sharded},
           {{"tokens", graph::read(tokens)},
            {"wte", low.read(low.weight(wte))},
            {"wpe", graph::access_if(learned, [&] { return low.read(low.weight(*wpe)); })},
            {"out", low.write(out.tensor)},
            {"position", graph::access_if(has_offset, position)},
            {"coordinate", graph::access_if(sharded, [&] { return coordinate(low, graph::Axis::y); })}});
  // One rank of y has the row of a token; the others add zero.
  all_reduce(low, "all_reduce", out.tensor, rows * cols, graph::Channel::y);

  std::vector<Parameter*> parameters = {&wte};
  if (learned) parameters.push_back(wpe);
  low.record(parameters, [=, &wte, &model](Lowering& l) {
    const graph::TensorId dout = l.gradient(out);
    const auto dwte = l.gradient_slot(wte);
    l.emit("embedding_dw", graph::EmbeddingBackward{rows, cols, vocab, dwte.accumulate, sharded},
           {{"tokens", graph::read(tokens)},
            {"dout", l.read(dout)},
            {"dwte", l.result(dwte)},
            {"coordinate", graph::access_if(sharded, [&] { return coordinate(l, graph::Axis::y); })}});
    if (learned) {
      const auto dwpe = l.gradient_slot(*wpe);
      l.emit("position_dw", graph::PositionBackward{rows, cols, seq_len, model.context, dwpe.accumulate},
             {{"dout", l.read(dout)}, {"dwpe", l.result(dwpe)}});
    }
  });
  return out;
}

}  // namespace weft::ops
