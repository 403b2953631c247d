// The units by which this build and this CPU can multiply bf16 (base/packed_unit.h), and whether a CPU's instruction
// for pairs of bf16 (vdpbf16ps) is worth using. On AMD it takes as long as a multiply-add of floats and does twice as
// much work. On Intel's Xeons it takes four times as long, so floats are faster.
#pragma once

#include <optional>

#include "base/dtype.h"
#include "base/packed_unit.h"

namespace weft::cpu {

/// Whether this build has the unit's code and this CPU runs it.
bool has_unit(PackedUnit unit);

/// The first of amx, pairs and f32 that this build and CPU have. It tells what can run, not what is fast: on a CPU
/// whose AMX a hypervisor hides, pairs may be half as fast as fp32 (see pairs_gain()).
PackedUnit widest_bf16_unit();

/// The type to which A and B of this dtype are packed if `bf16` is the unit that multiplies bf16.
PackedUnit packed_unit(DType inputs, PackedUnit bf16 = widest_bf16_unit());

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
