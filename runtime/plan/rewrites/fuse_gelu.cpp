// Fuses GELU, and its gradient, into the product whose result it reads.
#include <algorithm>
#include <utility>

#include "graph/named_accesses.h"
#include "runtime/plan/rewrites/duplicate.h"
#include "runtime/plan/rewrites/graph_draft.h"
#include "runtime/plan/rewrites/rewrites.h"

namespace weft::plan {
namespace {

bool one_pass(const graph::Task& a, const graph::Task& b) {
  return a.layer == b.layer && a.micro_batch == b.micro_batch && a.phase == b.phase;
}

class GeluFusion {
 public:
  explicit GeluFusion(const graph::Graph& graph) : graph_(graph), uses_(graph), draft_(graph) {}

  std::shared_ptr<const graph::Graph> run() && {
    for (std::size_t i = 0; i < graph_.tasks().size(); ++i) {
      const graph::Operation& operation = graph_.tasks()[i].operation;
      if (std::holds_alternative<graph::GeluForward>(operation)) fuse_forward(i);
      if (std::holds_alternative<graph::GeluBackward>(operation)) fuse_backward(i);
    }
    return std::move(draft_).build();
  }

 private:
  void fuse_forward(std::size_t i) {
    const graph::NamedAccesses<graph::GeluForward> accesses(graph_.tasks()[i]);
    const graph::View &x = accesses["x"].view, &y = accesses["y"].view;
    graph::Task* const product = product_of(x, i);
    if (product == nullptr || !std::get<graph::Gemm>(product->operation).has_bias || !fits(y, x, i)) return;
    graph::add_access<graph::Gemm>(*product, "gelu", graph::write(y),
                                   [](graph::Gemm& gemm) { gemm.epilogue = Epilogue::gelu; });
    draft_.drop(i);
  }

  // The product will read x, so x must be written before it.
  void fuse_backward(std::size_t i) {
    const graph::NamedAccesses<graph::GeluBackward> accesses(graph_.tasks()[i]);
    const graph::View &x = accesses["x"].view, &dy = accesses["dy"].view, &dx = accesses["dx"].view;
    graph::Task* const product = product_of(dy, i);
    if (product == nullptr || std::get<graph::Gemm>(product->operation).has_bias || !fits(dx, dy, i)) return;
    const std::size_t place = uses_.writers[dy.tensor.index()].front();
    if (uses_.readers[dy.tensor.index()].size() > 1 || !whole(x) || x.tensor == dy.tensor) return;
    if (uses_.written_between(graph_, x, place, i)) return;
    graph::replace_access<graph::Gemm>(*product, "C", graph::write(dx));
    graph::add_access<graph::Gemm>(*product, "x", graph::read(x),
                                   [](graph::Gemm& gemm) { gemm.epilogue = Epilogue::gelu_gradient; });
    draft_.drop(i);
  }

  // The product that is the only writer of the whole matrix, if `reader` reads all of it in the same pass and the
  // product can have an epilogue.
  graph::Task* product_of(const graph::View& matrix, std::size_t reader) {
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

  // Can the product that writes `like` write task i's `result` too, at the product's position? If so, no task may
  // access `result` before i.
  bool fits(const graph::View& result, const graph::View& like, std::size_t i) const {
    const graph::Tensor &to = graph_.tensor(result.tensor), &from = graph_.tensor(like.tensor);
    const auto first = [](const std::vector<std::size_t>& tasks) { return tasks.empty() ? SIZE_MAX : tasks.front(); };
    const std::size_t index = result.tensor.index();
    return whole(result) && result.elements() == like.elements() && to.dtype == from.dtype &&
           to.role == graph::Role::activation && from.role == graph::Role::activation &&
           std::min(first(uses_.readers[index]), first(uses_.writers[index])) == i;
  }

  bool whole(const graph::View& view) const {
    return view.offset == 0 && view.contiguous() && view.elements() == graph_.tensor(view.tensor).elements();
  }

  const graph::Graph& graph_;
  TensorUses uses_;
  GraphDraft draft_;
};

}  // namespace

std::shared_ptr<const graph::Graph> fuse_gelu(const graph::Graph& graph) {
  return GeluFusion(graph).run();
}

}  // namespace weft::plan
