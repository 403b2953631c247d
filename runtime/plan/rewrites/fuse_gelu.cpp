// Fuses GELU, and its gradient, into the product whose result it reads.
#include <utility>

#include "graph/named_accesses.h"
#include "runtime/plan/rewrites/product_fusion.h"
#include "runtime/plan/rewrites/rewrites.h"

namespace weft::plan {
namespace {

class GeluFusion : ProductFusion {
 public:
  explicit GeluFusion(const graph::Graph& graph) : ProductFusion(graph) {}

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
};

}  // namespace

std::shared_ptr<const graph::Graph> fuse_gelu(const graph::Graph& graph) {
  return GeluFusion(graph).run();
}

}  // namespace weft::plan
