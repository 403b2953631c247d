// The index of sharded weights, beside one shard that it may name. The shard is empty, so an index that names only this
// shard is accepted for a model without parameters.
#include "tests/fuzz/fuzz_target.h"
#include "train/checkpoint/safetensors.h"
#include "train/checkpoint/weights.h"

namespace {

struct Weights {
  Weights() { weft::train::write_safetensors(folder.path() / "inside.safetensors", {}); }
  weft::testing::TemporaryFolder folder = weft::fuzz::input_folder();
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  static const Weights weights;
  weights.folder.write("model.safetensors.index.json", fuzz::text_of(data, size));
  fuzz::accepted([&] { train::load_weights(weights.folder.path(), ops::ModelConfig(), {}); });
  return 0;
}
