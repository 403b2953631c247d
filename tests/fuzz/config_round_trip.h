// The requirement of both configuration targets for an accepted configuration.
#pragma once

#include <string>

#include "tests/fuzz/fuzz_target.h"
#include "train/config/config.h"

namespace weft::fuzz {

/// Reading the TOML written for a configuration gives the same configuration.
inline void require_round_trip(const train::RunConfig& config) {
  const std::string text = train::dump_toml(config);
  train::RunConfig again;
  train::load_toml_text(again, text, "dump.toml");
  require(train::dump_toml(again) == text, "a configuration that differs when it is read back:\n" + text);
}

}  // namespace weft::fuzz
