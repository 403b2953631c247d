// Packs weights into the order in which products read them once a step, instead of in each product.
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "graph/named_accesses.h"
#include "runtime/plan/rewrites/duplicate.h"
#include "runtime/plan/rewrites/graph_draft.h"
#include "runtime/plan/rewrites/rewrites.h"

namespace weft::plan {
namespace {

/// A weight, and the products that can read its packed form.
struct Packing {
  graph::View weight;
  graph::Gemm product;  // the first
  PackedWeight packed;
  std::vector<std::size_t> readers;
};

// nullopt: the task isn't a product that can read a packed weight.
std::optional<PackedWeight> packed_weight(const graph::Graph& graph, const graph::Task& task,
                                          const PackWeights& rewrite, const WeightLayouts& layouts) {
  const auto* gemm = std::get_if<graph::Gemm>(&task.operation);
  if (gemm == nullptr || gemm->packed_b) return std::nullopt;
  const graph::NamedAccesses<graph::Gemm> accesses(task);
  const graph::Access *a = accesses.find("A"), *b = accesses.find("B"), *c = accesses.find("C");
  if (a == nullptr || b == nullptr || c == nullptr) return std::nullopt;
  const auto tensor = [&](const graph::Access* access) -> const graph::Tensor& {
    return graph.tensor(access->view.tensor);
  };
  const graph::Role role = tensor(b).role;
  if (role != graph::Role::parameter && role != graph::Role::gathered) return std::nullopt;
  return layouts.packed(*gemm, tensor(a).dtype, tensor(c).dtype, rewrite);
}

std::vector<Packing> packings_of(const graph::Graph& graph, const PackWeights& rewrite, const WeightLayouts& layouts) {
  std::vector<Packing> packings;
  const auto key_of = [](const graph::View& b, const graph::Gemm& op) {
    return std::tuple(b.tensor, b.offset, b.rows, b.cols, b.row_stride, op.n, op.k, op.trans_b);
  };
  std::map<decltype(key_of(graph::View(), graph::Gemm())), std::size_t> places;
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    const graph::Task& task = graph.tasks()[i];
    const std::optional<PackedWeight> packed = packed_weight(graph, task, rewrite, layouts);
    if (!packed) continue;
    const auto& gemm = std::get<graph::Gemm>(task.operation);
    const graph::View& weight = graph::NamedAccesses<graph::Gemm>(task)["B"].view;
    const auto [place, fresh] = places.try_emplace(key_of(weight, gemm), packings.size());
    if (fresh) packings.push_back({weight, gemm, *packed, {}});
    packings[place->second].readers.push_back(i);
  }
  return packings;
}

}  // namespace

std::shared_ptr<const graph::Graph> pack_weights(const graph::Graph& graph, const PackWeights& rewrite,
                                                 const WeightLayouts& layouts) {
  layouts.require(rewrite);
  const TensorUses uses(graph);
  GraphDraft draft(graph);
  for (const auto& [weight, product, packed_as, readers] : packings_of(graph, rewrite, layouts)) {
    if (static_cast<std::int64_t>(readers.size()) < rewrite.uses) continue;
    if (uses.written_between(graph, weight, readers.front(), readers.back())) continue;
    const std::int64_t elements = packed_as.elements;
    const std::string name = graph.tensor(weight.tensor).name + (product.trans_b ? ".packed_t" : ".packed");
    const graph::TensorId id = draft.add_tensor({name, packed_as.dtype, {elements}, graph::Role::workspace});
    const graph::View packed{id, 0, 1, elements, elements};
    graph::Task pack = graph.tasks()[readers.front()];  // the layer, micro-batch and phase of the first reader
    pack.name = draft.fresh_task_name(pack.name + ".pack");
    const graph::PackWeight operation{product.n, product.k, product.trans_b};
    pack.operation = operation;
    pack.accesses = graph::accesses_of(operation, {{"B", graph::read(weight)}, {"packed", graph::write(packed)}});
    draft.insert_before(readers.front(), std::move(pack));
    for (const std::size_t reader : readers) {
      graph::add_access<graph::Gemm>(draft.task(reader), "packed_B", graph::read(packed),
                                     [](graph::Gemm& gemm) { gemm.packed_b = true; });
    }
  }
  return std::move(draft).build();
}

}  // namespace weft::plan
