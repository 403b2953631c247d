// What this build and this CPU can multiply bf16 with (base/packed_unit.h).
#pragma once

#include "base/dtype.h"
#include "base/packed_unit.h"

namespace weft::cpu {

/// Whether this build has the unit's code and this CPU runs it.
bool has_unit(PackedUnit unit);

/// The most of AMX, pairs and fp32 that this build and CPU have. It says what can run, not what is fast: on CPUs whose
/// AMX is hidden by a hypervisor pairs may be half as fast as fp32 (see pair_speed.h).
PackedUnit widest_bf16_unit();

/// What A and B of this dtype are packed to, where bf16 is multiplied by `bf16`.
PackedUnit packed_unit(DType inputs, PackedUnit bf16 = widest_bf16_unit());

}  // namespace weft::cpu
