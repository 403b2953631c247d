#include "ops/embedding.h"

#include "ops/lower.h"

namespace weft {

Value embedding(Lowering& low, View tokens, std::int64_t rows, std::int64_t seq_len, bool at_position) {
  const ModelConfig& model = low.model();
  const bool learned = model.family == Family::gpt2;
  const std::int64_t cols = model.hidden;
  Parameter& wte = low.parameter("wte.weight");
  Parameter* wpe = learned ? &low.parameter("wpe.weight") : nullptr;
  const bool has_offset = at_position && learned;

  const Value out{low.activation("out", rows, cols), rows, cols};
  std::vector<Access> accesses = {read(tokens), low.read(wte.tensor)};
  if (learned) accesses.push_back(low.read(wpe->tensor));
  accesses.push_back(low.write(out.tensor));
  if (has_offset) accesses.push_back(low.read(low.named(names::kPosition, DType::i64, {1}, Role::scalar)));
  low.emit("embedding", EmbeddingForward{rows, cols, model.vocab, seq_len, learned, has_offset}, std::move(accesses));

  std::vector<Parameter*> parameters = {&wte};
  if (learned) parameters.push_back(wpe);
  low.record(parameters, [=, &wte, &model](Lowering& l) {
    const TensorId dout = l.gradient(out);
    const auto dwte = l.gradient_slot(wte);
    l.emit("embedding_dw", EmbeddingBackward{rows, cols, model.vocab, dwte.accumulate},
           {read(tokens), l.read(dout), dwte.accumulate ? l.read_write(dwte.tensor) : l.write(dwte.tensor)});
    if (learned) {
      const auto dwpe = l.gradient_slot(*wpe);
      l.emit("position_dw", PositionBackward{rows, cols, seq_len, model.context, dwpe.accumulate},
             {l.read(dout), dwpe.accumulate ? l.read_write(dwpe.tensor) : l.write(dwpe.tensor)});
    }
  });
  return out;
}

}  // namespace weft
