#include "ops/collectives.h"

#include <string>
#include <utility>

namespace weft::ops {
namespace {

graph::TensorId workspace(Lowering& low, std::string_view what, DType dtype, std::int64_t count) {
  return low.scratch(std::string(what) + ".workspace", dtype, {count}, graph::Role::workspace);
}

}  // namespace

graph::Channel channel_of(graph::Axis axis) {
  switch (axis) {
    case graph::Axis::x:
      return graph::Channel::x;
    case graph::Axis::y:
      return graph::Channel::y;
    case graph::Axis::z:
      return graph::Channel::z_scatter;
    case graph::Axis::pipe:
      return graph::Channel::pipe;
    case graph::Axis::data:
      break;
  }
  return graph::Channel::data;
}

graph::Access coordinate(Lowering& low, CoordinateIndex index) {
  const std::int64_t count = low.grid().expert > 1 ? 14 : low.model().query_key_norm() != QueryKeyNorm::none ? 11 : 10;
  const graph::TensorId all = low.named(names::kCoordinates, DType::i64, {count}, graph::Role::scalar);
  return graph::read(low.elements(all, static_cast<std::int64_t>(index), 1));
}

graph::Access coordinate(Lowering& low, graph::Axis axis) {
  return coordinate(low, static_cast<CoordinateIndex>(axis));
}

void all_reduce(Lowering& low, std::string_view what, graph::TensorId tensor, std::int64_t count,
                graph::Channel channel) {
  const std::int64_t ranks = graph::group_size(low.grid(), channel);
  if (ranks == 1) return;
  const graph::TensorId work =
      workspace(low, what, low.tensor(tensor).dtype, graph::all_reduce_workspace(count, ranks));
  low.emit(what, graph::AllReduce{channel, ranks, count},
           {{"buffer", graph::read_write(low.elements(tensor, 0, count))}, {"workspace", low.write(work)}});
}

graph::TensorId reduce_scatter(Lowering& low, std::string_view what, graph::TensorId in,
                               std::vector<std::int64_t> shape, graph::Role role, graph::Channel channel) {
  if (graph::group_size(low.grid(), channel) == 1) return in;
  const graph::TensorId out = low.scratch(std::string(what) + ".out", low.tensor(in).dtype, std::move(shape), role);
  reduce_scatter_into(low, what, in, out, channel);
  return out;
}

void reduce_scatter_into(Lowering& low, std::string_view what, graph::TensorId in, graph::TensorId out,
                         graph::Channel channel) {
  const std::int64_t ranks = graph::group_size(low.grid(), channel), count = low.tensor(out).elements();
  const graph::TensorId work = workspace(low, what, low.tensor(in).dtype, (ranks - 1) * count);
  low.emit(what, graph::ReduceScatter{channel, ranks, count},
           {{"in", graph::read(low.elements(in, 0, ranks * count))},
            {"out", graph::write(low.elements(out, 0, count))},
            {"workspace", low.write(work)}});
}

Value all_to_all(Lowering& low, std::string_view what, const Value& x, std::int64_t sequences, bool inverse,
                 graph::Channel channel) {
  const std::int64_t ranks = graph::group_size(low.grid(), channel);
  if (ranks == 1) return x;
  const std::int64_t all = x.rows * x.cols;
  const auto exchange = [=](Lowering& l, const std::string& name, graph::TensorId in, bool back) {
    const graph::TensorId out = l.activation(name + ".out", x.rows, x.cols);
    l.emit(name, graph::AllToAll{channel, ranks, all / (ranks * sequences), sequences, back},
           {{"in", graph::read(l.elements(in, 0, all))}, {"out", graph::write(l.elements(out, 0, all))}});
    return out;
  };
  const std::string name(what);
  const Value y{exchange(low, name, x.tensor, inverse), x.rows, x.cols};
  low.record({}, [=](Lowering& l) { l.add_gradient(x, exchange(l, name + "_dx", l.gradient(y), !inverse)); });
  return y;
}

graph::TensorId all_gather(Lowering& low, std::string_view what, graph::TensorId in, graph::Channel channel) {
  const std::int64_t ranks = graph::group_size(low.grid(), channel);
  if (ranks == 1) return in;
  const graph::Tensor& piece = low.tensor(in);
  const std::int64_t count = piece.elements();
  std::vector<std::int64_t> shape = piece.shape;
  shape.front() *= ranks;
  const graph::TensorId out = low.scratch(std::string(what) + ".out", piece.dtype, std::move(shape), piece.role);
  low.emit(
      what, graph::AllGather{channel, ranks, count},
      {{"in", graph::read(low.elements(in, 0, count))}, {"out", graph::write(low.elements(out, 0, ranks * count))}});
  return out;
}

}  // namespace weft::ops
