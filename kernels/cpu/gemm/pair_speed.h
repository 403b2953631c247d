// Whether a CPU's instruction for pairs of bf16 (vdpbf16ps) is worth using. On AMD it takes as long as a multiply-add
// of floats and does twice as much work. On Intel's Xeons it takes four times as long, so floats are faster.
#pragma once

#include <optional>

#include "kernels/cpu/gemm/packed_unit.h"

namespace weft::cpu {

/// Speed of multiply-adds of pairs relative to floats (pairs / floats) in registers of one core: the ratio of the
/// shortest of many loops of each kind. The two kinds of loop alternate, so that other work on the machine doesn't
/// distort the ratio. Takes about a millisecond. Nothing if this build has no pairs.
std::optional<double> measure_pairs_gain();

/// measure_pairs_gain(), measured at this process's first call.
std::optional<double> pairs_gain();

/// The least gain for which pairs are used. The ratios of CPUs (2, 1, ½) are far from it; at 1, bf16 is converted.
inline constexpr double kLeastPairsGain = 1.4;

/// The fastest unit for bf16 on a CPU with this widest unit: pairs are used only if they gain.
PackedUnit fastest_bf16_unit(PackedUnit widest, std::optional<double> gain);

/// The fastest unit for bf16 on this CPU. Measures it if the widest unit is pairs.
PackedUnit fastest_bf16_unit();

}  // namespace weft::cpu
