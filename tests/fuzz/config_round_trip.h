// What both targets of configurations require of one that is accepted.
#pragma once

#include <string>

#include "tests/fuzz/fuzz_target.h"
#include "train/config/config.h"

namespace weft::fuzz {

/// The TOML that is written of a configuration is read back to the same configuration.
inline void require_round_trip(const train::RunConfig& config) {
  const std::string text = train::dump_toml(config);
  train::RunConfig again;
  train::load_toml_text(again, text, "dump.toml");
  require(train::dump_toml(again) == text, "a configuration that differs when it is read back:\n" + text);
}

}  // namespace weft::fuzz
