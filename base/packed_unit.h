// The unit that multiplies bf16 in Weft's own kernels: fp32 vectors after a conversion, or the CPU's bf16 instructions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace weft {

/// The type of an element of a packed operand, and the unit that multiplies it.
enum class PackedUnit : std::uint8_t {
  f32,    // a float
  pairs,  // two bf16 adjacent along k, multiplied by vector instructions (AVX512_BF16)
  amx,    // the same pairs, multiplied by AMX tiles
};

/// In the order of the enumeration.
inline constexpr std::array<std::pair<std::string_view, PackedUnit>, 3> kPackedUnits = {
    {{"fp32", PackedUnit::f32}, {"pairs", PackedUnit::pairs}, {"amx", PackedUnit::amx}}};

constexpr std::string_view to_string(PackedUnit unit) {
  return kPackedUnits.at(static_cast<std::size_t>(unit)).first;
}

}  // namespace weft
