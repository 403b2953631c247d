// The table of the level in use, in a build with all levels; see kernel_choice.h.
#pragma once

#include "kernels/cpu/isa/kernel_table.h"

namespace weft::cpu {

/// Loads the CPU's highest level if none is chosen yet.
const KernelTable& kernels();

}  // namespace weft::cpu
