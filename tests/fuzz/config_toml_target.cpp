// Configuration files: an accepted file is written as TOML that reads back as the same configuration.
#include "tests/fuzz/config_round_trip.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  fuzz::require_round_trip(
      [&](train::RunConfig& config) { train::load_toml_text(config, fuzz::text_of(data, size), "fuzz.toml"); });
  return 0;
}
