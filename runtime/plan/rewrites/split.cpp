// Splits large all-reduces into pieces, so that other collectives can run between them and readers of a part don't wait
// for the whole.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/named_accesses.h"
#include "runtime/plan/rewrites/draft.h"
#include "runtime/plan/rewrites/rewrites.h"

namespace weft::plan {

std::shared_ptr<const graph::Graph> split_all_reduces(const graph::Graph& graph, const SplitAllReduces& rewrite) {
  constexpr std::int64_t kAlignment = 64;  // bytes
  GraphDraft draft(graph);
  std::vector<graph::Task> tasks;
  for (graph::Task& task : draft.tasks()) {
    const graph::AllReduce* reduce = plain_all_reduce(task);
    const auto size =
        reduce == nullptr ? 1 : static_cast<std::int64_t>(size_of(draft.tensor(buffer_of(task).tensor).dtype));
    if (reduce == nullptr || reduce->count * size <= rewrite.bytes) {
      tasks.push_back(std::move(task));
      continue;
    }
    const std::int64_t unit = kAlignment / size, piece = std::max<std::int64_t>(1, rewrite.bytes / kAlignment) * unit;
    const graph::AllReduce whole = *reduce;
    const graph::View buffer = buffer_of(task);
    const graph::Tensor workspace = draft.tensor(graph::NamedAccesses<graph::AllReduce>(task)["workspace"].view.tensor);
    for (std::int64_t begin = 0, number = 1; begin < whole.count; begin += piece, ++number) {
      const std::int64_t count = std::min(piece, whole.count - begin);
      const std::int64_t work = graph::all_reduce_workspace(count, whole.ranks);
      graph::Task part = task;
      if (number > 1) part.name = draft.fresh_task_name(fmt::format("{}#{}", task.name, number));
      const graph::AllReduce operation{whole.channel, whole.ranks, count};
      part.operation = operation;
      graph::Tensor own = workspace;
      own.name = fmt::format("{}#{}", workspace.name, number);
      own.shape = {work};
      part.accesses =
          graph::accesses_of(operation, {{"buffer", graph::read_write(part_of(buffer, begin, count))},
                                         {"workspace", graph::write({draft.add_tensor(own), 0, 1, work, work})}});
      tasks.push_back(std::move(part));
    }
  }
  draft.tasks() = std::move(tasks);
  return std::move(draft).build();
}

}  // namespace weft::plan
