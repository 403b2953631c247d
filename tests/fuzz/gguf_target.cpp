// GGUF files: each tensor of an accepted file is inside the file; its model, its weights and its tokenizer are accepted
// or refused.
#include <cstddef>
#include <string>
#include <vector>

#include "base/files/gguf_file.h"
#include "tests/fuzz/fuzz_target.h"
#include "text/formats/gguf_tokenizer.h"
#include "train/checkpoint/gguf_blocks.h"
#include "train/checkpoint/gguf_model.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  static const testing::TemporaryFolder folder = fuzz::input_folder();
  const auto path = folder.write("model.gguf", fuzz::text_of(data, size));
  fuzz::accepted([&] {
    const GgufFile file(path);
    for (const GgufTensor& tensor : file.tensors()) {
      fuzz::require(tensor.begin <= tensor.end && tensor.end <= size, "a tensor outside its file");
      fuzz::require(file.find(tensor.name) == &tensor, "a tensor that isn't found by its name");
      fuzz::accepted([&] {
        std::vector<float> values(tensor.elements());
        train::read_elements(file, tensor, 0, values);
      });
    }
    fuzz::accepted([&] { fuzz::require(train::read_gguf_config(file).model.layers > 0, "a model without layers"); });
    fuzz::accepted([&] {
      const text::TokenizerPointer tokenizer = text::load_gguf_tokenizer(file);
      for (const std::int32_t id : tokenizer->encode("ab abc 12\n \xC3\xA9<end>\xE4\xB8\xAD</s>")) {
        fuzz::require(tokenizer->token_text(id).has_value(), "an id without a token");
      }
    });
  });
  return 0;
}
