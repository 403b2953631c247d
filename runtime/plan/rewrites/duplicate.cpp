#include "runtime/plan/rewrites/duplicate.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "runtime/plan/rewrites/graph_draft.h"

namespace weft::plan {

TensorUses::TensorUses(const graph::Graph& graph) : readers(graph.tensors().size()), writers(graph.tensors().size()) {
  const auto note = [](std::vector<std::size_t>& tasks, std::size_t task) {
    if (tasks.empty() || tasks.back() != task) tasks.push_back(task);
  };
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    for (const graph::Access& access : graph.tasks()[i].accesses) {
      const std::size_t tensor = access.view.tensor.index();
      if (access.mode != graph::AccessMode::write) note(readers[tensor], i);
      if (access.mode != graph::AccessMode::read) note(writers[tensor], i);
    }
  }
}

bool TensorUses::written_between(const graph::Graph& graph, const graph::View& view, std::size_t after,
                                 std::size_t before) const {
  const auto& tasks = writers[view.tensor.index()];
  for (auto at = std::ranges::upper_bound(tasks, after); at != tasks.end() && *at < before; ++at) {
    for (const graph::Access& access : graph.tasks()[*at].accesses) {
      if (access.mode != graph::AccessMode::read && access.view.tensor == view.tensor &&
          graph::overlaps(access.view, view)) {
        return true;
      }
    }
  }
  return false;
}

std::shared_ptr<const graph::Graph> duplicate(const graph::Graph& graph, std::vector<Duplication> duplications) {
  GraphDraft draft(graph);
  std::ranges::stable_sort(duplications, {}, &Duplication::before);
  for (const Duplication& duplication : duplications) {
    std::unordered_map<graph::TensorId, graph::TensorId> own;
    for (const std::size_t source : duplication.sources) {
      for (const graph::Access& access : graph.tasks()[source].accesses) {
        const graph::TensorId id = access.view.tensor;
        if (access.mode == graph::AccessMode::read || own.contains(id)) continue;
        graph::Tensor again = graph.tensor(id);
        again.name += duplication.suffix;
        own.emplace(id, draft.add_tensor(std::move(again)));
      }
    }
    const auto redirect = [&](graph::Task& task) {
      for (graph::Access& access : task.accesses) {
        if (const auto found = own.find(access.view.tensor); found != own.end()) access.view.tensor = found->second;
      }
    };
    for (const std::size_t source : duplication.sources) {
      graph::Task copy = graph.tasks()[source];
      redirect(copy);
      copy.name = draft.fresh_task_name(copy.name + duplication.suffix);
      copy.phase = duplication.phase;
      copy.micro_batch = duplication.micro_batch;
      draft.insert_before(duplication.before, std::move(copy));
    }
    for (const std::size_t reader : duplication.readers) redirect(draft.task(reader));
  }
  return std::move(draft).build();
}

bool names_layer(const std::vector<std::int32_t>& layers, std::int32_t layer) {
  return layers.empty() || std::ranges::find(layers, layer) != layers.end();
}

}  // namespace weft::plan
