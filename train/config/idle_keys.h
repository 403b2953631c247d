// Keys that change nothing in a configuration: on a command line they are a mistake.
#pragma once

#include <span>

#include "train/config/config.h"

namespace weft::train {

/// What a command does with a configuration.
struct KeyUse {
  bool tries_grids = false;   // others than the key's
  bool takes_laptop = false;  // counts costs of one where no machine is named
};

/// Throws UserError naming the first of `settings`, those of the command line, that has no effect on `config`, to which
/// they were applied, and another value than the default: rope-theta of a gpt2, bf16-products with dtype fp32.
/// Configuration files may have such keys, because commands write all of them.
void refuse_idle_keys(const RunConfig& config, std::span<const Setting> settings, KeyUse use = {});

}  // namespace weft::train
