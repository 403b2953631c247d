// Configuration files: an accepted file is written as TOML that reads back as the same configuration.
#include "tests/fuzz/config_round_trip.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  train::RunConfig config;
  const bool accepted = fuzz::accepted([&] {
    train::load_toml_text(config, fuzz::text_of(data, size), "fuzz.toml");
    train::fill_in(config, 0);
  });
  if (accepted) fuzz::require_round_trip(config);
  return 0;
}
