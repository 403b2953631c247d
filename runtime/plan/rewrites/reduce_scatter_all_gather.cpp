// Splits an all-reduce into a reduce-scatter and an all-gather: the same bytes and sums, but other tasks can run
// between them.
#include <utility>

#include "graph/named_accesses.h"
#include "runtime/plan/rewrites/draft.h"
#include "runtime/plan/rewrites/rewrites.h"

namespace weft::plan {

std::shared_ptr<const graph::Graph> split_into_reduce_scatter_all_gather(const graph::Graph& graph) {
  GraphDraft draft(graph);
  std::vector<graph::Task> tasks;
  for (graph::Task& task : draft.tasks()) {
    const graph::AllReduce* found = plain_all_reduce(task);
    if (found == nullptr || found->count % found->ranks != 0) {
      tasks.push_back(std::move(task));
      continue;
    }
    const graph::AllReduce reduce = *found;
    const std::int64_t count = reduce.count / reduce.ranks;
    const graph::NamedAccesses<graph::AllReduce> accesses(task);
    const graph::View buffer = accesses["buffer"].view;
    const graph::Tensor& like = draft.tensor(buffer.tensor);
    const graph::Role role = graph::is_state(like.role) ? graph::Role::workspace : like.role;
    const DType dtype = like.dtype;
    const graph::TensorId shard_id = draft.add_tensor({task.name + ".shard", dtype, {count}, role});
    const graph::View shard = {shard_id, 0, 1, count, count};
    graph::Task scatter = task, gather = task;
    scatter.name = draft.fresh_task_name(task.name + ".reduce_scatter");
    // A reduce-scatter needs the same size of workspace: (ranks − 1) slices.
    const graph::ReduceScatter first{reduce.channel, reduce.ranks, count};
    scatter.operation = first;
    scatter.accesses = graph::accesses_of(
        first, {{"in", graph::read(buffer)}, {"out", graph::write(shard)}, {"workspace", accesses["workspace"]}});
    gather.name = draft.fresh_task_name(task.name + ".all_gather");
    const graph::AllGather second{reduce.channel, reduce.ranks, count};
    gather.operation = second;
    gather.accesses = graph::accesses_of(second, {{"in", graph::read(shard)}, {"out", graph::write(buffer)}});
    tasks.push_back(std::move(scatter));
    tasks.push_back(std::move(gather));
  }
  draft.tasks() = std::move(tasks);
  return std::move(draft).build();
}

}  // namespace weft::plan
