// Pieces of large all-reduces, so that others come in between and readers of a part don't wait for the whole.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/named_accesses.h"
#include "runtime/plan/rewrites/draft.h"
#include "runtime/plan/rewrites/rewrites.h"

namespace weft {

std::shared_ptr<const Graph> split_all_reduces(const Graph& graph, const SplitAllReduces& rewrite) {
  constexpr std::int64_t kAlignment = 64;  // bytes
  GraphDraft draft(graph);
  std::vector<Task> tasks;
  for (Task& task : draft.tasks()) {
    const AllReduce* reduce = plain_all_reduce(task);
    const auto size =
        reduce == nullptr ? 1 : static_cast<std::int64_t>(size_of(draft.tensor(buffer_of(task).tensor).dtype));
    if (reduce == nullptr || reduce->count * size <= rewrite.bytes) {
      tasks.push_back(std::move(task));
      continue;
    }
    const std::int64_t unit = kAlignment / size, piece = std::max<std::int64_t>(1, rewrite.bytes / kAlignment) * unit;
    const AllReduce whole = *reduce;
    const View buffer = buffer_of(task);
    const Tensor workspace = draft.tensor(NamedAccesses<AllReduce>(task)["workspace"].view.tensor);
    for (std::int64_t begin = 0, number = 1; begin < whole.count; begin += piece, ++number) {
      const std::int64_t count = std::min(piece, whole.count - begin);
      const std::int64_t work = all_reduce_workspace(count, whole.ranks);
      Task part = task;
      if (number > 1) part.name = draft.fresh_task_name(fmt::format("{}#{}", task.name, number));
      const AllReduce operation{whole.channel, whole.ranks, count};
      part.operation = operation;
      Tensor own = workspace;
      own.name = fmt::format("{}#{}", workspace.name, number);
      own.shape = {work};
      part.accesses = accesses_of(operation, {{"buffer", read_write(part_of(buffer, begin, count))},
                                              {"workspace", write({draft.add_tensor(own), 0, 1, work, work})}});
      tasks.push_back(std::move(part));
    }
  }
  draft.tasks() = std::move(tasks);
  return std::move(draft).build();
}

}  // namespace weft
