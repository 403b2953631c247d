// The packing of weights for the CPU's matrix products, for pack-weights.
#pragma once

#include "runtime/plan/rewrite.h"

namespace weft::execute {

/// The layouts of the methods that products use by default on this CPU.
const plan::WeightLayouts& cpu_weight_layouts();

}  // namespace weft::execute
