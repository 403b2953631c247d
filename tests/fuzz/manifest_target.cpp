// Manifests of checkpoints: an accepted manifest describes a valid model, and is written as a manifest that reads back
// equal.
#include "tests/fuzz/fuzz_target.h"
#include "train/checkpoint/manifest.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  train::Manifest manifest;
  if (!fuzz::accepted([&] { manifest = train::parse_manifest(fuzz::text_of(data, size), "manifest.json"); })) return 0;
  ops::validate(manifest.info.model);
  const std::string text = train::to_json(manifest);
  fuzz::require(train::to_json(train::parse_manifest(text, "written.json")) == text,
                "a manifest that differs when it is read back");
  return 0;
}
