// Vocabulary files but tokenizer.json, which has a target of its own. The first byte chooses the format: tiktoken,
// tekken.json, tokenizer.model, or vocab.json with the merges behind a NUL. An accepted tokenizer gives ids of its
// vocabulary.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tests/fuzz/fuzz_target.h"
#include "text/formats/tokenizer_file.h"

namespace {

weft::text::TokenizerPointer load(unsigned format, std::string_view bytes) {
  using namespace weft;
  switch (format % 4) {
    case 0:
      return text::load_tiktoken("none/words.tiktoken", std::string(bytes));
    case 1:
      return text::load_tekken("none/tekken.json", std::string(bytes), text::read_tokenizer_json(bytes, "tekken.json"));
    case 2:
      return text::load_sentencepiece("none/tokenizer.model", std::string(bytes));
    default:
      break;
  }
  static const testing::TemporaryFolder folder = fuzz::input_folder();
  const std::size_t cut = std::min(bytes.find('\0'), bytes.size());
  const auto vocabulary = folder.write("vocab.json", bytes.substr(0, cut));
  const auto merges = folder.write("merges.txt", bytes.substr(std::min(cut + 1, bytes.size())));
  return text::load_gpt2_files(vocabulary, merges);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  if (size == 0) return 0;
  text::TokenizerPointer tokenizer;
  if (!fuzz::accepted([&] { tokenizer = load(data[0], fuzz::text_of(data + 1, size - 1)); })) return 0;
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
