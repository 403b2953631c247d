// The key of the rewrites, which are parsed where they are set: those of the graph, and batch-split, which lowers
// another one. Internal to train/config/config*.cpp.
#pragma once

#include "train/config/config_table.h"

namespace weft::train {

ConfigEntry rewrites_key();

}  // namespace weft::train
