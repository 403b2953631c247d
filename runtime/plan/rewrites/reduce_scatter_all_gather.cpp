// An all-reduce in its two halves: the same bytes and sums, and a place between them where other tasks may stand.
#include <utility>

#include "graph/named_accesses.h"
#include "runtime/plan/rewrites/draft.h"
#include "runtime/plan/rewrites/rewrites.h"

namespace weft {

std::shared_ptr<const Graph> split_into_reduce_scatter_all_gather(const Graph& graph) {
  GraphDraft draft(graph);
  std::vector<Task> tasks;
  for (Task& task : draft.tasks()) {
    const AllReduce* found = plain_all_reduce(task);
    if (found == nullptr || found->count % found->ranks != 0) {
      tasks.push_back(std::move(task));
      continue;
    }
    const AllReduce reduce = *found;
    const std::int64_t count = reduce.count / reduce.ranks;
    const NamedAccesses<AllReduce> accesses(task);
    const View buffer = accesses["buffer"].view;
    const Tensor& like = draft.tensor(buffer.tensor);
    const Role role = is_state(like.role) ? Role::workspace : like.role;
    const DType dtype = like.dtype;
    const TensorId shard_id = draft.add_tensor({task.name + ".shard", dtype, {count}, role});
    const View shard = {shard_id, 0, 1, count, count};
    Task scatter = task, gather = task;
    scatter.name = draft.fresh_task_name(task.name + ".reduce_scatter");
    // The workspace has the size that a reduce-scatter needs: (ranks − 1) slices.
    const ReduceScatter first{reduce.channel, reduce.ranks, count};
    scatter.operation = first;
    scatter.accesses =
        accesses_of(first, {{"in", read(buffer)}, {"out", write(shard)}, {"workspace", accesses["workspace"]}});
    gather.name = draft.fresh_task_name(task.name + ".all_gather");
    const AllGather second{reduce.channel, reduce.ranks, count};
    gather.operation = second;
    gather.accesses = accesses_of(second, {{"in", read(shard)}, {"out", write(buffer)}});
    tasks.push_back(std::move(scatter));
    tasks.push_back(std::move(gather));
  }
  draft.tasks() = std::move(tasks);
  return std::move(draft).build();
}

}  // namespace weft
