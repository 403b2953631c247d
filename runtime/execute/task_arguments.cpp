#include "runtime/execute/task_arguments.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>
#include <variant>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/gemm/packed_gemm.h"

namespace weft {
namespace {

using cpu::Matrix;

// What an operation expects of one argument. rows = kAnyRows: as many as the argument has; rows = kAnyShape: `cols`
// elements in any shape.
struct Expected {
  std::int64_t rows, cols;
};
constexpr std::int64_t kAnyRows = -1, kAnyShape = -2;
using Arguments = std::vector<Expected>;

Expected vector_of(std::int64_t n) {
  return {1, n};
}
Expected scalar() {
  return {1, 1};
}

// The arguments of each operation, in graph/operation.h's order.
struct ArgumentsOf {
  static void add_if(bool present, Expected argument, Arguments& arguments) {
    if (present) arguments.push_back(argument);
  }
  static std::int64_t packed_elements(const auto& op) { return cpu::packed_b_elements({.m = 1, .n = op.n, .k = op.k}); }
  // Numbers that parts of a norm tell each other of a row.
  static std::int64_t per_row(const auto& op) { return op.centered ? 2 : 1; }
  // What the backward pass of a norm in parts reads of the forward pass, and dy.
  static Arguments saved_norm(const auto& op) {
    Arguments all = {{op.rows, op.cols}, vector_of(op.cols)};
    add_if(op.centered, vector_of(op.rows), all);
    all.push_back(vector_of(op.rows));
    all.push_back({op.rows, op.cols});
    return all;
  }

  Arguments operator()(const Gemm& op) const {
    Arguments all = {op.trans_a ? Expected{op.k, op.m} : Expected{op.m, op.k},
                     op.trans_b ? Expected{op.n, op.k} : Expected{op.k, op.n},
                     {op.m, op.n}};
    add_if(op.has_bias, vector_of(op.n), all);
    if (op.epilogue != Epilogue::none && op.accumulate) {
      throw std::logic_error("gemm: an epilogue of a product that is added to another");
    }
    add_if(op.epilogue != Epilogue::none, {op.m, op.n}, all);
    add_if(op.packed_b, vector_of(packed_elements(op)), all);
    return all;
  }
  Arguments operator()(const PackWeight& op) const {
    return {op.trans_b ? Expected{op.n, op.k} : Expected{op.k, op.n}, vector_of(packed_elements(op))};
  }
  Arguments operator()(const BiasGradient& op) const { return {{op.rows, op.cols}, vector_of(op.cols)}; }
  Arguments operator()(const LayerNormForward& op) const {
    return {{op.rows, op.cols}, vector_of(op.cols), vector_of(op.cols),
            {op.rows, op.cols}, vector_of(op.rows), vector_of(op.rows)};
  }
  Arguments operator()(const LayerNormBackward& op) const {
    Arguments all = {{op.rows, op.cols}, vector_of(op.cols), vector_of(op.rows), vector_of(op.rows),
                     {op.rows, op.cols}, {op.rows, op.cols}, vector_of(op.cols), vector_of(op.cols)};
    add_if(op.residual, {op.rows, op.cols}, all);
    return all;
  }
  Arguments operator()(const RmsNormForward& op) const {
    return {{op.rows, op.cols}, vector_of(op.cols), {op.rows, op.cols}, vector_of(op.rows)};
  }
  Arguments operator()(const RmsNormBackward& op) const {
    Arguments all = {{op.rows, op.cols}, vector_of(op.cols), vector_of(op.rows),
                     {op.rows, op.cols}, {op.rows, op.cols}, vector_of(op.cols)};
    add_if(op.residual, {op.rows, op.cols}, all);
    return all;
  }
  Arguments operator()(const NormStatistics& op) const {
    return {{op.rows, op.cols}, vector_of(op.rows * per_row(op))};
  }
  Arguments operator()(const NormForwardOfParts& op) const {
    Arguments all = {{op.rows, op.cols}, vector_of(op.cols)};
    add_if(op.centered, vector_of(op.cols), all);
    all.push_back(vector_of(op.parts * op.rows * per_row(op)));
    all.push_back({op.rows, op.cols});
    add_if(op.centered, vector_of(op.rows), all);
    all.push_back(vector_of(op.rows));
    return all;
  }
  Arguments operator()(const NormBackwardSums& op) const {
    Arguments all = saved_norm(op);
    all.push_back(vector_of(op.rows * per_row(op)));
    return all;
  }
  Arguments operator()(const NormBackwardOfParts& op) const {
    Arguments all = saved_norm(op);
    all.push_back(vector_of(op.rows * per_row(op)));
    all.push_back({op.rows, op.cols});
    all.push_back(vector_of(op.cols));
    add_if(op.centered, vector_of(op.cols), all);
    add_if(op.residual, {op.rows, op.cols}, all);
    return all;
  }
  Arguments operator()(const AddBias& op) const { return {{op.rows, op.cols}, vector_of(op.cols), scalar()}; }
  Arguments operator()(const TakeColumns& op) const {
    return {{op.rows, op.windows * op.cols}, scalar(), {op.rows, op.cols}};
  }
  Arguments operator()(const PutColumns& op) const {
    return {{op.rows, op.cols}, scalar(), {op.rows, op.windows * op.cols}};
  }
  Arguments operator()(const EmbeddingForward& op) const {
    Arguments all = {vector_of(op.rows), {op.vocab, op.cols}};
    add_if(op.positions, {kAnyRows, op.cols}, all);
    all.push_back({op.rows, op.cols});
    add_if(op.has_offset, scalar(), all);
    add_if(op.sharded, scalar(), all);
    return all;
  }
  Arguments operator()(const EmbeddingBackward& op) const {
    Arguments all = {vector_of(op.rows), {op.rows, op.cols}, {op.vocab, op.cols}};
    add_if(op.sharded, scalar(), all);
    return all;
  }
  Arguments operator()(const PositionBackward& op) const { return {{op.rows, op.cols}, {op.context, op.cols}}; }
  Arguments operator()(const Rope& op) const {
    Arguments all = {{op.rows, op.heads * op.head_dim}};
    add_if(op.has_offset, scalar(), all);
    return all;
  }
  Arguments operator()(const AttentionForward& op) const {
    const Expected q{op.batch * op.seq, op.heads * op.head_dim}, kv{op.batch * op.seq, op.kv_heads * op.head_dim};
    return {q, kv, kv, q, vector_of(op.batch * op.heads * op.seq)};
  }
  Arguments operator()(const AttentionBackward& op) const {
    const Expected q{op.batch * op.seq, op.heads * op.head_dim}, kv{op.batch * op.seq, op.kv_heads * op.head_dim};
    return {q, kv, kv, q, vector_of(op.batch * op.heads * op.seq), q, q, kv, kv};
  }
  Arguments operator()(const CacheStore& op) const {
    return {{op.batch * op.seq, op.cols}, {op.batch * op.context, op.cols}};
  }
  Arguments operator()(const AttentionDecode& op) const {
    const Expected q{op.batch, op.heads * op.head_dim}, kv{op.batch, op.kv_heads * op.head_dim};
    const Expected cache{op.batch * op.context, op.kv_heads * op.head_dim};
    return {q, kv, kv, cache, cache, scalar(), q};
  }
  Arguments operator()(const GeluForward& op) const { return Arguments(2, {kAnyShape, op.n}); }
  Arguments operator()(const GeluBackward& op) const { return Arguments(3, {kAnyShape, op.n}); }
  Arguments operator()(const SwiGluForward& op) const { return {{op.rows, 2 * op.cols}, {op.rows, op.cols}}; }
  Arguments operator()(const SwiGluBackward& op) const {
    return {{op.rows, 2 * op.cols}, {op.rows, op.cols}, {op.rows, 2 * op.cols}};
  }
  Arguments operator()(const Add& op) const { return Arguments(3, {kAnyShape, op.n}); }
  Arguments operator()(const Cast& op) const { return Arguments(2, {kAnyShape, op.n}); }
  Arguments operator()(const Dropout& op) const {
    Arguments all = {{op.rows, op.cols}, vector_of(3), {op.rows, op.cols}};
    add_if(op.residual, {op.rows, op.cols}, all);
    add_if(op.parts > 1, scalar(), all);
    return all;
  }
  Arguments operator()(const CrossEntropy& op) const {
    Arguments all = {{op.rows, op.padded}, vector_of(op.rows), vector_of(op.rows)};
    add_if(op.gradient, scalar(), all);
    return all;
  }
  Arguments operator()(const VocabStatistics& op) const {
    return {{op.rows, op.cols}, vector_of(op.rows), scalar(), vector_of(op.rows * 3)};
  }
  Arguments operator()(const VocabCrossEntropy& op) const {
    Arguments all = {
        {op.rows, op.cols}, vector_of(op.rows), scalar(), vector_of(op.parts * op.rows * 3), vector_of(op.rows)};
    add_if(op.gradient, scalar(), all);
    return all;
  }
  Arguments operator()(const LossSum& op) const {
    Arguments all = {vector_of(op.rows), vector_of(op.rows), vector_of(2)};
    add_if(op.owned, scalar(), all);
    return all;
  }
  Arguments operator()(const SumSquares& op) const {
    Arguments all = {{kAnyShape, op.n}, scalar()};
    add_if(op.owned, scalar(), all);
    return all;
  }
  Arguments operator()(const ClipFactor& op) const { return {vector_of(op.count), vector_of(2)}; }
  Arguments operator()(const AdamW& op) const {
    Arguments all(4, {kAnyShape, op.n});
    all.push_back(vector_of(4));
    all.push_back(vector_of(2));
    add_if(op.has_master, {kAnyShape, op.n}, all);
    return all;
  }
  Arguments operator()(const SelectRow& op) const { return {{op.rows, op.cols}, scalar(), vector_of(op.cols)}; }
  Arguments operator()(const AllReduce&) const { refuse_collective(); }
  Arguments operator()(const ReduceScatter&) const { refuse_collective(); }
  Arguments operator()(const AllGather&) const { refuse_collective(); }
  Arguments operator()(const Broadcast&) const { refuse_collective(); }
};

// The argument in the shape that the operation expects.
Matrix fitted(const Operation& operation, std::size_t index, const Matrix& argument, Expected expected) {
  const std::int64_t elements = argument.rows * argument.cols;
  if (expected.rows == kAnyShape && elements == expected.cols) return argument;
  if (expected.rows == kAnyRows && expected.cols > 0) expected.rows = elements / expected.cols;
  if (argument.rows == expected.rows && argument.cols == expected.cols) return argument;
  if (expected.rows >= 0 && elements == expected.rows * expected.cols && cpu::contiguous(argument)) {
    return {argument.data, expected.rows, expected.cols, expected.cols, argument.dtype};
  }
  throw std::logic_error(fmt::format("{}: argument {} is {} x {}, expected {} x {}", kind_name(operation), index,
                                     argument.rows, argument.cols, expected.rows, expected.cols));
}

}  // namespace

cpu::Matrix matrix_of(const Graph& graph, const View& view, std::byte* begin) {
  const DType dtype = graph.tensor(view.tensor).dtype;
  std::byte* const data = begin + view.offset * static_cast<std::int64_t>(size_of(dtype));
  return {data, view.rows, view.cols, view.row_stride, dtype};
}

std::vector<cpu::Matrix> fitted_arguments(const Operation& operation, std::vector<cpu::Matrix> arguments) {
  const Arguments expected = std::visit(ArgumentsOf{}, operation);
  if (arguments.size() != expected.size()) {
    throw std::logic_error(
        fmt::format("{}: {} arguments, expected {}", kind_name(operation), arguments.size(), expected.size()));
  }
  for (std::size_t i = 0; i < expected.size(); ++i) arguments[i] = fitted(operation, i, arguments[i], expected[i]);
  return arguments;
}

CollectiveCall collective_call(const Graph& graph, const Task& task, const std::vector<cpu::Matrix>& arguments) {
  const DType dtype = graph.tensor(task.accesses.front().view.tensor).dtype;
  if (const auto* op = std::get_if<AllReduce>(&task.operation)) {
    return {CollectiveKind::all_reduce, dtype, op->count, 0, nullptr, arguments[0].data, arguments[1].data};
  }
  if (const auto* op = std::get_if<ReduceScatter>(&task.operation)) {
    return {
        CollectiveKind::reduce_scatter, dtype, op->count, 0, arguments[0].data, arguments[1].data, arguments[2].data};
  }
  if (const auto* op = std::get_if<AllGather>(&task.operation)) {
    return {CollectiveKind::all_gather, dtype, op->count, 0, arguments[0].data, arguments[1].data, nullptr};
  }
  const auto& op = std::get<Broadcast>(task.operation);
  return {CollectiveKind::broadcast, dtype, op.count, op.root, nullptr, arguments[0].data, nullptr};
}

void refuse_collective() {
  throw std::logic_error("a collective is run by a communicator, not by a kernel");
}

}  // namespace weft
