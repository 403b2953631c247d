// Weights put once a step into the order in which products read them, instead of once in each product.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "kernels/cpu/packed_gemm.h"
#include "runtime/rewrites/draft.h"
#include "runtime/rewrites/duplicate.h"
#include "runtime/rewrites/rewrites.h"

namespace weft {
namespace {

constexpr std::size_t kA = 0, kB = 1, kC = 2;  // arguments of a Gemm

/// The products that could read one packed weight, in program order.
struct Packing {
  View weight;
  cpu::GemmShape shape;
  std::vector<std::size_t> readers;
};

cpu::GemmShape shape_of(const Gemm& op) {
  return {op.m, op.n, op.k, op.trans_a, op.trans_b, op.accumulate};
}

bool reads_packed_weight(const Graph& graph, const Task& task, cpu::PackedUnit bf16) {
  const auto* gemm = std::get_if<Gemm>(&task.operation);
  if (gemm == nullptr || gemm->packed_b || task.accesses.size() <= kC) return false;
  const auto tensor = [&](std::size_t i) -> const Tensor& { return graph.tensor(task.accesses[i].view.tensor); };
  const Role role = tensor(kB).role;
  if (role != Role::parameter && role != Role::gathered) return false;
  return cpu::default_gemm_method(shape_of(*gemm), tensor(kA).dtype, tensor(kC).dtype, bf16).engine ==
         cpu::GemmMethod::Engine::packed;
}

std::vector<Packing> packings_of(const Graph& graph, cpu::PackedUnit bf16) {
  std::vector<Packing> packings;
  const auto key_of = [](const View& b, const Gemm& op) {
    return std::tuple(b.tensor, b.offset, b.rows, b.cols, b.row_stride, op.n, op.k, op.trans_b);
  };
  std::map<decltype(key_of(View(), Gemm())), std::size_t> places;
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    const Task& task = graph.tasks()[i];
    if (!reads_packed_weight(graph, task, bf16)) continue;
    const auto& gemm = std::get<Gemm>(task.operation);
    const View& weight = task.accesses[kB].view;
    const auto [place, fresh] = places.try_emplace(key_of(weight, gemm), packings.size());
    if (fresh) packings.push_back({weight, shape_of(gemm), {}});
    packings[place->second].readers.push_back(i);
  }
  return packings;
}

}  // namespace

std::shared_ptr<const Graph> pack_weights(const Graph& graph, const PackWeights& rewrite) {
  const cpu::PackedUnit bf16 = rewrite.bf16.value_or(cpu::widest_bf16_unit());
  if (!cpu::has_unit(bf16)) {
    throw UserError(fmt::format("rewrite {} on a CPU without {}", to_string(Rewrite(rewrite)), cpu::to_string(bf16)),
                    "what multiplies bf16 here: `weft doctor` lists it", "write it as in pack-weights=2,fp32");
  }
  const TensorUses uses(graph);
  GraphDraft draft(graph);
  std::vector<std::pair<std::size_t, Task>> packs;  // with the task that each stands before
  for (const auto& [weight, shape, readers] : packings_of(graph, bf16)) {
    if (static_cast<std::int64_t>(readers.size()) < rewrite.uses) continue;
    if (uses.written_between(graph, weight, readers.front(), readers.back())) continue;
    const std::int64_t elements = cpu::packed_b_elements(shape);
    const DType dtype = cpu::packed_b_dtype(cpu::packed_unit(graph.tensor(weight.tensor).dtype, bf16));
    const std::string name = graph.tensor(weight.tensor).name + (shape.trans_b ? ".packed_t" : ".packed");
    const TensorId id = draft.add_tensor({name, dtype, {elements}, Role::workspace});
    const View packed{id, 0, 1, elements, elements};
    Task pack = graph.tasks()[readers.front()];  // its layer, micro-batch and phase
    pack.name = draft.fresh_task_name(pack.name + ".pack");
    pack.operation = PackWeight{shape.n, shape.k, shape.trans_b};
    pack.accesses = {read(weight), write(packed)};
    packs.emplace_back(readers.front(), std::move(pack));
    for (const std::size_t reader : readers) {
      Task& product = draft.tasks()[reader];
      std::get<Gemm>(product.operation).packed_b = true;
      product.accesses.push_back(read(packed));
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
