// The key of the rewrites, which are parsed when they are set: the graph's rewrites, and batch-split, which lowers
// another graph. Internal to train/config/config*.cpp.
#pragma once

#include "train/config/config_table.h"

namespace weft::train {

ConfigEntry rewrites_key();

}  // namespace weft::train
