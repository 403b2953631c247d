// Lets a branch's last product add its result to the residual stream.
#include <utility>
#include <variant>

#include "graph/named_accesses.h"
#include "runtime/plan/rewrites/product_fusion.h"
#include "runtime/plan/rewrites/rewrites.h"

namespace weft::plan {
namespace {

class ResidualFusion : ProductFusion {
 public:
  explicit ResidualFusion(const graph::Graph& graph) : ProductFusion(graph) {}

  std::shared_ptr<const graph::Graph> run() && {
    for (std::size_t i = 0; i < graph_.tasks().size(); ++i) {
      if (std::holds_alternative<graph::Add>(graph_.tasks()[i].operation)) fuse(i);
    }
    return std::move(draft_).build();
  }

 private:
  // The product will read the residual, so it must be there before, and stay.
  void fuse(std::size_t i) {
    if (graph_.tasks()[i].phase != graph::Phase::forward) return;
    const graph::NamedAccesses<graph::Add> accesses(graph_.tasks()[i]);
    const graph::View &residual = accesses["a"].view, &branch = accesses["b"].view, &sum = accesses["out"].view;
    graph::Task* const product = product_of(branch, i);
    if (product == nullptr || uses_.readers[branch.tensor.index()].size() > 1 || !fits(sum, branch, i)) return;
    if (!whole(residual) || residual.tensor == branch.tensor || residual.tensor == sum.tensor) return;
    if (graph_.tensor(residual.tensor).dtype != graph_.tensor(branch.tensor).dtype) return;
    const std::size_t place = uses_.writers[branch.tensor.index()].front();
    if (uses_.written_between(graph_, residual, place, i)) return;
    graph::replace_access<graph::Gemm>(*product, "C", graph::write(sum));
    graph::add_access<graph::Gemm>(*product, "addend", graph::read(residual),
                                   [](graph::Gemm& gemm) { gemm.epilogue = Epilogue::add; });
    draft_.drop(i);
  }
};

}  // namespace

std::shared_ptr<const graph::Graph> fuse_residual(const graph::Graph& graph) {
  return ResidualFusion(graph).run();
}

}  // namespace weft::plan
