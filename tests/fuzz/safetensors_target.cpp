// Safetensors files: each tensor of an accepted file is inside the file and is found by its name.
#include <cstddef>
#include <vector>

#include "tests/fuzz/fuzz_target.h"
#include "train/checkpoint/safetensors.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  static const testing::TemporaryFolder folder = fuzz::input_folder();
  const auto path = folder.write("model.safetensors", fuzz::text_of(data, size));
  fuzz::accepted([&] {
    const train::SafetensorsFile file(path);
    for (const train::StoredTensorInfo& tensor : file.tensors()) {
      fuzz::require(tensor.end - tensor.begin <= size, "a tensor larger than its file");
      fuzz::require(file.find(tensor.name) == &tensor, "a tensor that isn't found by its name");
      std::vector<std::byte> bytes(tensor.end - tensor.begin);
      file.read_bytes(tensor, 0, bytes);  // throws RuntimeFault, which nobody accepts, for a byte outside the file
    }
    for (const train::StoredTensorInfo& tensor : file.tensors()) file.read(tensor);
  });
  return 0;
}
