// Hugging Face's tokenizer.json: an accepted tokenizer gives ids of its vocabulary, and texts of them.
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/fuzz/fuzz_target.h"
#include "text/formats/tokenizer_file.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  const std::string file(fuzz::text_of(data, size));
  text::TokenizerPointer tokenizer;
  const auto load = [&] {
    const Document document = text::read_tokenizer_json(file, "tokenizer.json");
    tokenizer = text::load_tokenizer_json("none/tokenizer.json", file, document);
  };
  if (!fuzz::accepted(load)) return 0;
  try {
    for (const std::int32_t id : tokenizer->encode("ab abc 12\n \xC3\xA9<end>\xE4\xB8\xAD</s>")) {
      fuzz::require(tokenizer->token_text(id).has_value(), "an id without a token");
      tokenizer->decode(std::vector<std::int32_t>{id});
    }
  } catch (const RuntimeFault&) {
    // A pattern that takes too long.
  }
  return 0;
}
