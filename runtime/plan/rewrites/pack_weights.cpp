// Weights put once a step into the order in which products read them, instead of once in each product.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "runtime/plan/rewrites/draft.h"
#include "runtime/plan/rewrites/duplicate.h"
#include "runtime/plan/rewrites/rewrites.h"

namespace weft {
namespace {

constexpr std::size_t kA = 0, kB = 1, kC = 2;  // arguments of a Gemm

/// The products that could read one packed weight, in program order.
struct Packing {
  View weight;
  Gemm product;  // the first
  PackedWeight packed;
  std::vector<std::size_t> readers;
};

// Null: no product that reads a packed weight.
std::optional<PackedWeight> packed_weight(const Graph& graph, const Task& task, const PackWeights& rewrite,
                                          const WeightLayouts& layouts) {
  const auto* gemm = std::get_if<Gemm>(&task.operation);
  if (gemm == nullptr || gemm->packed_b || task.accesses.size() <= kC) return std::nullopt;
  const auto tensor = [&](std::size_t i) -> const Tensor& { return graph.tensor(task.accesses[i].view.tensor); };
  const Role role = tensor(kB).role;
  if (role != Role::parameter && role != Role::gathered) return std::nullopt;
  return layouts.packed(*gemm, tensor(kA).dtype, tensor(kC).dtype, rewrite);
}

std::vector<Packing> packings_of(const Graph& graph, const PackWeights& rewrite, const WeightLayouts& layouts) {
  std::vector<Packing> packings;
  const auto key_of = [](const View& b, const Gemm& op) {
    return std::tuple(b.tensor, b.offset, b.rows, b.cols, b.row_stride, op.n, op.k, op.trans_b);
  };
  std::map<decltype(key_of(View(), Gemm())), std::size_t> places;
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    const Task& task = graph.tasks()[i];
    const std::optional<PackedWeight> packed = packed_weight(graph, task, rewrite, layouts);
    if (!packed) continue;
    const auto& gemm = std::get<Gemm>(task.operation);
    const View& weight = task.accesses[kB].view;
    const auto [place, fresh] = places.try_emplace(key_of(weight, gemm), packings.size());
    if (fresh) packings.push_back({weight, gemm, *packed, {}});
    packings[place->second].readers.push_back(i);
  }
  return packings;
}

}  // namespace

std::shared_ptr<const Graph> pack_weights(const Graph& graph, const PackWeights& rewrite,
                                          const WeightLayouts& layouts) {
  layouts.require(rewrite);
  const TensorUses uses(graph);
  GraphDraft draft(graph);
  std::vector<std::pair<std::size_t, Task>> packs;  // with the task that each stands before
  for (const auto& [weight, product, packed_as, readers] : packings_of(graph, rewrite, layouts)) {
    if (static_cast<std::int64_t>(readers.size()) < rewrite.uses) continue;
    if (uses.written_between(graph, weight, readers.front(), readers.back())) continue;
    const std::int64_t elements = packed_as.elements;
    const std::string name = graph.tensor(weight.tensor).name + (product.trans_b ? ".packed_t" : ".packed");
    const TensorId id = draft.add_tensor({name, packed_as.dtype, {elements}, Role::workspace});
    const View packed{id, 0, 1, elements, elements};
    Task pack = graph.tasks()[readers.front()];  // its layer, micro-batch and phase
    pack.name = draft.fresh_task_name(pack.name + ".pack");
    pack.operation = PackWeight{product.n, product.k, product.trans_b};
    pack.accesses = {read(weight), write(packed)};
    packs.emplace_back(readers.front(), std::move(pack));
    for (const std::size_t reader : readers) {
      Task& task = draft.tasks()[reader];
      std::get<Gemm>(task.operation).packed_b = true;
      task.accesses.push_back(read(packed));
    }
  }
  // Groups come in the order of their first readers, and no product is in two.
  std::vector<Task> tasks;
  auto next = packs.begin();
  for (std::size_t i = 0; i < draft.tasks().size(); ++i) {
    if (next != packs.end() && next->first == i) tasks.push_back(std::move(next++->second));
    tasks.push_back(std::move(draft.tasks()[i]));
  }
  draft.tasks() = std::move(tasks);
  return std::move(draft).build();
}

}  // namespace weft
