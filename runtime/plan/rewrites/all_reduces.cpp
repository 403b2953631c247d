// Turns an all-reduce into several tasks, so that other tasks can run between them: into pieces, whose readers don't
// wait for the whole, or into a reduce-scatter and an all-gather, with the same bytes and sums.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/named_accesses.h"
#include "runtime/plan/rewrites/graph_draft.h"
#include "runtime/plan/rewrites/rewrites.h"

namespace weft::plan {

std::shared_ptr<const graph::Graph> split_all_reduces(const graph::Graph& graph, const SplitAllReduces& rewrite) {
  constexpr std::int64_t kAlignment = 64;  // bytes
  GraphDraft draft(graph);
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    const graph::Task& task = graph.tasks()[i];
    const graph::AllReduce* whole = plain_all_reduce(task);
    if (whole == nullptr) continue;
    const graph::View buffer = buffer_of(task);
    const auto size = static_cast<std::int64_t>(size_of(graph.tensor(buffer.tensor).dtype));
    if (whole->count * size <= rewrite.bytes) continue;
    const std::int64_t unit = kAlignment / size, piece = std::max<std::int64_t>(1, rewrite.bytes / kAlignment) * unit;
    const graph::Tensor& workspace =
        graph.tensor(graph::NamedAccesses<graph::AllReduce>(task)["workspace"].view.tensor);
    for (std::int64_t begin = 0, number = 1; begin < whole->count; begin += piece, ++number) {
      const std::int64_t count = std::min(piece, whole->count - begin);
      const std::int64_t work = graph::all_reduce_workspace(count, whole->ranks);
      graph::Task part = task;
      if (number > 1) part.name = draft.fresh_task_name(fmt::format("{}#{}", task.name, number));
      const graph::AllReduce operation{whole->channel, whole->ranks, count};
      part.operation = operation;
      graph::Tensor own = workspace;
      own.name = fmt::format("{}#{}", workspace.name, number);
      own.shape = {work};
      part.accesses =
          graph::accesses_of(operation, {{"buffer", graph::read_write(part_of(buffer, begin, count))},
                                         {"workspace", graph::write({draft.add_tensor(own), 0, 1, work, work})}});
      draft.insert_before(i, std::move(part));
    }
    draft.drop(i);
  }
  return std::move(draft).build();
}

std::shared_ptr<const graph::Graph> split_into_reduce_scatter_all_gather(const graph::Graph& graph) {
  GraphDraft draft(graph);
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    const graph::Task& task = graph.tasks()[i];
    const graph::AllReduce* reduce = plain_all_reduce(task);
    if (reduce == nullptr || reduce->count % reduce->ranks != 0) continue;
    const std::int64_t count = reduce->count / reduce->ranks;
    const graph::NamedAccesses<graph::AllReduce> accesses(task);
    const graph::View buffer = accesses["buffer"].view;
    const graph::Tensor& like = graph.tensor(buffer.tensor);
    const graph::Role role = graph::is_state(like.role) ? graph::Role::workspace : like.role;
    const graph::TensorId shard_id = draft.add_tensor({task.name + ".shard", like.dtype, {count}, role});
    const graph::View shard = {shard_id, 0, 1, count, count};
    graph::Task scatter = task, gather = task;
    scatter.name = draft.fresh_task_name(task.name + ".reduce_scatter");
    // A reduce-scatter needs the same size of workspace: (ranks − 1) slices.
    const graph::ReduceScatter first{reduce->channel, reduce->ranks, count};
    scatter.operation = first;
    scatter.accesses = graph::accesses_of(
        first, {{"in", graph::read(buffer)}, {"out", graph::write(shard)}, {"workspace", accesses["workspace"]}});
    gather.name = draft.fresh_task_name(task.name + ".all_gather");
    const graph::AllGather second{reduce->channel, reduce->ranks, count};
    gather.operation = second;
    gather.accesses = graph::accesses_of(second, {{"in", graph::read(shard)}, {"out", graph::write(buffer)}});
    draft.insert_before(i, std::move(scatter));
    draft.insert_before(i, std::move(gather));
    draft.drop(i);
  }
  return std::move(draft).build();
}

}  // namespace weft::plan
