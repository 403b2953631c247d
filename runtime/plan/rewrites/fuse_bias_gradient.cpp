// Lets the product of a weight's gradient sum the rows of the output's gradient, which it reads, into the bias's.
#include <utility>
#include <variant>

#include "graph/named_accesses.h"
#include "runtime/plan/rewrites/product_fusion.h"
#include "runtime/plan/rewrites/rewrites.h"

namespace weft::plan {
namespace {

class BiasGradientFusion : ProductFusion {
 public:
  explicit BiasGradientFusion(const graph::Graph& graph) : ProductFusion(graph) {}

  std::shared_ptr<const graph::Graph> run() && {
    for (std::size_t i = 0; i < graph_.tasks().size(); ++i) {
      if (std::holds_alternative<graph::BiasGradient>(graph_.tasks()[i].operation)) fuse(i);
    }
    return std::move(draft_).build();
  }

 private:
  void fuse(std::size_t i) {
    const graph::Task& sum = graph_.tasks()[i];
    const graph::NamedAccesses<graph::BiasGradient> accesses(sum);
    const graph::Access &dy = accesses["dy"], &db = accesses["db"];
    for (const std::size_t p : uses_.readers[dy.view.tensor.index()]) {
      if (p >= i) return;
      graph::Task& product = draft_.task(p);
      if (!suits(product, sum, dy.view) || uses_.written_between(graph_, dy.view, p, i)) continue;
      if (accessed_between(db.view, p, i)) continue;
      graph::add_access<graph::Gemm>(product, "db", db,
                                     [](graph::Gemm& gemm) { gemm.epilogue = Epilogue::bias_gradient; });
      return draft_.drop(i);
    }
  }

  bool suits(const graph::Task& product, const graph::Task& sum, const graph::View& dy) const {
    const auto* gemm = std::get_if<graph::Gemm>(&product.operation);
    if (gemm == nullptr || !gemm->trans_a || gemm->has_bias || gemm->epilogue != Epilogue::none) return false;
    if (gemm->accumulate != std::get<graph::BiasGradient>(sum.operation).accumulate) return false;
    const graph::NamedAccesses<graph::Gemm> accesses(product);
    return one_pass(product, sum) && accesses["A"].view == dy &&
           graph_.tensor(accesses["C"].view.tensor).dtype == DType::f32;
  }

  bool accessed_between(const graph::View& view, std::size_t after, std::size_t before) const {
    for (std::size_t t = after; t < before; ++t) {
      for (const graph::Access& access : graph_.tasks()[t].accesses) {
        if (access.view.tensor == view.tensor && graph::overlaps(access.view, view)) return true;
      }
    }
    return false;
  }
};

}  // namespace

std::shared_ptr<const graph::Graph> fuse_bias_gradient(const graph::Graph& graph) {
  return BiasGradientFusion(graph).run();
}

}  // namespace weft::plan
