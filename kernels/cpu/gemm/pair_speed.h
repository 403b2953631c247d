// Whether a CPU's instruction for pairs of bf16 (vdpbf16ps) is worth using. AMD's take as long as a multiply-add of
// floats and do twice as much; on Intel's Xeons they take four times as long, so that floats are faster.
#pragma once

#include <optional>

#include "kernels/cpu/gemm/packed_unit.h"

namespace weft::cpu {

/// How many times as fast as multiply-adds of floats pairs of bf16 are multiplied and added, in registers of one core:
/// the ratio of the shortest of many loops of each kind, which take turns, so that other work on the machine doesn't
/// count. Takes about a millisecond. Null where this build has no pairs.
std::optional<double> measure_pairs_gain();

/// measure_pairs_gain() as it was when this process asked first.
std::optional<double> pairs_gain();

/// Pairs have to gain at least so much: the ratios that CPUs have (2, 1, a half) lie far from it, and where it is a
/// tie, bf16 is converted.
inline constexpr double kLeastPairsGain = 1.4;

/// What multiplies bf16 fastest, of a CPU with this widest unit: pairs stand back where they don't gain.
PackedUnit fastest_bf16_unit(PackedUnit widest, std::optional<double> gain);

/// The same of this CPU. Measures where the widest unit is pairs.
PackedUnit fastest_bf16_unit();

}  // namespace weft::cpu
