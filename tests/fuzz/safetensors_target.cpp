// Safetensors files: each tensor of an accepted file is inside the file and is found by its name.
#include <numeric>
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
      const auto bytes = file.bytes(tensor);
      fuzz::require(bytes.size() <= size, "a tensor larger than its file");
      // Reads every byte, so that the address sanitizer detects a byte outside the file.
      const int sum =
          std::accumulate(bytes.begin(), bytes.end(), 0, [](int a, std::byte b) { return (a + int(b)) & 1; });
      fuzz::require(sum < 2 && file.find(tensor.name) == &tensor, "a tensor that isn't found by its name");
    }
    for (const train::StoredTensorInfo& tensor : file.tensors()) file.read(tensor);
  });
  return 0;
}
