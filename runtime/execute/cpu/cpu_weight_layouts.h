// How the CPU's matrix products want the weights that they read: what pack-weights asks.
#pragma once

#include "runtime/plan/rewrite.h"

namespace weft {

/// Those of the methods that products take here by default.
const WeightLayouts& cpu_weight_layouts();

}  // namespace weft
