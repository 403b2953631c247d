// What multiplies bf16 in Weft's own kernels: fp32 vectors after a conversion, or the CPU's instructions for bf16.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/dtype.h"

namespace weft::cpu {

/// What an element of a packed operand is, and what multiplies it.
enum class PackedUnit : std::uint8_t {
  f32,    // a float
  pairs,  // two bf16 that are neighbours along k, multiplied by vectors (AVX512_BF16)
  amx,    // the same, multiplied by AMX tiles
};

/// In the enumeration's order.
inline constexpr std::array<std::pair<std::string_view, PackedUnit>, 3> kPackedUnits = {
    {{"fp32", PackedUnit::f32}, {"pairs", PackedUnit::pairs}, {"amx", PackedUnit::amx}}};

constexpr std::string_view to_string(PackedUnit unit) {
  return kPackedUnits.at(static_cast<std::size_t>(unit)).first;
}

/// Whether this build has the unit's code and this CPU runs it.
bool has_unit(PackedUnit unit);

/// The most of AMX, pairs and fp32 that this build and CPU have. It says what can run, not what is fast: on CPUs whose
/// AMX is hidden by a hypervisor pairs may be half as fast as fp32 (see pair_speed.h).
PackedUnit widest_bf16_unit();

/// What A and B of this dtype are packed to, where bf16 is multiplied by `bf16`.
PackedUnit packed_unit(DType inputs, PackedUnit bf16 = widest_bf16_unit());

}  // namespace weft::cpu
