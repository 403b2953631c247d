// What both targets of configurations require of one that is accepted.
#pragma once

#include <string>

#include "tests/fuzz/fuzz_target.h"
#include "train/config/config.h"

namespace weft::fuzz {

/// The TOML that is written of a configuration is read back to the same configuration.
inline void require_round_trip(const RunConfig& config) {
  const std::string text = dump_toml(config);
  RunConfig again;
  load_toml_text(again, text, "dump.toml");
  require(dump_toml(again) == text, "a configuration that differs when it is read back:\n" + text);
}

}  // namespace weft::fuzz
