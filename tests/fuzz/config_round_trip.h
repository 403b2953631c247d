// The requirement of both configuration targets for an accepted configuration.
#pragma once

#include <string>

#include "tests/fuzz/fuzz_target.h"
#include "train/config/config.h"

namespace weft::fuzz {

/// If load(config) accepts a configuration, reading the TOML written for it gives the same configuration.
template <class Load>
void require_round_trip(Load load) {
  train::RunConfig config;
  const auto read = [&] {
    load(config);
    train::fill_in(config, 0);
  };
  if (!accepted(read)) return;
  const std::string text = train::dump_toml(config);
  train::RunConfig again;
  train::load_toml_text(again, text, "dump.toml");
  require(train::dump_toml(again) == text, "a configuration that differs when it is read back:\n" + text);
}

}  // namespace weft::fuzz
