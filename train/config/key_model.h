// The keys of the model: its name, and its sizes one by one. Internal to train/config/config*.cpp.
#pragma once

#include <vector>

#include "train/config/config_table.h"

namespace weft::train {

ConfigEntry model_key();
/// Of the sizes: one that differs from the named model's makes the model a custom one.
std::vector<ConfigEntry> model_size_keys();

}  // namespace weft::train
