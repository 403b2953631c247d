// The keys of the ranks: how many, along which axes, in which order. Internal to train/config/config*.cpp.
#pragma once

#include "train/config/config_table.h"

namespace weft::train {

/// Setting the ranks anew lets the data axis be filled in anew, so that a dumped config runs with other --ranks.
ConfigEntry ranks_key();
ConfigEntry grid_key();
ConfigEntry axis_order_key();
ConfigEntry stages_key();
ConfigEntry pipe_chunks_key();

}  // namespace weft::train
