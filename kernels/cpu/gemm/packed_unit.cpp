// The units of this build and CPU; see packed_unit.h.
#include "kernels/cpu/gemm/packed_unit.h"

#include "kernels/cpu/gemm/gemm_amx.h"
#include "kernels/cpu/gemm/gemm_method.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {

bool has_unit(PackedUnit unit) {
  switch (unit) {
    case PackedUnit::f32:
      return true;
    case PackedUnit::pairs:
      return kHasPairs;
    case PackedUnit::amx:
      return kHasAmx && bf16_in_amx();
  }
  return false;
}

PackedUnit widest_bf16_unit() {
  if (has_unit(PackedUnit::amx)) return PackedUnit::amx;
  return has_unit(PackedUnit::pairs) && !bf16_in_amx() ? PackedUnit::pairs : PackedUnit::f32;
}

PackedUnit packed_unit(DType inputs, PackedUnit bf16) {
  return inputs == DType::bf16 ? bf16 : PackedUnit::f32;
}

}  // namespace weft::cpu
