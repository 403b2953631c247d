// Configuration files: what is accepted is written as TOML that is read back to the same configuration.
#include "tests/fuzz/fuzz_target.h"
#include "train/config.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  RunConfig config;
  const bool accepted = fuzz::accepted([&] {
    load_toml_text(config, fuzz::text_of(data, size), "fuzz.toml");
    resolve(config, 0);
  });
  if (!accepted) return 0;
  const std::string text = dump_toml(config);
  RunConfig again;
  load_toml_text(again, text, "dump.toml");
  fuzz::require(dump_toml(again) == text, "a configuration that differs when it is read back:\n" + text);
  return 0;
}
