// Manifests of checkpoints: an accepted one names a model that is one, and a configuration of text.
#include "tests/fuzz/fuzz_target.h"
#include "train/checkpoint.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  static const fuzz::InputFolder folder;
  folder.write("manifest.json", fuzz::text_of(data, size));
  CheckpointInfo info;
  if (!fuzz::accepted([&] { info = read_checkpoint_info(folder.path()); })) return 0;
  fuzz::require(info.step >= 0, "a negative step");
  validate(info.model);
  return 0;
}
