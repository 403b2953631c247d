// The conditions under which a product can take over the task after it; see product_fusion.h.
#include "runtime/plan/rewrites/product_fusion.h"

#include <algorithm>
#include <cstdint>
#include <variant>
#include <vector>

#include "graph/named_accesses.h"

namespace weft::plan {

bool ProductFusion::one_pass(const graph::Task& a, const graph::Task& b) {
  return a.layer == b.layer && a.micro_batch == b.micro_batch && a.phase == b.phase;
}

graph::Task* ProductFusion::product_of(const graph::View& matrix, std::size_t reader) {
  const auto& writers = uses_.writers[matrix.tensor.index()];
  if (writers.size() != 1 || writers.front() >= reader || !whole(matrix)) return nullptr;
  graph::Task& task = draft_.task(writers.front());
  const auto* gemm = std::get_if<graph::Gemm>(&task.operation);
  if (gemm == nullptr || gemm->accumulate || gemm->epilogue != Epilogue::none) return nullptr;
  if (!one_pass(task, graph_.tasks()[reader])) return nullptr;
  const graph::Access& c = graph::NamedAccesses<graph::Gemm>(task)["C"];
  const bool all = c.view.tensor == matrix.tensor && c.mode == graph::AccessMode::write && whole(c.view);
  return all && gemm->m * gemm->n == matrix.elements() ? &task : nullptr;
}

bool ProductFusion::fits(const graph::View& result, const graph::View& like, std::size_t i) const {
  const graph::Tensor &to = graph_.tensor(result.tensor), &from = graph_.tensor(like.tensor);
  const auto first = [](const std::vector<std::size_t>& tasks) { return tasks.empty() ? SIZE_MAX : tasks.front(); };
  const std::size_t index = result.tensor.index();
  return whole(result) && result.elements() == like.elements() && to.dtype == from.dtype &&
         to.role == graph::Role::activation && from.role == graph::Role::activation &&
         std::min(first(uses_.readers[index]), first(uses_.writers[index])) == i;
}

bool ProductFusion::whole(const graph::View& view) const {
  return view.offset == 0 && view.contiguous() && view.elements() == graph_.tensor(view.tensor).elements();
}

}  // namespace weft::plan
