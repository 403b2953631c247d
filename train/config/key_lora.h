// The key of low-rank adapters: "rank=8,alpha=16,on=qkv+out+mlp". Internal to train/config/config*.cpp.
#pragma once

#include "train/config/config_table.h"

namespace weft::train {

ConfigEntry lora_key();

}  // namespace weft::train
