// Gathers weights again in each pass that reads them: more messages, but no gathered weight outlives a pass.
#include <utility>

#include "graph/named_accesses.h"
#include "runtime/plan/rewrites/duplicate.h"
#include "runtime/plan/rewrites/rewrites.h"

namespace weft::plan {

std::shared_ptr<const graph::Graph> reshard_after_forward(const graph::Graph& graph,
                                                          const ReshardAfterForward& rewrite) {
  const TensorUses uses(graph);
  std::vector<Duplication> duplications;
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    if (graph.tensors()[t].role != graph::Role::gathered || uses.writers[t].size() != 1) continue;
    const std::size_t gather = uses.writers[t].front();
    const graph::Task& task = graph.tasks()[gather];
    if (!std::holds_alternative<graph::AllGather>(task.operation) || task.phase != graph::Phase::forward ||
        !names_layer(rewrite.layers, task.layer)) {
      continue;
    }
    // Passes in the order of their first readers; the first keeps the existing gather.
    std::vector<std::pair<std::pair<std::int32_t, graph::Phase>, std::vector<std::size_t>>> passes;
    bool in_backward = false;
    for (const std::size_t reader : uses.readers[t]) {
      const graph::Task& reading = graph.tasks()[reader];
      const std::pair pass(reading.micro_batch, reading.phase);
      in_backward = in_backward || reading.phase == graph::Phase::backward;
      auto known = passes.begin();
      while (known != passes.end() && known->first != pass) ++known;
      if (known == passes.end()) known = passes.insert(known, {pass, {}});
      known->second.push_back(reader);
    }
    if (!in_backward) continue;
    for (std::size_t p = 0; p < passes.size(); ++p) {
      auto& [pass, readers] = passes[p];
      if (p == 0 && pass.second == graph::Phase::forward) continue;
      if (uses.written_between(graph, graph::NamedAccesses<graph::AllGather>(task)["in"].view, gather, readers.front()))
        continue;
      const std::size_t before = readers.front();
      duplications.push_back({{gather}, std::move(readers), before, ".again", pass.second, pass.first});
    }
  }
  return duplicate(graph, std::move(duplications));
}

}  // namespace weft::plan
