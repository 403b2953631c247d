// How the CPU's matrix products want the weights that they read: what pack-weights asks.
#pragma once

#include "runtime/plan/rewrite.h"

namespace weft::execute {

/// Those of the methods that products take here by default.
const plan::WeightLayouts& cpu_weight_layouts();

}  // namespace weft::execute
