// The units by which this build and this CPU can multiply bf16 (base/packed_unit.h).
#pragma once

#include "base/dtype.h"
#include "base/packed_unit.h"

namespace weft::cpu {

/// Whether this build has the unit's code and this CPU runs it.
bool has_unit(PackedUnit unit);

/// The first of amx, pairs and f32 that this build and CPU have. It tells what can run, not what is fast: on a CPU
/// whose AMX a hypervisor hides, pairs may be half as fast as fp32 (see pair_speed.h).
PackedUnit widest_bf16_unit();

/// The type to which A and B of this dtype are packed if `bf16` is the unit that multiplies bf16.
PackedUnit packed_unit(DType inputs, PackedUnit bf16 = widest_bf16_unit());

}  // namespace weft::cpu
