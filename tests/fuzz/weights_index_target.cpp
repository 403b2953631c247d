// The index of sharded weights: whatever it names, no file outside its folder is opened, and a model of which all
// weights are missing is never accepted.
#include "tests/fuzz/fuzz_target.h"
#include "train/safetensors.h"
#include "train/weights.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  static const fuzz::InputFolder folder;
  static const bool shard_written = [] {
    // Stands beside the folder of weights: an index that leads here leads outside.
    write_safetensors(folder.path() / "outside.safetensors", {});
    std::filesystem::create_directories(folder.path() / "weights");
    write_safetensors(folder.path() / "weights" / "inside.safetensors", {});
    return true;
  }();
  fuzz::require(shard_written, "no shard");
  folder.write("weights/model.safetensors.index.json", fuzz::text_of(data, size));
  ModelConfig model;
  fuzz::accepted([&] { load_weights(folder.path() / "weights", model, {}); });
  return 0;
}
