#include "runtime/execute/layouts/cpu_weight_layouts.h"

#include <fmt/format.h>

#include "base/error.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/gemm_method.h"

namespace weft::execute {
namespace {

PackedUnit unit_of(const plan::PackWeights& rewrite) {
  return rewrite.bf16.value_or(cpu::widest_bf16_unit());
}

class CpuWeightLayouts final : public plan::WeightLayouts {
 public:
  void require(const plan::PackWeights& rewrite) const override {
    const PackedUnit bf16 = unit_of(rewrite);
    if (cpu::has_unit(bf16)) return;
    throw UserError(
        fmt::format("rewrite {} on a CPU without {}", plan::to_string(plan::Rewrite(rewrite)), to_string(bf16)),
        "a unit that multiplies bf16 on this CPU: `weft doctor` lists them", "write it as in pack-weights=2,fp32");
  }

  std::optional<plan::PackedWeight> packed(const graph::Gemm& product, DType inputs, DType output,
                                           const plan::PackWeights& rewrite) const override {
    const PackedUnit bf16 = unit_of(rewrite);
    const cpu::GemmShape shape{product.m, product.n, product.k, product.trans_a, product.trans_b, product.accumulate};
    if (cpu::default_gemm_method(shape, inputs, output, bf16).engine != cpu::GemmMethod::Engine::packed) {
      return std::nullopt;
    }
    return plan::PackedWeight{cpu::packed_b_elements(shape), cpu::packed_b_dtype(cpu::packed_unit(inputs, bf16))};
  }
};

}  // namespace

const plan::WeightLayouts& cpu_weight_layouts() {
  static const CpuWeightLayouts layouts;
  return layouts;
}

}  // namespace weft::execute
