#include "ops/collectives.h"

#include <string>
#include <utility>

namespace weft {
namespace {

TensorId workspace(Lowering& low, std::string_view what, DType dtype, std::int64_t count) {
  return low.scratch(std::string(what) + ".workspace", dtype, {count}, Role::workspace);
}

}  // namespace

Channel channel_of(Axis axis) {
  switch (axis) {
    case Axis::x:
      return Channel::x;
    case Axis::y:
      return Channel::y;
    case Axis::z:
      return Channel::z_scatter;
    case Axis::data:
      break;
  }
  return Channel::data;
}

Access coordinate(Lowering& low, CoordinateIndex index) {
  const TensorId all = low.named(names::kCoordinates, DType::i64, {10}, Role::scalar);
  return read(low.elements(all, static_cast<std::int64_t>(index), 1));
}

Access coordinate(Lowering& low, Axis axis) {
  return coordinate(low, static_cast<CoordinateIndex>(axis));
}

void all_reduce(Lowering& low, std::string_view what, TensorId tensor, std::int64_t count, Channel channel) {
  const std::int64_t ranks = group_size(low.grid(), channel);
  if (ranks == 1) return;
  const TensorId work = workspace(low, what, low.tensor(tensor).dtype, all_reduce_workspace(count, ranks));
  low.emit(what, AllReduce{channel, ranks, count},
           {{"buffer", read_write(low.elements(tensor, 0, count))}, {"workspace", low.write(work)}});
}

TensorId reduce_scatter(Lowering& low, std::string_view what, TensorId in, std::vector<std::int64_t> shape, Role role,
                        Channel channel) {
  const std::int64_t ranks = group_size(low.grid(), channel);
  if (ranks == 1) return in;
  const DType dtype = low.tensor(in).dtype;
  const TensorId out = low.scratch(std::string(what) + ".out", dtype, std::move(shape), role);
  const std::int64_t count = low.tensor(out).elements();
  const TensorId work = workspace(low, what, dtype, (ranks - 1) * count);
  low.emit(what, ReduceScatter{channel, ranks, count},
           {{"in", read(low.elements(in, 0, ranks * count))},
            {"out", write(low.elements(out, 0, count))},
            {"workspace", low.write(work)}});
  return out;
}

TensorId all_gather(Lowering& low, std::string_view what, TensorId in, Channel channel) {
  const std::int64_t ranks = group_size(low.grid(), channel);
  if (ranks == 1) return in;
  const Tensor& piece = low.tensor(in);
  const std::int64_t count = piece.elements();
  std::vector<std::int64_t> shape = piece.shape;
  shape.front() *= ranks;
  const TensorId out = low.scratch(std::string(what) + ".out", piece.dtype, std::move(shape), piece.role);
  low.emit(what, AllGather{channel, ranks, count},
           {{"in", read(low.elements(in, 0, count))}, {"out", write(low.elements(out, 0, ranks * count))}});
  return out;
}

}  // namespace weft
